// The answer: asked for when a field changes, swapped in, with a trace of what moved.
// The server's page is the truth: nothing is computed here, and everything works without this.

import { announce } from "./announcement.js";
import { charts } from "./charts.js";
import { syncFields } from "./fields.js";
import { markMoved, readFigures } from "./figures.js";
import { remember, showFormer } from "./ghosts.js";
import { foldRows } from "./parts.js";
import { baseline } from "./pins.js";

const SLOW = 2000;
const PAUSE = 150;
const LONGEST = 1000;
const main = document.getElementById("main");

function keepFolds(before, after) {
  const key = (fold) => fold.id || `${fold.closest("section[id], div[id]")?.id} ${fold.querySelector("summary")?.textContent}`;
  const open = new Set([...before.querySelectorAll("details[open]")].map(key));
  for (const fold of after.querySelectorAll("details")) fold.open = open.has(key(fold)) || (fold.open && !fold.id);
}

// A chart that is on the screen keeps its drawing, which then takes the new data.
function keepDrawings(before, after) {
  for (const chart of charts(before)) {
    const next = chart.id && "drawn" in chart.dataset && after.querySelector(`#${CSS.escape(chart.id)}`);
    if (!next) continue;
    const label = next.querySelector(".canvas").getAttribute("aria-label");
    const canvas = chart.querySelector(".canvas");
    canvas.setAttribute("aria-label", label);
    next.querySelector(".canvas").replaceWith(canvas);
    next.dataset.explored = "";
  }
}

function swap(id, fresh) {
  const before = document.getElementById(id);
  const after = fresh.getElementById(id);
  if (!before || !after) return;
  foldRows(after);
  keepFolds(before, after);
  keepDrawings(before, after);
  for (const area of before.querySelectorAll("textarea")) after.querySelector(`#${area.id}`)?.replaceWith(area);
  before.replaceWith(document.adoptNode(after));
}

// A pin, if there is one, is what figures are held against; else the answer before.
function trace(before) {
  const pin = baseline();
  return pin ? markMoved(pin.figures, "A:") : markMoved(before, "was");
}

export const traceFromPin = () => markMoved(baseline()?.figures ?? {}, "A:");

// The last answer stays, and says whose figures it holds.
function keepLast(why) {
  const headline = document.getElementById("headline");
  if (!headline.querySelector(".figures")) return null;
  for (const part of [headline, document.getElementById("sections")]) part?.classList.add("stale");
  headline.querySelector(".stale-note")?.remove();
  const note = document.createElement("p");
  note.className = "stale-note";
  const line = document.getElementById("scenario-line");
  note.textContent = line ? `${why}Figures of the last valid plan: ${line.textContent}` : `${why}The answer to the last valid question:`;
  headline.prepend(note);
  return note;
}

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "quiet";
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}

let running = null;

// Work in progress shows as a line on top; what takes long can be stopped.
function busy(controller) {
  main.setAttribute("aria-busy", "true");
  const note = document.createElement("p");
  note.className = "waiting";
  note.append("Still working it out. ", button("Stop", () => controller.abort()));
  const timer = setTimeout(() => {
    main.prepend(note);
    announce("Still working it out.");
  }, SLOW);
  return () => {
    clearTimeout(timer);
    note.remove();
    if (running === controller) main.removeAttribute("aria-busy");
  };
}

let took = performance.getEntriesByType("navigation")[0]?.responseStart ?? 0;

// How long a field rests before what is typed in it is asked: longer where answers take longer.
export const pause = () => Math.min(Math.max(PAUSE, took), LONGEST);

async function ask(address, headers) {
  running?.abort();
  const began = performance.now();
  const controller = new AbortController();
  running = controller;
  const done = busy(controller);
  try {
    const response = await fetch(address, { headers: { accept: "text/html", ...headers }, signal: controller.signal });
    took = performance.now() - began;
    return { response, fresh: new DOMParser().parseFromString(await response.text(), "text/html") };
  } catch (error) {
    if (error.name === "AbortError") return null;
    const note = keepLast("The service does not answer. ");
    if (note) note.append(" ", button("Try now", () => go(address)));
    else location.assign(address);
    announce("The service does not answer.");
    return null;
  } finally {
    done();
  }
}

function syncHead(fresh) {
  document.title = fresh.title;
  for (const link of fresh.querySelectorAll(".masthead a[data-page]")) {
    for (const own of document.querySelectorAll(`.masthead a[data-page="${link.dataset.page}"]`)) own.href = link.getAttribute("href");
  }
  const twin = fresh.querySelector('link[rel="alternate"]');
  if (twin) document.querySelector('link[rel="alternate"]')?.setAttribute("href", twin.getAttribute("href"));
}

const askedIn = (root) => [...root.querySelectorAll("#controls .field")].map((field) => field.querySelector("[id]")?.id).join();
const asksTheSame = (fresh) => askedIn(fresh) === askedIn(document);

// ``write`` says how the address is kept: with an entry of its own in the history, or in place of the last. Of what is
// ``half`` typed only an answer is shown. ``over`` are the figures that it is held against; null: more of the same answer.
// Says whether there is one.
export async function go(address, { write = "pushState", half = false, over = readFigures(document) } = {}) {
  const sent = half ? null : document.activeElement?.value;
  const answer = await ask(address, over ? {} : { prefer: "wait=4" });
  if (!answer) return false;
  const { response, fresh } = answer;
  if (half && !response.ok) return false;
  const elsewhere = new URL(response.url).pathname !== location.pathname;
  if (elsewhere || !fresh.getElementById("headline")) {
    location.assign(address);
    return true;
  }
  if (response.ok && write && response.url !== location.href) history[write](null, "", response.url);
  syncHead(fresh);
  document.getElementById("errors")?.remove();
  const errors = fresh.getElementById("errors");
  if (asksTheSame(fresh)) syncFields(fresh, sent);
  else swap("controls", fresh); // One plan more or less to compare.
  if (!errors && over && !(half && write === "replaceState")) remember(document);
  const kept = errors && keepLast("");
  if (!kept) for (const id of ["scenario-line", "headline", "sections"]) swap(id, fresh);
  const changed = errors || !over ? "" : trace(over);
  if (!errors && over) showFormer(document);
  if (errors) main.prepend(document.adoptNode(errors));
  if (over) announce(errors ? errors.textContent : `${document.getElementById("verdict")?.textContent ?? ""} ${changed}`);
  document.dispatchEvent(new Event("answered"));
  return !errors;
}
