// The form, the tokens of both sentences, the nearest tokens, and the heat maps.

import { byId, colour, element, layerTitle, tokenElement, formatted } from "./elements.js";
import { showMaps } from "./heat_maps.js";
import { ask, embed, similarities, split } from "./vectors.js";

const MAX_TOKENS = 100;
const NUM_NEIGHBOURS = 5;
const EXAMPLES = {
  bank: [
    "They sat on the grassy bank of the river and watched the boats .",
    "The bank lent them money to build a house on the south bank .",
  ],
  play: [
    "The children play in the garden until it is dark .",
    "He wrote a play about two actors who play chess .",
  ],
  light: [
    "The light of the moon fell on the snow .",
    "A light rain fell while the street light was out .",
  ],
};

let running = new AbortController(); // of the request in flight
let shown = null; // {first, second: tokens, layers: from `embed`}
let chosen = 0; // position of the selected token in the first sentence

begin();

async function begin() {
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    compare();
  });
  byId("form").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target.tagName !== "TEXTAREA" || event.isComposing) return;
    event.preventDefault();
    compare();
  });
  byId("model").addEventListener("change", () => compare(chosen));
  byId("examples").append(...Object.keys(EXAMPLES).map((word) =>
    element("button", { type: "button", onclick: () => showExample(word) }, word),
  ));
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

function showExample(word) {
  [byId("first").value, byId("second").value] = EXAMPLES[word];
  compare(split(EXAMPLES[word][0]).indexOf(word));
}

/** Compares the sentences of the form. Without a position, a shared token is selected. */
async function compare(position) {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const [first, second] = [split(byId("first").value), split(byId("second").value)];
  const problem = problemOf(first, second);
  showMessage(problem);
  if (problem) return;
  document.body.ariaBusy = "true";
  try {
    const layers = await embed(byId("model").value, first, second, signal);
    shown = { first, second, layers };
    showTokens();
    choose(position in first ? position : sharedToken(first, second));
    showMaps(first, layers);
    byId("results").hidden = false;
    document.body.ariaBusy = "false";
  } catch (error) {
    if (error.name !== "AbortError") showMessage(error.message); // aborted by a later request
  }
}

function problemOf(first, second) {
  if (first.length === 0) return "The first sentence is empty. Enter a sentence to see its tokens.";
  for (const [which, { length }] of [["first", first], ["second", second]]) {
    if (length > MAX_TOKENS) {
      return `The ${which} sentence has ${length} tokens. The maximum is ${MAX_TOKENS}.`;
    }
  }
  return "";
}

/** Shows a message instead of the results; "" hides it. */
function showMessage(message) {
  byId("message").textContent = message;
  byId("message").hidden = message === "";
  if (message === "") return;
  byId("results").hidden = true;
  document.body.ariaBusy = "false";
}

/** Returns the position of the longest shared token, or 0. */
function sharedToken(first, second) {
  const lengths = first.map((token) => (second.includes(token) ? token.length : 0));
  return lengths.indexOf(Math.max(...lengths));
}

function showTokens() {
  const item = (tag, token, position, properties = {}) => {
    const number = element("small", {}, `${position + 1}`);
    return element("li", {}, element(tag, properties, tokenElement(token), number));
  };
  byId("first-tokens").replaceChildren(...shown.first.map((token, position) =>
    item("button", token, position, { type: "button", onclick: () => choose(position) }),
  ));
  byId("second-tokens").replaceChildren(
    ...shown.second.map((token, position) => item("span", token, position)),
  );
}

function choose(position) {
  chosen = position;
  for (const [index, button] of byId("first-tokens").querySelectorAll("button").entries()) {
    button.ariaPressed = String(index === chosen);
  }
  byId("neighbours").replaceChildren(
    ...(shown.second.length
      ? shown.layers.map(neighbourList)
      : [element("p", { className: "hint" }, "The second sentence is empty.")]),
  );
  saveState();
}

function neighbourList(layer) {
  const [row] = similarities([layer.first[chosen]], layer.second);
  const ranked = row.map((similarity, position) => ({ similarity, position }));
  ranked.sort((a, b) => b.similarity - a.similarity); // stable
  const items = ranked.slice(0, NUM_NEIGHBOURS).map(({ similarity, position }) =>
    element("li", {},
      element("span", { className: "token" },
        tokenElement(shown.second[position]), element("small", {}, `${position + 1}`)),
      element("span", { className: "number" }, formatted(similarity, 3)),
      colour(element("span", { className: "bar" }), similarity),
    ),
  );
  return element("section", { className: "card" }, layerTitle(layer), element("ol", {}, ...items));
}

/** Stores the state in the URL, for links. */
function saveState() {
  const state = new URLSearchParams({
    model: byId("model").value,
    first: byId("first").value,
    second: byId("second").value,
    token: chosen + 1,
  });
  history.replaceState(null, "", `#${state}`);
}

/** Restores the state from the URL, or shows the first example. */
function restoreState() {
  const state = new URLSearchParams(location.hash.slice(1));
  const [first, second] = state.has("first") ? [state.get("first"), ""] : EXAMPLES.bank;
  byId("first").value = first;
  byId("second").value = state.get("second") ?? second;
  const names = [...byId("model").options].map((option) => option.value);
  if (names.includes(state.get("model"))) byId("model").value = state.get("model");
  compare(Number(state.get("token")) - 1);
}
