// The former curve: what a chart showed before a change, moved onto the axes that it has now. Pictures alone: the server
// drew both, and says of each what its axes reach.

import { charts } from "./charts.js";

const WIDE = 1000; // places across a drawing that is stretched over its plot
const NAMESPACE = "http://www.w3.org/2000/svg";

let former = new Map();

function axesOf(drawn) {
  const [x0, x1, xLog, y0, y1, yLog] = drawn.dataset.axes.split(" ").map(Number);
  return { x0, x1, y0, y1, kind: `${xLog} ${yLog}` };
}

const nameOf = (mark) => mark.querySelector("title")?.textContent.split(": ")[0] ?? "";

function picture(chart) {
  const drawn = chart.querySelector(".drawn[data-axes]");
  if (!chart.id || !drawn) return null;
  const plain = drawn.cloneNode(true);
  for (const ghost of plain.querySelectorAll(".ghost")) ghost.remove();
  const cut = drawn.querySelector("svg.cut");
  const lines = [...(cut?.querySelectorAll("path:not([fill], [stroke-linecap])") ?? [])].filter((line) => !line.closest(".ghost"));
  const widest = Math.max(...lines.map((line) => Number(line.getAttribute("stroke-width"))));
  const named = [...drawn.querySelectorAll("rect")].filter((bar) => nameOf(bar));
  const once = (bar) => named.filter((other) => nameOf(other) === nameOf(bar)).length === 1;
  const bars = named.filter(once); // The lanes of a timeline share their names.
  return {
    drawn,
    plain: plain.innerHTML,
    cut,
    axes: axesOf(drawn),
    view: cut?.getAttribute("viewBox").split(" ").map(Number),
    lines: lines.filter((line) => Number(line.getAttribute("stroke-width")) === widest && widest > 1),
    bars: new Map(bars.map((bar) => [nameOf(bar), bar])),
  };
}

// Before an answer is swapped in.
export function remember(root) {
  former = new Map([...charts(root)].map((chart) => [chart.id, picture(chart)]).filter(([, shown]) => shown));
}

function along(was, now) {
  const scale = (was.x1 - was.x0) / (now.x1 - now.x0);
  return { scale, start: (was.x0 - now.x0) / (now.x1 - now.x0) };
}

function moved(line, was, now) {
  const [, top, , tall] = was.view;
  const [, newTop, , newTall] = now.view;
  const x = along(was.axes, now.axes);
  const reach = now.axes.y1 - now.axes.y0;
  const scale = (newTall * (was.axes.y1 - was.axes.y0)) / (tall * reach);
  const start = newTop + newTall * (1 - (was.axes.y1 - now.axes.y0) / reach) - top * scale;
  const ghost = line.cloneNode(false);
  ghost.setAttribute("transform", `matrix(${x.scale} 0 0 ${scale} ${WIDE * x.start} ${start})`);
  return ghost;
}

function outlined(bar, wasBar, was, now) {
  const x = along(was.axes, now.axes);
  const ghost = document.createElementNS(NAMESPACE, "rect");
  const place = (name) => Number.parseFloat(wasBar.getAttribute(name));
  ghost.setAttribute("x", `${100 * x.start + x.scale * place("x")}%`);
  ghost.setAttribute("width", `${x.scale * place("width")}%`);
  for (const name of ["y", "height"]) ghost.setAttribute(name, bar.getAttribute(name));
  return ghost;
}

// Bars are cut at the ends of the plot, where one that went on has no end.
function group(parts, element) {
  const made = document.createElementNS(NAMESPACE, element);
  made.setAttribute("class", "ghost");
  made.append(...parts);
  return made;
}

// Draw the former curves and bars into the charts below root that differ from what they were.
export function showFormer(root) {
  for (const chart of charts(root)) {
    const was = former.get(chart.id);
    const now = was && picture(chart);
    if (!now || chart.querySelector(".ghost") || was.axes.kind !== now.axes.kind || was.plain === now.plain) continue;
    const bars = [...now.bars].filter(([name]) => was.bars.has(name));
    const rects = bars.map(([name, bar]) => outlined(bar, was.bars.get(name), was, now));
    const lines = was.view && now.view ? was.lines.map((line) => moved(line, was, now)) : [];
    if (lines.length) now.cut.append(group(lines, "g"));
    if (rects.length) now.drawn.querySelector("svg.plot").append(group(rects, "svg"));
    if (!lines.length && !rects.length) continue;
    const note = document.createElement("span");
    note.className = "muted";
    const end = (ghost) => Number.parseFloat(ghost.getAttribute("x")) + Number.parseFloat(ghost.getAttribute("width"));
    const runsOn = rects.some((ghost) => end(ghost) > 100);
    note.textContent = `Dashed: before the change${runsOn ? ", open where it went on" : ""}`;
    chart.querySelector(".ways")?.append(note);
  }
}
