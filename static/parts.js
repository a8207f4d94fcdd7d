// Sections with a page of their own: a row that leads there becomes a fold that brings it here.

import { offerExploring } from "./charts.js";
import { showFormer } from "./ghosts.js";

async function bring(place) {
  const address = place.dataset.from;
  place.removeAttribute("data-from");
  try {
    const response = await fetch(address, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (place.isConnected) place.replaceChildren(...page.getElementById("section-body").childNodes);
    offerExploring(place);
    showFormer(place);
  } catch {
    place.dataset.from = address; // The link stays in its place.
  }
}

function fold(row) {
  const fold = document.createElement("details");
  fold.className = "section";
  fold.id = `fold-${row.parentElement.id}`;
  const summary = document.createElement("summary");
  const place = document.createElement("div");
  place.className = "unfolded";
  place.dataset.from = row.href;
  const link = document.createElement("a");
  link.href = row.href;
  link.textContent = `${row.querySelector("h2").textContent} on a page of its own`;
  place.append(link);
  summary.append(...row.childNodes);
  fold.append(summary, place);
  fold.addEventListener("toggle", () => fold.open && place.dataset.from && bring(place));
  row.replaceWith(fold);
}

export function foldRows(root) {
  for (const row of root.querySelectorAll("a.elsewhere")) fold(row);
}

export async function printReport() {
  await Promise.all([...document.querySelectorAll("[data-from]")].map(bring));
  print();
}
