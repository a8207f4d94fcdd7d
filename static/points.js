// The points of a chart of clusters: the one nearest to the pointer is said beside it, and leads to its plan. The picture
// is the server's; what its points are comes when the pointer first does. Places are told by the ends of the drawing's axes.

import { charts, figureOf, pageOfPoints } from "./charts.js";

const REACH = 14; // pixels to a point that is meant

// Where values lie between the ends of an axis, and what is there.
async function pointsOf(chart, drawn) {
  const [x0, x1, , y0, y1] = drawn.dataset.axes.split(" ").map(Number); // both axes are logarithms
  const { data } = await figureOf(chart);
  return data
    .filter((trace) => trace.customdata)
    .flatMap(({ x, y, text, customdata }) =>
      text.map((words, at) => ({
        across: (Math.log10(x[at]) - x0) / (x1 - x0),
        up: (Math.log10(y[at]) - y0) / (y1 - y0),
        words: words.replace("<br>", ", "),
        query: customdata[at],
      })),
    );
}

// Where the plot is, of which the drawing says from where it goes down, and how far.
function plotOf(drawn) {
  const { left, top, width } = drawn.querySelector("svg.plot").getBoundingClientRect();
  const [begin, height] = drawn.dataset.reach.split(" ").map(Number);
  return { left, top: top + begin, width, height };
}

function nearest(points, { width, height }, x, y) {
  let found = null;
  let least = REACH ** 2;
  for (const point of points) {
    const apart = (point.across * width - x) ** 2 + ((1 - point.up) * height - y) ** 2;
    if (apart < least) [found, least] = [point, apart];
  }
  return found;
}

function place(canvas, drawn, page, { across, up, words, query }) {
  const room = canvas.getBoundingClientRect();
  const plot = plotOf(drawn);
  const x = plot.left - room.left + across * plot.width;
  const y = plot.top - room.top + (1 - up) * plot.height;
  const readout = canvas.querySelector(".readout") ?? canvas.appendChild(document.createElement("a"));
  const spot = canvas.querySelector(".spot") ?? canvas.appendChild(document.createElement("i"));
  readout.className = "readout";
  spot.className = "spot";
  readout.textContent = words;
  readout.href = `${page}?${query}`;
  Object.assign(spot.style, { left: `${x}px`, top: `${y}px` });
  const right = x > room.width / 2;
  Object.assign(readout.style, {
    left: right ? "" : `${x + 8}px`,
    right: right ? `${room.width - x + 8}px` : "",
    top: `${y + 8}px`,
  });
}

function clear(canvas) {
  for (const shown of canvas.querySelectorAll(".readout, .spot")) shown.remove();
}

function offer(chart) {
  const drawn = chart.querySelector(".drawn[data-axes]");
  if (!drawn || "points" in drawn.dataset) return;
  drawn.dataset.points = "";
  const canvas = chart.querySelector(".canvas");
  const page = pageOfPoints(chart);
  let points = null;
  const found = async ({ clientX, clientY }) => {
    points ??= pointsOf(chart, drawn);
    const every = await points;
    const plot = plotOf(drawn);
    return drawn.isConnected ? nearest(every, plot, clientX - plot.left, clientY - plot.top) : null;
  };
  drawn.addEventListener("pointerenter", () => (points ??= pointsOf(chart, drawn)));
  drawn.addEventListener("pointermove", async (event) => {
    const point = await found(event);
    if (point) place(canvas, drawn, page, point);
    else clear(canvas);
    drawn.style.cursor = point ? "pointer" : "";
  });
  // A finger first asks what is there: what is said then is the link.
  drawn.addEventListener("click", async (event) => {
    const point = await found(event);
    if (!point) return;
    place(canvas, drawn, page, point);
    if (event.pointerType !== "touch") canvas.querySelector(".readout").click();
  });
  canvas.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && clear(canvas));
}

export function offerPoints(root) {
  for (const chart of charts(root)) if (pageOfPoints(chart)) offer(chart);
}
