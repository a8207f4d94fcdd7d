// What happened, said aloud once.

const announcement = document.getElementById("announcement");

export function announce(text) {
  announcement.textContent = "";
  requestAnimationFrame(() => {
    announcement.textContent = text.replace(/\s+/g, " ").trim();
  });
}
