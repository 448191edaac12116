"use strict";
// Shows one participant's items, keeps the answers in this browser, and hands them out as a file.
const study = JSON.parse(document.getElementById("study").textContent);
const $ = (id) => document.getElementById(id);
const KEYS = { 1: "A", 2: "B", 3: "tie", a: "A", b: "B", t: "tie" };
const radios = [...document.querySelectorAll("input[name=choice]")];

// Private windows and strict settings refuse storage; everything then lives in this object alone.
const storage = (() => {
  try {
    localStorage.setItem("cda-study-probe", "1");
    localStorage.removeItem("cda-study-probe");
    return localStorage;
  } catch {
    $("storage").hidden = false;
    return null;
  }
})();

let code = null; // of the participant
let shown = []; // their items, in order: [item, text that stands as A]
let state = null; // {session, revision, at, answers: {item: {choice, justification, seconds}}}
let since = null; // when the item on screen began to be looked at; null while the page is hidden
let kept = storage !== null; // whether this browser keeps the answers
let unsaved = false; // whether something was answered since the last file or copy

const place = (participant) => `cda-study-${study.study}-${participant}`;
const fresh = () => ({ session: randomName(), revision: 0, at: 0, answers: {} });
const randomName = () => [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const done = (answer) => Boolean(answer?.choice && (!study.required || answer.justification.trim()));
const answered = (found, items) => items.filter(([item]) => done(found.answers[item])).length;
const current = () => state.answers[shown[state.at][0]];

function stored(participant) {
  try {
    const found = JSON.parse(storage?.getItem(place(participant)) ?? "null");
    const sound = found?.answers && typeof found.answers === "object" && Number.isInteger(found.at) && typeof found.session === "string";
    return sound ? found : null;
  } catch {
    return null;
  }
}

function keep() {
  try {
    storage?.setItem(place(code), JSON.stringify(state));
    kept = storage !== null;
  } catch {
    kept = false;
    $("storage").hidden = false;
  }
}

// Two windows with one code write to one place: what the other one wrote is taken over, or each would undo the other's answers.
function takeOver() {
  const found = state && kept ? stored(code) : null;
  if (!found) return;
  const mine = current();
  state = { ...found, at: state.at };
  if (mine) state.answers[shown[state.at][0]] ??= mine;
  if ($("task").hidden) return;
  if ($("justification").value !== current().justification) $("justification").value = current().justification;
  mark();
}

function note(id, text) {
  $(id).hidden = !text;
  $(id).textContent = text;
}

function show(section) {
  for (const id of ["start", "task", "end"]) $(id).hidden = id !== section;
  scrollTo(0, 0);
}

// Time counts while the item is on screen and the page is not hidden; what was spent before a reload is kept.
function clock(running) {
  if (since !== null && state && !$("task").hidden) current().seconds += (performance.now() - since) / 1000;
  since = running && document.visibilityState === "visible" ? performance.now() : null;
}

function begin() {
  code = $("participant").value;
  shown = study.participants[code];
  state = stored(code) ?? fresh();
  state.at = Math.min(Math.max(state.at, 0), shown.length - 1);
  keep();
  try {
    const address = new URL(location.href);
    address.searchParams.set("participant", code);
    history.replaceState(null, "", address);
  } catch { /* some browsers refuse that for files; the code is then chosen again after a reload */ }
  if (answered(state, shown) === shown.length) finish();
  else open(state.at);
}

function open(at) {
  clock(false);
  state.at = at;
  const [item, first] = shown[at];
  const { prompt, texts } = study.items[item];
  state.answers[item] ??= { choice: null, justification: "", seconds: 0 };
  $("position").textContent = `Item ${at + 1} of ${shown.length}`;
  $("prompt").textContent = prompt;
  $("answer-a").textContent = texts[first];
  $("answer-b").textContent = texts[1 - first];
  $("justification").value = current().justification;
  $("back").disabled = at === 0;
  $("next").textContent = at + 1 === shown.length ? "Finish" : "Next";
  note("task-note", "");
  mark();
  show("task");
  $("position").focus({ preventScroll: true });
  clock(true);
  keep();
}

function mark() {
  const { choice } = current();
  radios.forEach((radio) => { radio.checked = radio.value === choice; });
  $("answer-a").parentElement.classList.toggle("chosen", choice === "A");
  $("answer-b").parentElement.classList.toggle("chosen", choice === "B");
  $("bar").max = shown.length;
  $("bar").value = answered(state, shown);
}

function choose(choice) {
  current().choice = choice;
  unsaved = true;
  note("task-note", "");
  mark();
  clock(true);
  keep();
}

function next() {
  if (!current().choice) return note("task-note", "Choose one of the three first.");
  if (study.required && !current().justification.trim()) {
    $("justification").focus();
    return note("task-note", "Please write a few words on what decided it.");
  }
  if (state.at + 1 < shown.length) return open(state.at + 1);
  const missing = shown.findIndex(([item]) => !done(state.answers[item]));
  return missing < 0 ? finish() : open(missing);
}

function finish() {
  clock(false);
  keep();
  $("end-title").textContent = `All ${shown.length} items are answered. Thank you.`;
  note("end-note", "");
  $("by-hand").hidden = true;
  show("end");
  $("end-title").focus({ preventScroll: true });
}

function result() {
  clock(!$("task").hidden);
  state.revision += 1;
  unsaved = false;
  keep();
  const answers = shown.filter(([item]) => state.answers[item]?.choice).map(([item, first]) => {
    const { choice, justification, seconds } = state.answers[item];
    return { item, a: first, choice, justification, seconds: Math.round(seconds * 10) / 10 };
  });
  return JSON.stringify({
    format: "cda-study-result", version: 1, study: study.study, participant: code, session: state.session,
    revision: state.revision, complete: answers.length === shown.length, answers,
  }, null, 1);
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([result()], { type: "application/json" }));
  link.download = `results-${study.study.slice(0, 6)}-${code}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  note("end-note", `Saved as ${link.download}, where your browser puts downloads. Please send that file.`);
  note("task-note", $("task").hidden ? "" : `Saved as ${link.download}. You can go on, and save again at the end.`);
}

async function copy() {
  const text = result();
  $("copied").value = text;
  try {
    await navigator.clipboard.writeText(text);
    note("end-note", "Copied. Paste it into a message to whoever invited you.");
  } catch {
    $("by-hand").hidden = false;
    $("copied").select();
    note("end-note", "This browser does not let pages copy.");
  }
}

function pick() {
  const participant = $("participant").value;
  $("begin").disabled = !participant;
  const found = participant ? stored(participant) : null;
  const items = study.participants[participant] ?? [];
  const n = found ? answered(found, items) : 0;
  $("begin").textContent = n ? "Go on" : "Start";
  note("start-note", n ? `${n} of ${items.length} items are answered in this browser.` : "");
}

for (const name of Object.keys(study.participants)) $("participant").append(new Option(name, name));
const asked = new URLSearchParams(location.search).get("participant");
$("participant").value = asked in study.participants && Object.hasOwn(study.participants, asked) ? asked : "";
pick();
if (asked && !$("participant").value) note("start-note", "The code in the address is none of this study. Choose yours.");
if ($("participant").value && stored(asked)) begin();

$("participant").addEventListener("change", pick);
$("begin").addEventListener("click", begin);
$("back").addEventListener("click", () => { if (state.at > 0) open(state.at - 1); });
$("next").addEventListener("click", next);
$("early").addEventListener("click", download);
$("download").addEventListener("click", download);
$("copy").addEventListener("click", copy);
$("review").addEventListener("click", () => open(shown.length - 1));
$("justification").addEventListener("input", (event) => {
  current().justification = event.target.value;
  unsaved = true;
  keep();
});
radios.forEach((radio) => radio.addEventListener("change", () => choose(radio.value)));
addEventListener("storage", (event) => { if (event.key === place(code)) takeOver(); });
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") takeOver();
  if (state) clock(true);
  if (state && document.visibilityState === "hidden") keep();
});
// A window that was hidden kept everything then, and may know less than another one by now.
addEventListener("pagehide", () => { if (since !== null) { clock(false); keep(); } });
addEventListener("pageshow", (event) => { if (event.persisted) { takeOver(); if (state) clock(true); } });
addEventListener("beforeunload", (event) => { if (unsaved && !kept) event.preventDefault(); });
document.addEventListener("keydown", (event) => {
  if ($("task").hidden || event.altKey || event.metaKey || event.isComposing) return;
  const writing = event.target === $("justification");
  if (event.key === "Enter" && (writing ? event.ctrlKey : !event.ctrlKey)) {
    // A button has the focus: Enter presses it.
    if (event.target instanceof HTMLButtonElement || event.target.tagName === "SUMMARY") return;
    event.preventDefault();
    if (!event.repeat) next();
    return;
  }
  const choice = KEYS[event.key.toLowerCase()];
  // Someone who dictates, or whose hand slips, can switch single keys off.
  if (!writing && !event.ctrlKey && choice && $("shortcuts").checked) {
    event.preventDefault();
    choose(choice);
  }
});
