// The tokens of two sentences, the nearest tokens, and the heat maps of a biLM.

import { byId, color, element, layerTitle, tokenElement, formatted } from "./elements.js";
import { showMaps } from "./heat_maps.js";
import { split } from "./server.js";
import { embed, similarities } from "./vectors.js";

const MAX_TOKENS = 100;
const NUM_NEIGHBORS = 5;

export const neighbors = {
  title: "Tokens and their neighbors",
  signature: "tokens",
  inputs: ["tokens", "sequence_len"],
  outputs: [],
  fields: [
    { name: "first", label: "First sentence", maxTokens: MAX_TOKENS },
    { name: "second", label: "Second sentence", maxTokens: MAX_TOKENS, isOptional: true },
  ],
  choice: "token",
  invitation: "Enter a sentence to see its tokens.",
  action: "Compare",
  examples: {
    bank: {
      first: "They sat on the grassy bank of the river and watched the boats .",
      second: "The bank lent them money to build a house on the south bank .",
      token: 6,
    },
    play: {
      first: "The children play in the garden until it is dark .",
      second: "He wrote a play about two actors who play chess .",
      token: 3,
    },
    light: {
      first: "The light of the moon fell on the snow .",
      second: "A light rain fell while the street light was out .",
      token: 2,
    },
  },

  async show({ model, texts, choice, keep, signal }) {
    const [first, second] = [split(texts.first), split(texts.second)];
    const layers = await embed(model, first, second, signal);
    shown = { first, second, layers, keep };
    showTokens();
    choose(choice in first ? choice : sharedToken(first, second));
    showMaps(first, layers);
    return chosen;
  },
};

let shown = null; // {first, second: tokens, layers: from `embed`, keep: stores the selected token}
let chosen = 0; // position of the selected token in the first sentence

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
  byId("neighbors").replaceChildren(
    ...(shown.second.length
      ? shown.layers.map(neighborList)
      : [element("p", { className: "hint" }, "The second sentence is empty.")]),
  );
  shown.keep(position);
}

function neighborList(layer) {
  const [row] = similarities([layer.first[chosen]], layer.second);
  const ranked = row.map((similarity, position) => ({ similarity, position }));
  ranked.sort((a, b) => b.similarity - a.similarity); // stable
  const items = ranked.slice(0, NUM_NEIGHBORS).map(({ similarity, position }) =>
    element("li", {},
      element("span", { className: "token" },
        tokenElement(shown.second[position]), element("small", {}, `${position + 1}`)),
      element("span", { className: "number" }, formatted(similarity, 3)),
      color(element("span", { className: "bar" }), similarity),
    ),
  );
  return element("section", { className: "card" }, layerTitle(layer), element("ol", {}, ...items));
}
