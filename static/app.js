// What a page does beyond what the server made it: each concern in a module of its own. No formula, and no page needs it.

import { go, pause, traceFromPin } from "./answer.js";
import { offerExploring } from "./charts.js";
import { copy } from "./clipboard.js";
import { openDrawer, refreshDrawer, resultOf, syncDrawer } from "./drawer.js";
import { addressOf, live } from "./fields.js";
import { readFigures } from "./figures.js";
import { follow, reveal, targetOf } from "./folds.js";
import { foldRows, printReport } from "./parts.js";
import { pin, showPins } from "./pins.js";
import { openPlans } from "./plans.js";
import { offerPoints } from "./points.js";
import { setTheme, showTheme } from "./theme.js";
import { oneStop } from "./toolbar.js";

// What is chosen is followed at once, what is typed after a pause: a field's typing is one entry in the history, a
// search's none, and half a number is no error yet.
let typing = 0;
let typedIn = null;
let typedOver = null;

document.addEventListener("input", ({ target }) => {
  const form = target.matches("input[type=text], input[type=search]") && target.closest("form[data-live]");
  clearTimeout(typing);
  if (!form) return;
  if (typedIn !== target) typedOver = readFigures(document);
  const write = target.type === "search" || typedIn === target ? "replaceState" : "pushState";
  typing = setTimeout(async () => {
    if (await go(addressOf(form), { write, over: typedOver, half: target.type === "text" })) typedIn = target;
  }, pause());
});

document.addEventListener("change", ({ target }) => {
  const form = target.closest?.("form[data-live]");
  if (!form || target.type === "search") return;
  clearTimeout(typing);
  const followed = typedIn === target && new URL(addressOf(form)).search === location.search;
  typedIn = null;
  if (!followed) go(addressOf(form));
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "get" || event.defaultPrevented) return;
  event.preventDefault();
  const inPlace = form.matches("[data-live]") || (form.matches("[data-evidence]") && live());
  if (inPlace) go(addressOf(form));
  else location.assign(addressOf(form));
});

const ASKED = { pin, plans: openPlans, theme: setTheme };

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href], button[data-ask]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if ("ask" in link.dataset) {
    event.preventDefault();
    ASKED[link.dataset.ask](link);
    return;
  }
  const result = resultOf(link);
  if (result) {
    event.preventDefault();
    openDrawer(result);
    return;
  }
  const url = new URL(link.getAttribute("href"), location.href);
  if ("copy" in link.dataset) {
    event.preventDefault();
    copy(link.href, link.dataset.copy, link);
  } else if (url.origin === location.origin && url.pathname === location.pathname) {
    if (url.search === location.search && url.hash) {
      const target = targetOf(url.hash);
      if (target) reveal(target);
      setTimeout(follow, 0, url.hash); // also when the address does not change
    } else if (live() && !link.closest(".masthead")) {
      event.preventDefault();
      go(link.href).then(() => document.getElementById("headline")?.scrollIntoView({ block: "nearest" }));
    }
  }
});

let shown = location.pathname + location.search;
addEventListener("popstate", () => {
  syncDrawer();
  if (location.pathname + location.search !== shown && live()) go(location.href, { write: "" });
  else follow(location.hash);
});

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "quiet noprint";
  made.textContent = text;
  made.addEventListener("click", () => action(made));
  return made;
}

const later = (action) => (window.requestIdleCallback ?? setTimeout)(action, { timeout: 200 });

// What a phone leaves for later, see the style sheet, is laid out a section at a time.
function settle(sections) {
  const section = sections.shift();
  if (!section) return;
  section.style.contentVisibility = "visible";
  later(() => settle(sections));
}

function dress(root) {
  shown = location.pathname + location.search;
  for (const block of root.querySelectorAll("pre[data-copy]:not([data-dressed])")) {
    block.dataset.dressed = "";
    block.after(button("Copy", (made) => copy(block.textContent, block.dataset.copy, made)));
  }
  for (const place of root.querySelectorAll("[data-print]:not([data-dressed])")) {
    place.dataset.dressed = "";
    place.append(button(place.dataset.print, printReport));
  }
  offerExploring(root);
  offerPoints(root);
  showPins();
  const unfinished = root.querySelector("[data-unfinished]");
  if (unfinished) go(unfinished.href, { write: "", over: null });
  settle([...root.querySelectorAll("main > section, .sections > section")]);
}

document.addEventListener("answered", () => {
  dress(document);
  refreshDrawer();
});
document.addEventListener("pinned", traceFromPin);

document.querySelectorAll(".masthead nav ul").forEach(oneStop);
foldRows(document);
showTheme();
const scenario = document.getElementById("scenario");
if (scenario && matchMedia("(min-width: 64rem)").matches) scenario.open = true;
later(() => dress(document));
later(traceFromPin);
if (location.hash) follow(location.hash);
else document.getElementById("errors")?.focus();
