// The choice of a model, its form, its results, and the address.

import { answers } from "./answers.js";
import { byId, element } from "./elements.js";
import { labels, pairLabels } from "./labels.js";
import { mentions } from "./mentions.js";
import { neighbors } from "./neighbors.js";
import { propositions, roles } from "./roles.js";
import { ask, signaturesOf, split } from "./server.js";
import { tags } from "./tags.js";

// The first one whose inputs and outputs a model has is shown. A kind has
//   title, action, invitation: texts of the page;
//   signature, inputs, outputs: those that the page uses;
//   fields: [{name, label, rows, maxTokens, isOptional}, …], of the form;
//   choice: the name of a selected token in the URL, or undefined;
//   examples: {name: {field: text, choice: number from 1}};
//   show(request): shows the results and returns the position of the selected token.
const KINDS = [propositions, roles, answers, mentions, pairLabels, labels, tags, neighbors];

const ATTACHED = /(?<!\S)(\S*\p{L})([,;:!?،؛؟।]['"”’)\]]*(?!\S)|(?<=\p{L}{2})\.['"”’)\]]*(?=\s*$)|[。！？，；：、])/mu;

let running = new AbortController(); // of the request in flight
let kind = null; // of the selected model
const state = {}; // the last texts and selected tokens, by their names in the URL

begin();

async function begin() {
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  byId("form").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target.tagName !== "TEXTAREA" || event.isComposing) return;
    if (isLong(event.target) && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    run();
  });
  byId("model").addEventListener("change", () => openModel({ ...state, ...formTexts() }));
  try {
    const { models } = await ask("models.json", {});
    byId("model").replaceChildren(...models.map((name) => new Option(name)));
  } catch (error) {
    showMessage(error.message);
    return;
  }
  addEventListener("hashchange", restoreState);
  restoreState();
}

/** Returns whether Enter starts a new line in a field. */
function isLong({ rows }) {
  return rows > 2;
}

/** Shows the form of the selected model, filled from `given` or with an example, and its results. */
function openModel(given) {
  return latest(async (signal) => {
    byId("form").inert = true; // that of the previous model
    const found = await signaturesOf(byId("model").value, signal).then(kindOf).catch((error) => {
      if (error.name !== "AbortError") showKind(null);
      throw error;
    });
    showKind(found);
    const [example] = Object.values(kind.examples);
    await fill(kind.fields[0].name in given ? given : example, signal);
  });
}

function kindOf(signatures) {
  const found = KINDS.find(({ signature, inputs, outputs }) => {
    const has = signatures[signature];
    const hasAll = (part, names) => names.every((name) => name in has[part]);
    return has && hasAll("inputs", inputs) && hasAll("outputs", outputs);
  });
  if (found) return found;
  const names = Object.keys(signatures).filter((name) => !name.startsWith("__")).sort().join(", ");
  throw new Error(
    `This page cannot show the model ${byId("model").value}. It shows biLMs and task models that ` +
    `elmo_tf exported. The signatures of this model: ${names || "none"}.`,
  );
}

/** Shows the form of a kind, or none for `null`. */
function showKind(found) {
  const hasChanged = found !== kind;
  kind = found;
  byId("form").inert = false;
  byId("form").hidden = kind === null;
  if (kind === null || !hasChanged) return;
  byId("title").textContent = kind.title;
  document.title = `${kind.title} · elmo_tf`;
  byId("compare").textContent = kind.action;
  byId("shortcut").textContent = `or press ${kind.fields.some(isLong) ? "Ctrl + Enter" : "Enter"}`;
  byId("fields").replaceChildren(...kind.fields.map(({ name, label, rows = 2 }) =>
    element("label", { htmlFor: name }, label,
      element("textarea", { id: name, rows, spellcheck: false, dir: "auto" })),
  ));
  byId("examples").replaceChildren("Examples", ...Object.entries(kind.examples).map(
    ([name, example]) => {
      const onclick = () => latest((signal) => fill(example, signal));
      return element("button", { type: "button", onclick }, name);
    },
  ));
  byId("prediction").hidden = kind === neighbors;
  byId("similarity").hidden = kind !== neighbors;
  byId("results").hidden = true;
}

/** Fills the form and shows the results. */
function fill(given, signal) {
  for (const { name } of kind.fields) byId(name).value = given[name] ?? "";
  return showResults(Number(given[kind.choice]) - 1, signal);
}

/** Shows the results for the form, with the selected token, if any, or one that the kind selects. */
function run(choice) {
  return latest((signal) => showResults(choice, signal));
}

/** Does `work` instead of what is in flight, and shows its error. */
async function latest(work) {
  running.abort();
  running = new AbortController();
  document.body.ariaBusy = "true";
  try {
    await work(running.signal);
    document.body.ariaBusy = "false";
  } catch (error) {
    if (error.name !== "AbortError") showMessage(error.message); // aborted by a later request
  }
}

async function showResults(choice, signal) {
  const texts = formTexts();
  const model = byId("model").value;
  const problem = problemOf(texts);
  showMessage(problem);
  showRawText(texts);
  if (problem) return;
  const keep = (position) => saveState(model, texts, position);
  keep(await kind.show({ model, texts, choice, choose: run, keep, signal }));
  byId("results").hidden = false;
}

function formTexts() {
  return Object.fromEntries((kind?.fields ?? []).map(({ name }) => [name, byId(name).value]));
}

function problemOf(texts) {
  for (const { name, label, maxTokens = Infinity, isOptional = false } of kind.fields) {
    const { length } = split(texts[name]);
    const which = `The ${label.toLowerCase()}`;
    if (length === 0 && !isOptional) return `${which} is empty. ${kind.invitation}`;
    if (length > maxTokens) return `${which} has ${length} tokens. The maximum is ${maxTokens}.`;
  }
  return "";
}

/** Shows a hint if a text has punctuation attached to a word; see elmo_tf/text/input_warnings.py. */
function showRawText(texts) {
  const found = Object.values(texts).map((text) => text.match(ATTACHED)).find(Boolean);
  byId("raw-text").hidden = !found;
  byId("raw-text").textContent = found &&
    `“${found[0]}” is read as one word. Separate punctuation by spaces: “${found[1]} ${found[2]}”.`;
}

/** Shows a message instead of the results; "" hides it. */
function showMessage(message) {
  byId("message").textContent = message;
  byId("message").hidden = message === "";
  if (message === "") return;
  byId("results").hidden = true;
  document.body.ariaBusy = "false";
}

/** Stores the state in the URL, for links. */
function saveState(model, texts, position) {
  const shown = { ...texts };
  if (kind.choice) delete state[kind.choice];
  if (position !== undefined) shown[kind.choice] = position + 1;
  Object.assign(state, shown);
  history.replaceState(null, "", `#${new URLSearchParams({ model, ...shown })}`);
}

/** Restores the state from the URL, or shows the first example. */
function restoreState() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const names = [...byId("model").options].map((option) => option.value);
  if (names.includes(given.model)) byId("model").value = given.model;
  openModel(given);
}
