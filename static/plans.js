// Named plans: kept in this browser, carried elsewhere as one JSON.

import { announce } from "./announcement.js";
import { nameOf, planOf } from "./pins.js";
import { keepList, readList } from "./storage.js";

const KEY = "railyard.plans";
const dialog = document.getElementById("plans");
const field = document.getElementById("plan-name");
const list = dialog.querySelector("ul");
const note = dialog.querySelector("[role=status]");
const offer = dialog.querySelector(".offer");
let offered = [];

const plans = () => readList(KEY, "plans");

function say(text) {
  note.textContent = text;
}

// A name that is taken gets a number.
function freeName(name, taken) {
  if (!taken.includes(name)) return name;
  let number = 2;
  while (taken.includes(`${name} (${number})`)) number += 1;
  return `${name} (${number})`;
}

function keep(kept, said) {
  say(keepList(KEY, "plans", kept) ? said : "This browser keeps nothing: storage is off.");
  show();
}

function row(plan, place) {
  const link = document.createElement("a");
  link.href = `${dialog.dataset.plan}${plan.query && `?${plan.query}`}`;
  link.textContent = plan.name;
  const facts = document.createElement("span");
  facts.className = "hint";
  const edition = plan.edition === document.body.dataset.edition ? "" : `, with catalogue ${plan.edition}: open it for today's figures`;
  facts.textContent = ` ${plan.days} · ${plan.capital} · saved ${plan.saved}${edition} `;
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "link";
  remove.textContent = "Delete";
  remove.setAttribute("aria-label", `Delete ${plan.name}`);
  remove.addEventListener("click", () => keep(plans().toSpliced(place, 1), `${plan.name} is deleted.`));
  const item = document.createElement("li");
  item.append(link, facts, remove);
  return item;
}

function show() {
  const kept = plans();
  list.replaceChildren(...kept.map(row));
  dialog.querySelector("[data-do=export]").disabled = !kept.length;
}

export function openPlans() {
  const plan = planOf(document);
  dialog.querySelector(".save").hidden = !plan;
  if (plan) field.value = nameOf(plan);
  offer.hidden = true;
  say(plans().length ? "" : "None yet. They stay in this browser, and go elsewhere as a file.");
  show();
  dialog.showModal();
}

function save() {
  const plan = planOf(document);
  const kept = plans();
  const name = freeName(field.value.trim() || nameOf(plan), kept.map((one) => one.name));
  const { query, edition, figures } = plan;
  const saved = new Date().toISOString().slice(0, 10);
  const [days, capital] = ["training.time_to_train", "costs.capital"].map((figure) => figures[figure]?.text ?? "–");
  keep([...kept, { name, query, edition, saved, days, capital }], `Saved as ${name}.`);
  announce(`Saved as ${name}.`);
}

function exportAll() {
  const text = JSON.stringify({ version: 1, plans: plans() }, null, 2);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "railyard-plans.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const TEXTS = ["name", "query", "edition", "saved", "days", "capital"];

// What a file holds is shown before it is taken in. Only texts are taken, and a query stays a query.
async function read(file) {
  offered = [];
  try {
    const found = JSON.parse(await file.text());
    offered = found.plans.map((plan) => Object.fromEntries(TEXTS.map((name) => [name, String(plan[name] ?? "–")])));
  } catch {
    say("That file holds no plans: choose one that was exported here.");
  }
  offer.hidden = !offered.length;
  if (offered.length) offer.querySelector("span").textContent = `In the file: ${offered.map(({ name }) => name).join("; ")}.`;
}

function merge() {
  const kept = plans();
  for (const plan of offered) kept.push({ ...plan, name: freeName(plan.name, kept.map((one) => one.name)) });
  offer.hidden = true;
  keep(kept, `${offered.length} taken in.`);
}

const ACTIONS = { save, merge, export: exportAll, close: () => dialog.close() };

dialog.addEventListener("click", ({ target }) => ACTIONS[target.dataset.do]?.());
dialog.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});
dialog.querySelector("input[type=file]").addEventListener("change", ({ target }) => {
  if (target.files[0]) read(target.files[0]);
  target.value = "";
});
