// Learning by conversation: asks over a stream, shows what is going on, then puts the checked turn in its place as the
// server draws it, so that a page that is loaded again looks the same. Without this script the form works too.
"use strict";
(() => {
  const chat = document.getElementById("chat"), form = document.getElementById("ask");
  if (!chat || !form) return;
  const words = chat.dataset;
  const [turns, question, send, stop, status, error] =
    ["turns", "question", "send", "stop", "status", "error"].map((id) => document.getElementById(id));
  let running = null;

  // --- The draft of a question survives a reload; everybody's at a shared computer is their own. ---
  const conversation = () => form.elements.conversation_id.value;
  const draftKey = () => "draft:" + words.person + ":" + (conversation() || "new");
  const keepDraft = () => {
    try {
      if (question.value) sessionStorage.setItem(draftKey(), question.value);
      else sessionStorage.removeItem(draftKey());
    } catch { /* Private windows may keep nothing. */ }
  };
  const keptDraft = () => { try { return sessionStorage.getItem(draftKey()); } catch { return null; } };

  // --- What is going on: a line for everybody, said once for each step; the seconds are for the eye alone. ---
  const seconds = document.createElement("span");
  seconds.setAttribute("aria-hidden", "true");
  const step = document.createElement("span");
  status.append(step, " ", seconds);
  let ticking = null;
  const tell = (text) => { if (step.textContent !== text) step.textContent = text; };
  const startClock = () => {
    const begin = Date.now();
    ticking = setInterval(() => { seconds.textContent = Math.round((Date.now() - begin) / 1000) + " s"; }, 1000);
  };
  const stopClock = () => { clearInterval(ticking); seconds.textContent = ""; };
  const complain = (text) => { error.textContent = text; error.hidden = !text; };

  const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;
  const toEnd = () => scrollTo(0, document.documentElement.scrollHeight);

  async function* eventsOf(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      let end;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        const lines = rest.slice(0, end).split("\n");
        rest = rest.slice(end + 2);
        const field = (name) => lines.find((line) => line.startsWith(name))?.slice(name.length);
        const data = field("data: ");
        if (data !== undefined) yield [field("event: ") ?? "message", JSON.parse(data)];
      }
    }
  }

  function pendingTurn(text) {
    const card = document.getElementById("pending").content.cloneNode(true).firstElementChild;
    card.querySelector(".question").textContent = text;
    turns.append(card);
    document.getElementById("empty")?.remove();
    return card;
  }

  function noteOn(card, text, isBad) {
    const note = card.querySelector(".notice");
    note.textContent = text;
    note.hidden = false;
    note.classList.toggle("bad", Boolean(isBad));
  }

  function offerAgain(card, text) {
    const again = card.querySelector(".again");
    again.elements.question.value = text;
    again.elements.conversation_id.value = conversation();
    again.hidden = false;
    card.querySelector(".draft").removeAttribute("aria-busy");
  }

  function began(started) {
    const old = draftKey();
    document.querySelectorAll("[name=conversation_id]").forEach((field) => {
      if (!field.closest("template")) field.value = started.conversation_id;
    });
    try { sessionStorage.removeItem(old); } catch { /* Nothing was kept. */ }
    document.getElementById("delete").hidden = false;
    const lesson = words.lesson ? "?lesson=" + words.lesson : "";
    history.replaceState(null, "", "/chat/" + started.conversation_id + lesson);
  }

  // The turn as the server draws it. Where that cannot be had, the checked sentences at least.
  async function settle(card, turnId, last) {
    let drawn = null;
    try {
      const response = await fetch("/chat/turns/" + turnId, { headers: { Accept: "text/html" } });
      if (response.ok) drawn = new DOMParser().parseFromString(await response.text(), "text/html").querySelector(".turn");
    } catch { /* Told below. */ }
    if (!drawn) {
      const draft = card.querySelector(".draft");
      draft.removeAttribute("aria-busy");
      if (last.answer) {
        // Sentences come from the server as safe HTML: formulae as MathML, all else escaped.
        draft.innerHTML = last.answer.sentences.filter((s) => s.status !== "unsupported").map((s) => s.html).join(" ")
          || "";
        if (!last.answer.found) draft.textContent = last.answer.text;
      } else draft.textContent = last.text;
      noteOn(card, words.unread);
      return;
    }
    const follow = isAtEnd();
    card.replaceWith(drawn);
    enhance(drawn);
    if (follow) drawn.scrollIntoView({ block: "start" });
  }

  function maskedLine(kinds) {
    const names = JSON.parse(words.kinds);
    return words.masked.replace("{kinds}", kinds.map((kind) => names[kind] ?? kind).join(", "));
  }

  async function ask(text) {
    if (running) return;
    complain("");
    const mine = running = new AbortController();
    const card = pendingTurn(text), draft = card.querySelector(".draft");
    send.disabled = true; stop.hidden = false;
    status.classList.remove("unseen");
    tell(words.searching); startClock(); toEnd();
    let started = null, last = null;
    const book = document.getElementById("book").value;
    try {
      const response = await fetch("/api/ask", {
        method: "POST", signal: mine.signal, headers: { "Content-Type": "application/json" },
        body: JSON.stringify({
          question: text, book_ids: book ? [Number(book)] : null,
          lesson_id: words.lesson ? Number(words.lesson) : null, conversation_id: Number(conversation()) || null,
        }),
      });
      if (response.status === 401) { location.assign("/login?then=" + encodeURIComponent(location.pathname)); return; }
      if (!response.ok) throw new Refused((await response.json()).error.message);
      for await (const [name, data] of eventsOf(response)) {
        if (name === "masked") noteOn(card, maskedLine(data.kinds));
        else if (name === "started") { started = data; began(data); }
        else if (name === "found") tell(words.reading);
        else if (name === "draft") {
          const follow = isAtEnd();
          if (!draft.textContent) tell(words.writing);
          draft.textContent += data.text;
          if (follow) toEnd();
        }
        else if (name === "checked") tell(words.checking);
        else if (["completed", "hint", "care", "closed"].includes(name)) last = [name, data];
        else if (name === "error") throw new Refused(data.message);
      }
      if (!last) throw new Error("the stream ended before the turn did");
      await settle(card, started.turn_id, last[1]);
      // What stands in the turn as a whole, such as care, is read out but not shown twice.
      status.classList.toggle("unseen", !["completed", "hint"].includes(last[0]));
      tell({ completed: words.answered, hint: words.hinted }[last[0]] ?? last[1].text);
    } catch (problem) {
      failed(card, text, problem, started);
    } finally {
      running = null;
      stopClock();
      send.disabled = false; stop.hidden = true;
      if (document.activeElement === stop || document.activeElement === document.body) question.focus({ preventScroll: true });
    }
  }

  class Refused extends Error {}

  function failed(card, text, problem, started) {
    const isStopped = problem.name === "AbortError", isRefused = problem instanceof Refused;
    tell(isStopped ? words.stopped : "");
    if (started || isStopped) {
      if (!isStopped && !isRefused) { noteOn(card, words.dropped, true); complain(words.dropped); }
      else noteOn(card, isStopped ? words.stopped : problem.message, isRefused);
      if (isRefused) complain(problem.message);
      offerAgain(card, text);
      card.querySelector(".again").scrollIntoView({ block: "nearest" });
      return;
    }
    // Nothing of it was kept by the server: the question goes back to where it was typed.
    card.remove();
    question.value = question.value ? text + "\n" + question.value : text;
    keepDraft();
    complain(isRefused ? problem.message : words.unsent);
    question.focus();
  }

  // --- Buttons under a turn ---
  async function say(target, value) {
    const told = target.closest(".turn").querySelector(".told");
    const detail = value === "wrong" ? target.elements.detail.value : "";
    try {
      const response = await fetch(target.dataset.feedback, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ kind: value, detail }),
      });
      if (!response.ok) { told.textContent = (await response.json()).error.message; return; }
      told.textContent = words.thanks;
      if (value === "wrong") { target.closest("details").open = false; return; }
      target.querySelectorAll("[name=kind]").forEach((b) => b.setAttribute("aria-pressed", String(b.value === value)));
    } catch { told.textContent = words.unsaid; }
  }

  async function copy(button) {
    const text = button.dataset.copy;
    // A school's server may speak plain http, where browsers hide the clipboard from scripts.
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "unseen";
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.closest(".turn").querySelector(".told").textContent = words.copied;
  }

  function enhance(part) { part.querySelectorAll(".copy").forEach((button) => { button.hidden = false; }); }

  turns.addEventListener("submit", (event) => {
    const target = event.target;
    if (target.matches("[data-again]")) {
      event.preventDefault();
      const text = target.elements.question.value;
      if (!running) { target.hidden = Boolean(target.closest(".pending")); ask(text); }
    } else if (target.matches("[data-feedback]")) {
      event.preventDefault();
      say(target, event.submitter?.value ?? "wrong");
    }
  });
  turns.addEventListener("click", (event) => {
    const button = event.target.closest(".copy");
    if (button) copy(button);
    const cite = event.target.closest(".cite");
    if (cite) document.querySelector(cite.getAttribute("href"))?.setAttribute("open", "");
  });
  // What opens must not open behind the form; this event does not bubble.
  turns.addEventListener("toggle", (event) => {
    if (event.target.open && event.target.matches(".confirm")) event.target.scrollIntoView({ block: "nearest" });
  }, true);

  // --- The form ---
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = question.value.trim();
    if (!text || running) return;
    question.value = "";
    ask(text);
  });
  question.addEventListener("keydown", (event) => {
    // Enter also ends a composition of Telex or VNI; some browsers tell so by the key code alone.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    form.requestSubmit();
  });
  question.addEventListener("input", keepDraft);
  stop.addEventListener("click", () => running?.abort());
  // Another book: the lesson that was chosen is not in it.
  document.getElementById("book").addEventListener("change", () => { words.lesson = ""; form.elements.lesson.value = ""; });

  enhance(turns);
  if (!question.value) question.value = keptDraft() ?? "";
  if (!location.hash) turns.lastElementChild?.scrollIntoView({ block: "start" });
})();
