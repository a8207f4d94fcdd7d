// Charts: drawn by the server; a script takes one over when the reader explores it.

import { CHANGED } from "./theme.js";

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
export async function figureOf(chart) {
  const { figure } = chart.dataset;
  const probe = document.createElement("span");
  chart.append(probe);
  const colourOf = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const text = figure ? await (await fetch(figure)).text() : chart.querySelector('script[type="application/json"]').textContent;
  const coloured = text.replace(/var\((--chart-[\w-]+)\)/g, (_, name) => colourOf(name));
  probe.remove();
  const drawn = JSON.parse(coloured);
  drawn.data.filter((trace) => trace.meta?.clusters).forEach(nameClusters);
  return drawn;
}

// The points of a cloud are told by the clusters that they are: GPU, network, taper, and their numbers of GPUs.
function nameClusters(trace) {
  const { query, gpus, networks, clusters } = trace.meta;
  trace.text = [];
  trace.customdata = [];
  trace.hovertemplate = "%{text}<extra></extra>";
  for (const [gpu, network, taper, counts] of clusters) {
    const [key, name] = gpus[gpu];
    const [scaleOut, over] = networks[network];
    for (const count of counts) {
      trace.text.push(`${count.toLocaleString("en")} × ${name}, ${over}, ${taper} : 1`);
      trace.customdata.push(`gpu=${key}&gpus=${count}&scale_out=${scaleOut}&oversubscription=${taper}${query && "&"}${query}`);
    }
  }
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
  for (const part of canvas.querySelectorAll(".drawn, .readout, .spot")) part.remove();
  canvas.style.minHeight = `${figure.layout.height ?? 400}px`;
  await Plotly.react(canvas, figure.data, figure.layout, config);
  const page = pageOfPoints(chart);
  if (page && !("leads" in canvas.dataset)) {
    canvas.dataset.leads = "";
    canvas.on("plotly_click", ({ points: [{ customdata }] }) => customdata && location.assign(`${page}?${customdata}`));
  }
  chart.dataset.drawn = "";
}

// Charts whose points are clusters, and the page that has all of one.
const CLUSTERS = { cloud: "", sizing: "", "serving-candidates": "serve" };

export function pageOfPoints(chart) {
  const name = chart.dataset.figure?.match(/\/chart\/([\w-]+)\.json/)?.[1];
  return name in CLUSTERS ? document.querySelector(".brand").getAttribute("href") + CLUSTERS[name] : "";
}

export const charts = (root) => root.querySelectorAll("figure.chart");

function button(text, chart, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "link";
  made.textContent = text;
  made.setAttribute("aria-label", `${text}: ${chart.querySelector("strong").textContent}`);
  made.addEventListener("click", () => action(made));
  return made;
}

async function explore(chart, made) {
  made.textContent = "Loading";
  await draw(chart);
  made.remove();
  const canvas = chart.querySelector(".canvas");
  canvas.tabIndex = -1;
  canvas.focus();
}

// As tall as the screen while it fills it; drawn anew after that.
async function fill(chart) {
  await chart.requestFullscreen();
  if (!("drawn" in chart.dataset)) await draw(chart);
  chart.querySelector(".explore")?.remove();
  const canvas = chart.querySelector(".canvas");
  const tall = innerHeight - 2 * canvas.getBoundingClientRect().top;
  if (tall > canvas.layout.height) window.Plotly.relayout(canvas, { height: tall });
  const leave = () => {
    if (document.fullscreenElement === chart) return;
    document.removeEventListener("fullscreenchange", leave);
    window.Plotly.purge(canvas);
    delete canvas.dataset.leads;
    requestAnimationFrame(() => draw(chart));
  };
  document.addEventListener("fullscreenchange", leave);
}

// A picture stands from the start. Who wants to read off values or zoom asks for the drawing that can.
export function offerExploring(root) {
  for (const chart of charts(root)) {
    const ways = chart.querySelector(".ways");
    if ("explored" in chart.dataset && !("drawn" in chart.dataset)) draw(chart);
    if (!ways || ways.querySelector("button.link") || !chart.querySelector(".canvas svg")) continue;
    if (!("drawn" in chart.dataset || "explored" in chart.dataset)) {
      const made = button("Explore", chart, () => explore(chart, made));
      made.classList.add("explore");
      ways.append(made);
    }
    if (document.fullscreenEnabled) ways.append(button("Full screen", chart, () => fill(chart)));
  }
}

document.addEventListener(CHANGED, () => {
  for (const chart of charts(document)) if ("drawn" in chart.dataset) draw(chart);
});
