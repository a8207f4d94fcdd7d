// The form: its address, and what an answer says of its fields.

export const live = () => document.querySelector("form[data-live]");

// Only what differs from the defaults goes into the address.
export function addressOf(form) {
  const query = new URLSearchParams();
  for (const control of form.elements) {
    if (control.tagName === "FIELDSET" && control.dataset.choices) {
      const chosen = [...control.querySelectorAll("input:checked")].map((box) => box.value);
      if (chosen.join(" ") !== control.dataset.default) for (const value of chosen) query.append(control.dataset.choices, value);
    }
    if (!control.name || control.disabled || control.type === "checkbox") continue;
    const value = control.value.trim();
    if (value && value !== control.dataset.default) query.append(control.name, value);
  }
  const text = query.toString();
  return form.action.split("?")[0] + (text ? `?${text}` : "");
}

// Fields take their new hints, choices and errors; the one being used keeps the focus.
export function syncFields(fresh, sent) {
  for (const next of fresh.querySelectorAll(".field")) {
    const control = next.querySelector("input, select");
    const mine = control && document.getElementById(control.id);
    const field = mine?.closest(".field");
    if (!field) continue;
    if (mine !== document.activeElement) {
      field.replaceWith(document.adoptNode(next));
      continue;
    }
    field.className = next.className;
    if (mine.tagName === "SELECT") mine.innerHTML = control.innerHTML;
    if (mine.value === sent) mine.value = control.value; // What was typed meanwhile stays.
    for (const name of ["placeholder", "aria-describedby", "aria-invalid"]) {
      if (control.hasAttribute(name)) mine.setAttribute(name, control.getAttribute(name));
      else mine.removeAttribute(name);
    }
    for (const part of field.querySelectorAll("p")) part.remove();
    for (const part of next.querySelectorAll("p.error")) mine.before(document.adoptNode(part));
    for (const part of next.querySelectorAll("p.hint")) mine.after(document.adoptNode(part));
  }
}
