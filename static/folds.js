// Folds: a link into one opens it; paper shows them all.

// Opens every fold around the target of a link; says whether one was shut.
export function reveal(target) {
  let shut = false;
  const row = target.matches("section") && target.querySelector(":scope > details:not([open])");
  if (row) shut = row.open = true;
  if (target.tagName === "DETAILS" && !target.open) shut = target.open = true;
  for (let node = target.parentElement; node; node = node.parentElement) {
    if (node.tagName === "DETAILS" && !node.open) shut = node.open = true;
  }
  return shut;
}

export const targetOf = (hash) => (hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null);

// What a row's page holds is looked for there: links made before it had one still lead to it.
function seek(hash) {
  const link = document.querySelector(`[data-index] a[href$="${CSS.escape(hash)}"]`);
  if (link) location.replace(link.href);
  const row = [...document.querySelectorAll("[data-holds]")].find(({ dataset }) => hash.startsWith(dataset.holds));
  if (row) location.replace(row.querySelector("a").href + hash);
}

// After the browser went to a target: a field takes the focus, and what was folded comes into view.
export function follow(hash) {
  const target = targetOf(hash);
  if (!target) return seek(hash);
  if (reveal(target)) target.scrollIntoView();
  if (target.matches("input, select, textarea")) target.focus();
}

// What a section folds away once more, tables of its charts most of all, is printed where the reader opened it.
const isOfPaper = (fold) => !fold.parentElement.closest(".section");

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("main details:not([open]):not(.noprint)")].filter(isOfPaper);
  for (const fold of opened) if (!fold.closest(".noprint")) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of opened) fold.open = false;
});
