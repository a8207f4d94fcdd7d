// The reader's choice of colours, kept in this browser. A line in the head of each page takes it before anything is drawn.

const KEY = "railyard.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

export const CHANGED = "themed";

export function showTheme() {
  const theme = root.dataset.theme || "system";
  for (const button of document.querySelectorAll("[data-ask=theme]")) button.setAttribute("aria-pressed", button.value === theme);
}

export function setTheme({ value }) {
  const theme = value === "system" ? "" : value;
  root.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // A browser that keeps nothing shows it on this page all the same.
  }
  showTheme();
  document.dispatchEvent(new Event(CHANGED));
}

system.addEventListener("change", () => document.dispatchEvent(new Event(CHANGED)));
