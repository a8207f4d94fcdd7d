// Parts of a page that are fetched when they come near: what takes longer than the plan.

import { offerExploring } from "./charts.js";

const pages = new Map();

export async function fetchPart(place) {
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

export const nearby = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      nearby.unobserve(target);
      fetchPart(target);
    }
  },
  { rootMargin: "300px" },
);

export async function printReport() {
  await Promise.all([...document.querySelectorAll(".later[data-from]")].map(fetchPart));
  print();
}
