// Copying, which says so where one clicked.

import { announce } from "./announcement.js";

// Over plain http there is no clipboard to ask: a selected field is copied as by hand.
function copySelected(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

export async function copy(text, said, control) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copySelected(text);
  }
  announce(done ? said : "Copying is not allowed here: select the text and copy it.");
  const name = control.textContent;
  control.textContent = done ? "Copied" : "Select the text and press Ctrl+C";
  setTimeout(() => (control.textContent = name), 2000);
}
