// The form of the model, its results, and the address.

import { bilm } from "./bilm.js";
import { byId, element } from "./elements.js";
import { ask, signaturesOf, split } from "./server.js";
import { answers, labels, mentions, pairLabels, roles, tags } from "./tasks.js";

// The first one whose inputs and outputs the model has is shown. A view has
//   title, action: texts of the page;
//   signature, inputs, outputs: those that the page uses;
//   fields: [{name, label, isLong, maxTokens, isOptional}, …], of the form;
//   choice: the name of a selected token in the URL, or undefined;
//   example: {field: text, choice: number from 1};
//   show(request): returns {parts: elements, chosen: the position of the selected token}.
const VIEWS = [roles, answers, mentions, pairLabels, labels, tags, bilm];

let running = new AbortController(); // of the request in flight
let model, view, signatures; // of the server

begin();

async function begin() {
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    latest(showResults);
  });
  await latest(async () => {
    ({ model } = await ask("model.json", {}));
    await restoreState();
    addEventListener("hashchange", () => latest(restoreState));
  });
}

/** Does `work` instead of what is in flight, and shows its error. */
async function latest(work) {
  running.abort();
  running = new AbortController();
  document.body.ariaBusy = "true";
  let message = "";
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return; // a later request is in flight
    ({ message } = error);
  }
  byId("message").textContent = message;
  byId("message").hidden = message === "";
  byId("results").hidden = message !== "";
  document.body.ariaBusy = "false";
}

/** Shows the form of the model, filled from the URL or with an example, and its results. */
async function restoreState() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  byId("form").hidden = true;
  signatures = await signaturesOf(model, running.signal);
  view = VIEWS.find(({ signature, inputs, outputs }) => {
    const hasAll = (tensors, names) => names.every((name) => name in tensors);
    return [signature, "text"].some((name) => name in signatures &&
      hasAll(signatures[name].inputs, inputs) && hasAll(signatures[name].outputs, outputs));
  });
  if (!view) {
    throw new Error(
      `This page cannot show the model ${model}. It shows biLMs and task models that elmo_tf ` +
      `exported. The signatures of this model: ${Object.keys(signatures).sort().join(", ")}.`,
    );
  }
  byId("form").hidden = false;
  byId("title").textContent = view.title;
  document.title = `${view.title} · elmo_tf`;
  byId("action").textContent = view.action;
  const shown = view.fields[0].name in given ? given : view.example;
  byId("fields").replaceChildren(...view.fields.map(({ name, label, isLong }) => {
    const properties = { id: name, value: shown[name] ?? "", spellcheck: false, dir: "auto" };
    const field = element(isLong ? "textarea" : "input", properties);
    return element("label", { htmlFor: name }, label, field);
  }));
  await showResults(Number(shown[view.choice]) - 1);
}

/** Shows the results for the form, with the selected token, if any, or one that the view selects. */
async function showResults(choice) {
  const texts = Object.fromEntries(view.fields.map(({ name }) => [name, byId(name).value]));
  for (const { name, label, maxTokens = Infinity, isOptional } of view.fields) {
    const { length } = split(texts[name]);
    const which = `The ${label.toLowerCase()}`;
    if (length === 0 && !isOptional) throw new Error(`${which} is empty.`);
    if (length > maxTokens) {
      throw new Error(`${which} has ${length} tokens. The maximum is ${maxTokens}.`);
    }
  }
  const choose = (position) => latest(() => showResults(position));
  const { signal } = running;
  const { parts, chosen } = await view.show({ model, signatures, texts, choice, choose, signal });
  const hadFocus = byId("results").contains(document.activeElement);
  byId("results").replaceChildren(...parts);
  if (hadFocus) byId("chosen")?.focus();
  const selected = chosen === undefined ? {} : { [view.choice]: chosen + 1 };
  history.replaceState(null, "", `#${new URLSearchParams({ ...texts, ...selected })}`);
}
