// The figures of an answer as the server printed them, and by how much one differs from another.

// By name: what it is called, its text without the range, and its typical value where it is a number.
export function readFigures(root) {
  const found = {};
  for (const figure of root.querySelectorAll(".figures > [data-figure]")) {
    found[figure.dataset.figure] = {
      label: figure.querySelector("dt button").textContent.trim(),
      text: figure.querySelector("dd").textContent.trim().split(" (")[0].replace(/\s*†$/, ""),
      typical: Number(figure.dataset.typical) || null,
    };
  }
  return found;
}

const twoDigits = (value) => value.toLocaleString("en", { minimumSignificantDigits: 2, maximumSignificantDigits: 2 });

export function movement(was, now) {
  if (!was?.typical || !now?.typical) return "";
  const factor = now.typical / was.typical;
  if (factor >= 2) return `${twoDigits(factor)} ×`;
  if (factor < 0.1) return `1/${twoDigits(1 / factor)} of it`;
  const percent = Math.round(100 * (factor - 1));
  return percent ? `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %` : "under 1 %";
}

// Beside each figure that differs: what it was, or is in the plan that is the baseline. Returns the same in words.
export function markMoved(before, word) {
  const said = [];
  for (const [name, now] of Object.entries(readFigures(document))) {
    const was = before[name];
    const figure = document.querySelector(`[data-figure="${name}"]`);
    const differs = Boolean(was) && was.text !== now.text;
    const moved = movement(was, now);
    const text = differs ? `${word} ${was.text}${moved && `, ${moved}`}` : "";
    figure.querySelector(".was").textContent = text;
    figure.classList.toggle("moved", differs);
    if (differs) said.push(`${now.label} ${now.text}, ${text}`);
  }
  return said.join(". ");
}
