// The evidence of a number: its page, in a panel over the form, so that the number stays in sight and nothing scrolls.

import { offerExploring } from "./charts.js";

const drawer = document.createElement("aside");
drawer.id = "drawer";
drawer.className = "drawer noprint";
drawer.hidden = true;
drawer.setAttribute("aria-labelledby", "drawer-title");
drawer.innerHTML =
  '<header><h2 id="drawer-title" tabindex="-1"></h2><button type="button" class="quiet">Close</button></header><div></div>';
document.querySelector(".colophon").before(drawer);
const [heading, button, body] = ["h2", "button", "div"].map((name) => drawer.querySelector(name));
let opener = "";

const place = (path) => `${document.querySelector(".brand").getAttribute("href")}how/${path}`;

// The result that a link explains, where this page has room for a drawer.
export function resultOf(link) {
  const start = new URL(place(""), location.href).pathname;
  const { pathname } = new URL(link.getAttribute("href"), location.href);
  return document.querySelector(".planner") && pathname.startsWith(start) ? pathname.slice(start.length) : "";
}

async function load(path) {
  const response = await fetch(place(path) + location.search, { headers: { accept: "text/html" } });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const evidence = page.getElementById("evidence");
  if (!evidence) {
    location.assign(place(path) + location.search);
    return;
  }
  drawer.dataset.path = path;
  heading.textContent = evidence.dataset.title;
  body.replaceChildren(document.adoptNode(evidence));
  offerExploring(body);
}

async function show(path) {
  await load(path);
  drawer.hidden = false;
  drawer.scrollTop = 0;
  heading.focus({ preventScroll: true });
}

function hide() {
  if (drawer.hidden) return;
  drawer.hidden = true;
  document.querySelector(`a[href^="${place(opener)}"]`)?.focus({ preventScroll: true });
}

export async function openDrawer(path) {
  opener = path;
  const entry = { ...history.state, evidence: path };
  if (drawer.hidden) history.pushState(entry, "");
  else history.replaceState(entry, "");
  await show(path);
}

// Back takes away what opening put on top.
function close() {
  if (history.state?.evidence) history.back();
  else hide();
}

export function syncDrawer() {
  const path = history.state?.evidence;
  if (path) show(path);
  else hide();
}

// The answer changed under it: the same number of the plan that now stands.
export function refreshDrawer() {
  if (!drawer.hidden) load(drawer.dataset.path);
}

button.addEventListener("click", close);
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape" && !drawer.hidden && !document.querySelector("dialog[open]")) close();
});
