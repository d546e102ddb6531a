// Tells whether the tutor can be asked: it may still be starting, or the server may be out of reach.
"use strict";
(() => {
  const line = document.getElementById("health");
  if (!line) return;
  let shown = line.dataset.status;
  const tell = (status) => {
    if (status === shown) return;
    // What was away is back: said once, then the line goes.
    line.textContent = line.dataset[status];
    line.classList.toggle("bad", status === "failed" || status === "away");
    line.hidden = false;
    if (status === "ready") setTimeout(() => { if (shown === "ready") line.hidden = true; }, 4000);
    shown = status;
  };
  const watch = async () => {
    if (!document.hidden) {
      try {
        const response = await fetch("/api/health");
        if (response.ok) tell((await response.json()).status);
      } catch { tell("away"); }
    }
    setTimeout(watch, shown === "ready" ? 30000 : 3000);
  };
  setTimeout(watch, shown === "ready" ? 30000 : 1000);
})();
