// A row of links as one stop of the Tab key, on the page one is on; arrows go through it, Home and End to its ends.

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

export function oneStop(row) {
  const links = [...row.querySelectorAll("a")];
  const stopAt = (stop) => {
    for (const link of links) link.tabIndex = link === stop ? 0 : -1;
  };
  row.role = "toolbar";
  row.ariaLabel = row.closest("nav").ariaLabel;
  for (const item of row.children) item.role = "none";
  stopAt(links.find((link) => link.ariaCurrent) ?? links[0]);
  row.addEventListener("focusin", ({ target }) => stopAt(target));
  row.addEventListener("keydown", (event) => {
    const { key, altKey, ctrlKey, metaKey } = event;
    if (altKey || ctrlKey || metaKey || !(key in STEPS || key === "Home" || key === "End")) return;
    event.preventDefault();
    const next = key in STEPS ? links.indexOf(event.target) + STEPS[key] + links.length : -(key === "End");
    links.at(next % links.length).focus();
  });
}
