// Quizzes: answers are saved while they are written and survive a reload and a lost connection; time left; items in the making.
"use strict";
(() => {
  const making = document.querySelector("[data-making]");
  if (making) {
    const look = async () => {
      const answer = await fetch(making.dataset.making, { headers: { Accept: "application/json" } });
      if (!answer.ok) { location.reload(); return; }
      const { status, seconds, asked } = await answer.json();
      if (status !== "making") { location.reload(); return; }
      making.querySelector("[data-seconds]").textContent = seconds;
      const told = making.querySelector("[data-asked]");
      if (told) told.textContent = asked;
    };
    setInterval(() => { look().catch(() => { /* The next look may succeed. */ }); }, 1000);
  }

  const work = document.querySelector("form[data-api]");
  if (!work) return;
  const { api, after, key } = work.dataset;
  const state = work.querySelector("[data-state]");
  const fields = [...work.querySelectorAll("[data-item]")];
  // Answers that the server does not have yet, by item id; a copy lies in the tab's storage.
  let unsaved = {};
  let isSending = false, isEnding = false, timer = 0, retryMs = 2000;

  const keepCopy = () => {
    try {
      if (Object.keys(unsaved).length) sessionStorage.setItem(key, JSON.stringify(unsaved));
      else sessionStorage.removeItem(key);
    } catch { /* Private windows may keep nothing. */ }
  };
  const readCopy = () => { try { return JSON.parse(sessionStorage.getItem(key) ?? "{}"); } catch { return {}; } };
  const say = (text, isBad = false) => {
    if (state.textContent !== text) state.textContent = text;
    state.classList.toggle("bad", isBad);
  };

  const answerOf = (item) => {
    const own = fields.filter((field) => field.dataset.item === item);
    if (own[0].type !== "radio") return own[0].value;
    const chosen = own.filter((field) => field.checked);
    if (!own[0].dataset.letter) return chosen[0]?.value ?? "";
    return Object.fromEntries(chosen.map((field) => [field.dataset.letter, field.value]));
  };
  const fill = (item, answer) => {
    for (const field of fields.filter((each) => each.dataset.item === item)) {
      if (field.type !== "radio") field.value = answer;
      else field.checked = (field.dataset.letter ? answer[field.dataset.letter] : answer) === field.value;
    }
  };
  const count = () => {
    const cards = [...work.querySelectorAll("[data-answer]")];
    const done = cards.filter((card) => {
      const answer = answerOf(card.dataset.answer);
      return typeof answer === "string" ? answer.trim() !== "" : Object.keys(answer).length === 4;
    }).length;
    work.querySelector("[data-answered]").textContent = `, ${done} ${work.dataset.done}`;
  };

  const send = (path, method, given, keepalive = false) => fetch(api + path, {
    method, keepalive, headers: { "Content-Type": "application/json", Accept: "application/json" }, body: JSON.stringify({ given }),
  });

  // True: everything is with the server. False: out of reach, or it refused.
  const save = async () => {
    if (isSending) return false;
    clearTimeout(timer);
    const sent = { ...unsaved };
    if (!Object.keys(sent).length) return true;
    isSending = true;
    say(work.dataset.saving);
    try {
      const answer = await send("/given", "PUT", sent);
      if (answer.status === 409) { leave(); return false; }
      if (!answer.ok) {
        const told = await answer.json().catch(() => null);
        // Signed out, or the time is over: trying again by itself would not help.
        if (answer.status < 500) { say(`${work.dataset.refused} ${told?.error?.message ?? answer.status}`, true); return false; }
        throw new Error(String(answer.status));
      }
      const { seconds_left } = await answer.json();
      for (const item of Object.keys(sent)) if (JSON.stringify(unsaved[item]) === JSON.stringify(sent[item])) delete unsaved[item];
      keepCopy();
      setEnd(seconds_left);
      retryMs = 2000;
      if (Object.keys(unsaved).length) later(300); else say(`${work.dataset.saved} ${new Date().toLocaleTimeString("vi-VN", { hour: "2-digit", minute: "2-digit" })}`);
      return !Object.keys(unsaved).length;
    } catch {
      say(work.dataset.away, true);
      later(retryMs);
      retryMs = Math.min(retryMs * 2, 15000);
      return false;
    } finally { isSending = false; }
  };
  const later = (ms) => { clearTimeout(timer); timer = setTimeout(save, ms); };
  const flush = async () => {
    for (let tries = 0; isSending && tries < 50; tries += 1) await new Promise((done) => setTimeout(done, 100));
    return (await save()) || !Object.keys(unsaved).length;
  };
  const leave = () => { isEnding = true; unsaved = {}; keepCopy(); location.assign(after); };

  work.addEventListener("input", (event) => {
    const item = event.target.dataset.item;
    if (!item) return;
    unsaved[item] = answerOf(item);
    keepCopy();
    count();
    const problem = document.getElementById(`q-${item}-error`);
    if (problem) problem.hidden = true;
    later(event.target.type === "radio" ? 200 : 900);
  });
  work.addEventListener("submit", async (event) => {
    if (isEnding) return;
    event.preventDefault();
    const button = event.submitter ?? work.querySelector("[name=save]");
    const isSaved = await flush();
    if (button.name === "save") return;
    if (!isSaved) { say(work.dataset.offline, true); return; }
    isEnding = true;
    location.assign(`${after}/hand-in`);
  });
  addEventListener("online", () => later(100));
  addEventListener("pagehide", () => {
    if (Object.keys(unsaved).length && !isEnding) send("/given", "PUT", unsaved, true).catch(() => { /* The copy stays. */ });
  });
  // A page taken out of the browser's memory may be behind what was saved since.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // --- Time: the server's clock tells how much is left, ours only how much of that has passed.
  const clock = work.querySelector("[data-timer]"), warning = work.querySelector("[data-warning]");
  let end = null, warned = Infinity, ticking = 0;
  const setEnd = (secondsLeft) => {
    end = secondsLeft === null || secondsLeft === undefined ? null : performance.now() + secondsLeft * 1000;
    if (clock && end === null) clock.textContent = "";
  };
  const finish = async () => {
    clearInterval(ticking);
    say(work.dataset.over);
    try {
      // The teacher may have given more time.
      const kept = await send("/given", "PUT", unsaved);
      if (kept.ok) {
        const { seconds_left } = await kept.json();
        if (seconds_left === null || seconds_left > 1) { unsaved = {}; keepCopy(); setEnd(seconds_left); say(work.dataset.saved); start(); return; }
        await send("/hand-in", "POST", {});
      }
      if (kept.ok || kept.status === 403 || kept.status === 409) leave();
    } catch { say(work.dataset.away, true); setTimeout(finish, 2000); }
  };
  const tick = () => {
    if (end === null || !clock) return;
    const left = Math.max(0, Math.ceil((end - performance.now()) / 1000));
    const hours = Math.floor(left / 3600), minutes = Math.floor(left / 60) % 60, seconds = left % 60;
    const two = (n) => String(n).padStart(2, "0");
    clock.textContent = `${work.dataset.left} ${hours ? `${hours}:${two(minutes)}` : minutes}:${two(seconds)}`;
    clock.classList.toggle("late", left <= 300);
    const limit = [60, 300].find((each) => left <= each);
    if (limit && left > 0 && warned > limit) {
      warned = limit;
      warning.textContent = `${work.dataset.left} ${Math.ceil(left / 60)} ${work.dataset.minutes}`;
    }
    if (left > 300) warned = Infinity;
    if (left === 0) finish();
  };
  const start = () => { clearInterval(ticking); ticking = setInterval(tick, 500); tick(); };

  const left = readCopy();
  for (const [item, answer] of Object.entries(left)) if (fields.some((field) => field.dataset.item === item)) { fill(item, answer); unsaved[item] = answer; }
  count();
  if (Object.keys(unsaved).length) save();
  if (work.dataset.secondsLeft !== undefined) { setEnd(Number(work.dataset.secondsLeft)); start(); }
})();
