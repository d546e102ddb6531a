// The admin's pages: how far books are read without reloading, and buttons that say that something is under way.
"use strict";
(() => {
  for (const form of document.querySelectorAll("form[data-busy]")) {
    form.addEventListener("submit", () => {
      const button = form.querySelector("button");
      button.textContent = form.dataset.busy;
      // After the form is sent: a disabled button would not go with it.
      setTimeout(() => { button.disabled = true; }, 0);
    });
  }

  const files = document.querySelector("input[data-max-mb]");
  files?.addEventListener("change", () => {
    const bytes = [...files.files].reduce((sum, file) => sum + file.size, 0);
    files.setCustomValidity(bytes > Number(files.dataset.maxMb) * 1e6 ? files.dataset.tooLarge : "");
    files.reportValidity();
  });

  const followed = document.querySelector("[data-progress]");
  if (!followed) return;
  const look = async () => {
    const answer = await fetch(followed.dataset.progress, { headers: { Accept: "application/json" } });
    if (!answer.ok) return;
    const { books, states } = await answer.json();
    // What is being filled in is not lost to a reload.
    const filling = [...document.querySelectorAll("form[enctype] input")].some((input) => input.value !== input.defaultValue);
    if (states !== followed.dataset.states && !filling) { location.reload(); return; }
    for (const book of books) {
      const cell = document.querySelector(`[data-book="${book.id}"]`);
      const pages = cell?.querySelector(".pages"), bar = cell?.querySelector("progress");
      if (pages) pages.textContent = pages.textContent.replace(/\d+/, String(book.pages_read));
      if (bar) bar.value = book.pages_read;
    }
  };
  setInterval(() => { look().catch(() => { /* The next look may succeed. */ }); }, 1500);
})();
