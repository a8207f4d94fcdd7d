// Pinned plans: up to four, A the baseline that figures are held against. A bar at the bottom keeps them in sight, on
// every page. What is known of each is what the planner printed.

import { announce } from "./announcement.js";
import { movement, readFigures } from "./figures.js";
import { keepList, readList } from "./storage.js";

const KEY = "railyard.pins";
const LETTERS = "ABCD";
const SHOWN = ["training.time_to_train", "costs.capital", "bottleneck.resource"];
const bar = document.getElementById("pins");
const narrow = matchMedia("(max-width: 40rem)");
let replacing = false;

export const pins = () => readList(KEY, "pins").filter(Boolean);
export const baseline = () => pins()[0];

// The plan that a page shows, as one can keep it; none where it shows none.
export function planOf(root) {
  const headline = root.getElementById("headline");
  if (!headline?.dataset.parts || headline.classList.contains("stale")) return null;
  const { parts, query, gpu } = headline.dataset;
  return { query, gpu, parts: JSON.parse(parts), edition: root.body.dataset.edition, figures: readFigures(root) };
}

// A plan's name is what differs from the baseline.
export function nameOf(plan, other) {
  const differing = other ? plan.parts.filter((part) => !other.parts.includes(part)) : [];
  return (differing.length ? differing : plan.parts.slice(0, 3)).join(", ");
}

function compareAddress(plans) {
  const query = new URLSearchParams();
  plans.forEach((plan, place) => {
    const letter = LETTERS[place].toLowerCase();
    const fields = [...new URLSearchParams(plan.query)];
    for (const [name, value] of fields.length ? fields : [["gpu", plan.gpu]]) query.append(`${letter}.${name}`, value);
  });
  return `${bar.dataset.compare}?${query}`;
}

function make(name, className, ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

function control(text, label, action) {
  const made = make("button", "link", text);
  made.type = "button";
  made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

const brief = (plan) => SHOWN.map((name) => plan.figures[name]?.text ?? "–").join(" · ");

function changes(plan, other) {
  const found = SHOWN.map((name) => movement(other.figures[name], plan.figures[name])).filter(Boolean);
  return found.join(", ");
}

function pinned(plan, place, all, query) {
  const letter = LETTERS[place];
  const link = make("a", "", nameOf(plan, place && all[0]));
  link.href = `${bar.dataset.plan}${plan.query && `?${plan.query}`}`;
  const row = make("li", "", make("span", "letter", letter), " ", link, " ", make("span", "kept", brief(plan)));
  if (plan.query === query) link.setAttribute("aria-current", "true");
  if (place) row.append(" ", make("span", "change", changes(plan, all[0])));
  const action = replacing ? control("Replace", `Replace ${letter}`, () => replace(place)) : control("Unpin", `Unpin ${letter}`, () => unpin(place));
  row.append(" ", action);
  return row;
}

// On a phone the answer keeps one line, and pins are one touch away.
function folded(rows) {
  const fold = make("details", "", make("summary", "", `${rows.length} pinned`), make("ul", "", ...rows));
  fold.open = replacing;
  return make("li", "", fold);
}

export function showPins() {
  const all = pins();
  const plan = planOf(document);
  const known = plan && all.some((one) => one.query === plan.query);
  bar.hidden = !all.length && !plan;
  bar.classList.toggle("empty", !all.length);
  document.documentElement.classList.toggle("pinned", !bar.hidden);
  const list = make("ul", "");
  if (plan && (!known || narrow.matches)) {
    const row = make("li", "now", make("span", "hidden", "This plan: "), make("strong", "", brief(plan)));
    if (all.length && !known) row.append(" ", make("span", "change", changes(plan, all[0])));
    if (!known) row.append(" ", control("Pin", "Pin this plan", pin));
    list.append(row);
  }
  const rows = all.map((one, place) => pinned(one, place, all, plan?.query));
  if (narrow.matches && plan && all.length) list.append(folded(rows));
  else list.append(...rows);
  const sides = plan && !known && all.length < LETTERS.length ? [...all, plan] : all;
  const compare = make("a", "button", "Compare");
  compare.href = compareAddress(sides);
  bar.replaceChildren(list, ...(sides.length > 1 ? [compare] : []));
}

function keep(list, said) {
  replacing = false;
  const done = keepList(KEY, "pins", list);
  announce(done ? said : "This browser keeps nothing: storage is off.");
  showPins();
  document.dispatchEvent(new Event("pinned"));
}

export function pin() {
  const plan = planOf(document);
  const all = pins();
  if (!plan || all.some((one) => one.query === plan.query)) return;
  if (all.length < LETTERS.length) {
    keep([...all, plan], `Pinned as ${LETTERS[all.length]}.`);
    return;
  }
  replacing = true;
  announce("Four plans are pinned. Which one is to be replaced?");
  showPins();
}

function replace(place) {
  const plan = planOf(document);
  if (plan) {
    keep(pins().with(place, plan), `${LETTERS[place]} is now this plan.`);
    return;
  }
  replacing = false;
  announce("There is no plan to pin: mend what is wrong in the form first.");
  showPins();
}

function unpin(place) {
  keep(pins().toSpliced(place, 1), `${LETTERS[place]} is no longer pinned.`);
  bar.querySelector("button, a")?.focus();
}

narrow.addEventListener("change", showPins);
addEventListener("storage", ({ key }) => key === KEY && showPins());
