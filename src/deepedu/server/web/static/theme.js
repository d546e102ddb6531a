// Before the page is drawn: light or dark as chosen here before, else as the system says.
"use strict";
(() => {
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const dark = () => (stored() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const show = () => { document.documentElement.dataset.theme = dark() ? "dark" : "light"; };
  show();
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const tell = () => button.setAttribute("aria-pressed", String(dark()));
    tell();
    button.addEventListener("click", () => {
      try { localStorage.setItem("theme", dark() ? "light" : "dark"); } catch { /* Private windows may keep nothing. */ }
      show();
      tell();
    });
  });
})();
