"use strict";
// Draws the charts that the page carries as data, sends the form when a field changes, and swaps the answer in.
// The server's page is the truth: nothing is computed here, and everything works without this file.

const main = document.getElementById("main");
const announcement = document.getElementById("announcement");
const dark = matchMedia("(prefers-color-scheme: dark)");
const wide = matchMedia("(min-width: 64rem)");

// Charts --------------------------------------------------------------------------------------------------------------

let plotly = null;

function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    // Plotly brings a style sheet for maps, which the security policy refuses. It leaves it out where this id exists.
    const noMaps = document.createElement("meta");
    noMaps.id = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";
    const script = document.createElement("script");
    script.src = document.body.dataset.plotly;
    script.onload = () => resolve(window.Plotly);
    script.onerror = reject;
    document.head.append(noMaps, script);
  });
  return plotly;
}

// A figure travels with the page, or has an address. It names its colours; the style sheet gives them, for light and dark.
async function figureOf(chart) {
  const style = getComputedStyle(document.documentElement);
  const { figure } = chart.dataset;
  const text = figure ? await (await fetch(figure)).text() : chart.querySelector('script[type="application/json"]').textContent;
  return JSON.parse(text.replace(/var\((--chart-[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()));
}

async function download(chart, format) {
  const figure = await figureOf(chart);
  const canvas = chart.querySelector(".canvas");
  const title = chart.querySelector("figcaption strong").textContent;
  const layout = {
    ...figure.layout,
    paper_bgcolor: getComputedStyle(document.body).backgroundColor,
    title: { ...figure.layout.title, automargin: true, yref: "container", y: 0.98, yanchor: "top" },
    margin: { ...figure.layout.margin, t: 72 },
  };
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60).replace(/^-|-$/g, "");
  const size = { width: Math.max(canvas.clientWidth, 760), height: (figure.layout.height ?? 400) + 64 };
  return window.Plotly.downloadImage({ data: figure.data, layout }, { format, filename: name, scale: 2, ...size });
}

const ICON = {
  width: 24,
  height: 24,
  path: "M11 3h2v9l3.500-3.500 1.400 1.400L12 16l-5.900-6.100L7.500 8.500 11 12zM4 18h16v2H4z",
};

async function draw(chart) {
  const Plotly = await loadPlotly();
  const canvas = chart.querySelector(".canvas");
  if (!chart.isConnected) return;
  const figure = await figureOf(chart);
  delete figure.layout.title; // It stands above the drawing as text.
  const config = {
    displaylogo: false,
    responsive: true,
    modeBarButtons: [
      [
        { name: "Download PNG", title: "Download as PNG", icon: ICON, click: () => download(chart, "png") },
        { name: "Download SVG", title: "Download as SVG", icon: ICON, click: () => download(chart, "svg") },
      ],
    ],
  };
  canvas.querySelector(".drawn")?.remove();
  canvas.style.minHeight = `${figure.layout.height ?? 400}px`;
  await Plotly.react(canvas, figure.data, figure.layout, config);
  if (chart.id === "chart-pareto" && !("leads" in canvas.dataset)) {
    canvas.dataset.leads = "";
    const home = document.querySelector(".brand").getAttribute("href");
    canvas.on("plotly_click", ({ points }) => location.assign(`${home}?${points[0].customdata}`));
  }
  chart.dataset.drawn = "";
}

// Some curves take longer than the plan: they are fetched when their place comes near the screen.
const pages = new Map();

async function fetchPart(place) {
  const address = place.dataset.from;
  if (!pages.has(address)) {
    pages.clear();
    const read = async () => new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");
    pages.set(address, read());
  }
  try {
    const found = (await pages.get(address)).getElementById(place.dataset.part);
    if (!place.isConnected || !place.dataset.from) return;
    place.removeAttribute("data-from");
    if (found) place.replaceChildren(document.importNode(found, true));
    else place.remove();
    offerExploring(place);
  } catch {
    pages.delete(address); // The link stays in its place.
  }
}

const nearby = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      nearby.unobserve(target);
      fetchPart(target);
    }
  },
  { rootMargin: "300px" },
);

const charts = (root) => root.querySelectorAll("figure.chart");

// A picture stands from the start. Who wants to read off values, zoom or save dots asks for the drawing that can.
function offerExploring(root) {
  for (const chart of charts(root)) {
    const ways = chart.querySelector(".ways");
    if ("explored" in chart.dataset && !("drawn" in chart.dataset)) draw(chart);
    if (!ways || ways.querySelector("button") || !chart.querySelector(".canvas svg")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.textContent = "Explore";
    button.setAttribute("aria-label", `Explore: ${chart.querySelector("strong").textContent}`);
    button.addEventListener("click", async () => {
      button.textContent = "Loading";
      await draw(chart);
      button.remove();
      const canvas = chart.querySelector(".canvas");
      canvas.tabIndex = -1;
      canvas.focus();
    });
    ways.append(button);
  }
}

dark.addEventListener("change", () => {
  for (const chart of charts(document)) if ("drawn" in chart.dataset) draw(chart);
});

// Folds: a link into one opens it; paper shows them all -----------------------------------------------------------------

// Opens every fold around the target of a link; says whether one was shut.
function reveal(target) {
  let shut = false;
  const row = target.matches("section") && target.querySelector(":scope > details:not([open])");
  if (row) shut = row.open = true;
  for (let node = target.parentElement; node; node = node.parentElement) {
    if (node.tagName === "DETAILS" && !node.open) shut = node.open = true;
  }
  return shut;
}

const targetOf = (hash) => (hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null);

// After the browser went to a target: a field takes the focus, and what was folded comes into view.
function follow(hash) {
  const target = targetOf(hash);
  if (!target) return;
  if (reveal(target)) target.scrollIntoView();
  if (target.matches("input, select, textarea")) target.focus();
}

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("main details:not([open]):not(.noprint)")];
  for (const fold of opened) if (!fold.closest(".noprint")) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of opened) fold.open = false;
});

async function printReport() {
  await Promise.all([...document.querySelectorAll(".later[data-from]")].map(fetchPart));
  print();
}

// The form --------------------------------------------------------------------------------------------------------------

const live = () => document.querySelector("form[data-live]");

// Only what differs from the defaults goes into the address.
function addressOf(form) {
  const query = new URLSearchParams();
  for (const control of form.elements) {
    if (control.tagName === "FIELDSET" && control.dataset.choices) {
      const chosen = [...control.querySelectorAll("input:checked")].map((box) => box.value);
      if (chosen.join(" ") !== control.dataset.default) for (const value of chosen) query.append(control.dataset.choices, value);
    }
    if (!control.name || control.disabled || control.type === "checkbox") continue;
    const value = control.value.trim();
    if (value && value !== control.dataset.default) query.append(control.name, value);
  }
  const text = query.toString();
  return form.action.split("?")[0] + (text ? `?${text}` : "");
}

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
  keepFolds(before, after);
  keepDrawings(before, after);
  before.replaceWith(document.adoptNode(after));
}

// Fields take their new hints, choices and errors; the one being used keeps the focus.
function syncFields(fresh, sent) {
  for (const next of fresh.querySelectorAll(".field")) {
    const control = next.querySelector("input, select");
    const mine = control && document.getElementById(control.id);
    const field = mine?.closest(".field");
    if (!field) continue;
    if (mine !== document.activeElement) {
      field.replaceWith(document.adoptNode(next));
      continue;
    }
    field.className = next.className;
    if (mine.tagName === "SELECT") mine.innerHTML = control.innerHTML;
    if (mine.value === sent) mine.value = control.value; // What was typed meanwhile stays.
    for (const name of ["placeholder", "aria-describedby", "aria-invalid"]) {
      if (control.hasAttribute(name)) mine.setAttribute(name, control.getAttribute(name));
      else mine.removeAttribute(name);
    }
    for (const part of field.querySelectorAll("p")) part.remove();
    for (const part of next.querySelectorAll("p.error")) mine.before(document.adoptNode(part));
    for (const part of next.querySelectorAll("p.hint")) mine.after(document.adoptNode(part));
  }
}

// A change leaves a trace: what each figure was, and by how much it moved.
const figuresOf = () => new Map([...document.querySelectorAll(".figures > [data-figure]")].map((one) => [one.dataset.figure, one]));
const shownBy = (figure) => figure.querySelector("dd").textContent.trim().split(" (")[0];

function moved(before, after) {
  const [was, now] = [before, after].map((figure) => Number(figure.dataset.typical));
  if (!was || !now) return "";
  const factor = now / was;
  if (factor >= 2) return `, ${factor.toPrecision(2)} ×`;
  const percent = Math.round(100 * (factor - 1));
  return percent ? `, ${percent > 0 ? "+" : "−"}${Math.abs(percent)} %` : ", under 1 %";
}

function trace(before) {
  const said = [];
  for (const [name, figure] of figuresOf()) {
    const former = before.get(name);
    if (!former || shownBy(former) === shownBy(figure)) continue;
    const text = `was ${shownBy(former)}${moved(former, figure)}`;
    figure.querySelector(".was").textContent = text;
    figure.classList.add("moved");
    said.push(`${figure.querySelector("dt").textContent.trim()} ${shownBy(figure)}, ${text}`);
  }
  return said.join(". ");
}

// While a field cannot be read, the last answer stays and says what it is of.
function keepLast() {
  const headline = document.getElementById("headline");
  if (!headline.querySelector(".figures")) return false;
  for (const part of [headline, document.getElementById("sections")]) part.classList.add("stale");
  if (!headline.querySelector(".stale-note")) {
    const note = document.createElement("p");
    note.className = "stale-note";
    note.textContent = `Figures of the last valid plan: ${document.getElementById("scenario-line").textContent}`;
    headline.prepend(note);
  }
  return true;
}

let running = null;

async function go(address, { push = true } = {}) {
  running?.abort();
  running = new AbortController();
  const mine = running;
  main.setAttribute("aria-busy", "true");
  const sent = document.activeElement?.value;
  let response, text;
  try {
    response = await fetch(address, { headers: { accept: "text/html" }, signal: mine.signal });
    text = await response.text();
  } catch (error) {
    if (error.name !== "AbortError") location.assign(address);
    return;
  }
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (!fresh.getElementById("headline")) {
    location.assign(address);
    return;
  }
  if (response.ok && push && response.url !== location.href) history.pushState(null, "", response.url);
  document.title = fresh.title;
  document.getElementById("errors")?.remove();
  const errors = fresh.getElementById("errors");
  syncFields(fresh, sent);
  const before = figuresOf();
  const kept = errors && keepLast();
  if (!kept) for (const id of ["scenario-line", "headline", "sections"]) swap(id, fresh);
  const changed = errors ? "" : trace(before);
  for (const link of fresh.querySelectorAll(".masthead a[data-page]")) {
    document.querySelector(`.masthead a[data-page="${link.dataset.page}"]`)?.setAttribute("href", link.getAttribute("href"));
  }
  const alternate = document.querySelector('link[rel="alternate"]');
  const twin = fresh.querySelector('link[rel="alternate"]');
  if (alternate && twin) alternate.setAttribute("href", twin.getAttribute("href"));
  if (errors) main.prepend(document.adoptNode(errors));
  announce(errors ? errors.textContent : `${document.getElementById("verdict")?.textContent ?? ""} ${changed}`);
  main.removeAttribute("aria-busy");
  dress(document);
}

function announce(text) {
  announcement.textContent = "";
  requestAnimationFrame(() => {
    announcement.textContent = text.replace(/\s+/g, " ").trim();
  });
}

document.addEventListener("change", (event) => {
  const form = event.target.closest?.("form[data-live]");
  if (form) go(addressOf(form));
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "get") return;
  event.preventDefault();
  if (form.matches("[data-live]")) go(addressOf(form));
  else location.assign(addressOf(form));
});

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
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
  if (location.pathname + location.search !== shown && live()) go(location.href, { push: false });
  else follow(location.hash);
});

// Copying ---------------------------------------------------------------------------------------------------------------

// Over plain http there is no clipboard to ask: a selected field is copied as by hand.
function copySelected(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

async function copy(text, said, control) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copySelected(text);
  }
  announce(done ? said : "Copying is not allowed here: select the text and copy it.");
  const name = control.textContent;
  control.textContent = done ? "Copied" : "Select the text and press Ctrl+C";
  setTimeout(() => (control.textContent = name), 2000);
}

function dress(root) {
  shown = location.pathname + location.search;
  for (const block of root.querySelectorAll("pre[data-copy]:not([data-dressed])")) {
    block.dataset.dressed = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet noprint";
    button.textContent = "Copy";
    button.addEventListener("click", () => copy(block.textContent, block.dataset.copy, button));
    block.after(button);
  }
  for (const place of root.querySelectorAll("[data-print]:not([data-dressed])")) {
    place.dataset.dressed = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = place.dataset.print;
    button.addEventListener("click", printReport);
    place.append(button);
  }
  for (const place of root.querySelectorAll(".later[data-from]")) nearby.observe(place);
  offerExploring(root);
}

// Start -----------------------------------------------------------------------------------------------------------------

const scenario = document.getElementById("scenario");
if (scenario && wide.matches) scenario.open = true;
dress(document);
if (location.hash) follow(location.hash);
else document.getElementById("errors")?.focus();
