// The nearest tokens of a token in a second sentence, and a heat map of the first, for each layer.

import { color, element, formatted, ranking, section, tokenButton, tokenElement } from "./elements.js";
import { orRaw, predict, split } from "./server.js";

const MAX_TOKENS = 100;
const MAX_NUMBERED = 16; // tokens; longer sentences have cells that are too small for numbers
const NUM_NEIGHBORS = 5;
const LAYERS = [ // in this order: name of the output, description
  [/^word_emb$/, "context-independent"],
  [/^lstm_outputs\d+$/, "in context"],
  [/^elmo(?:_\d+)?$/, "the mix of the layers"],
];

export const bilm = {
  title: "Tokens and their neighbors",
  signature: "tokens",
  inputs: ["tokens", "sequence_len"],
  outputs: [],
  fields: [
    { name: "first", label: "First sentence", maxTokens: MAX_TOKENS },
    { name: "second", label: "Second sentence", maxTokens: MAX_TOKENS, isOptional: true },
  ],
  choice: "token",
  action: "Compare",
  example: {
    first: "They sat on the grassy bank of the river and watched the boats .",
    second: "The bank lent them money to build a house on the south bank .",
    token: 6,
  },

  async show({ model, signatures, texts, choice, choose, signal }) {
    const { first, second, layers } = await embed(model, signatures, texts, signal);
    const chosen = choice in first ? choice : sharedToken(first, second);
    const buttons = first.map((_, position) => element("li", {},
      tokenButton(first, position, position === chosen, position === chosen, choose)));
    const neighbors = layers.map((layer) => neighborList(layer, chosen, second));
    const maps = layers.map((layer) => heatMap(layer, first));
    const parts = [
      section(
        second.length
          ? "Select a token to rank the tokens of the second sentence by similarity, in each layer."
          : "Enter a second sentence to rank its tokens by their similarity to the selected one.",
        element("ol", { className: "tokens" }, ...buttons),
      ),
      element("div", { className: "neighbors" }, ...(second.length ? neighbors : [])),
      section(
        "Every pair of tokens of the first sentence: cosine similarities. Blue is similar, gray " +
        "unrelated, orange opposite.",
      ),
      element("div", { className: "maps" }, ...maps),
    ];
    return { parts, chosen };
  },
};

/** Returns {first, second, layers: [{name, note, first, second}, …]}: tokens, and their vectors. */
async function embed(model, signatures, texts, signal) {
  const strings = [texts.first, texts.second];
  const outputs = await predict(model, orRaw(signatures, "default"), { strings }, signal);
  const [first, second] = outputs.tokens
    ? outputs.tokens.map((tokens, row) => tokens.slice(0, outputs.sequence_len[row]))
    : strings.map(split);
  const names = Object.keys(outputs).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const layers = LAYERS.flatMap(([pattern, note]) =>
    names.filter((name) => pattern.test(name)).map((name) => ({
      name,
      note,
      first: outputs[name][0].slice(0, first.length).map(unit),
      second: outputs[name][1].slice(0, second.length).map(unit),
    })),
  );
  return { first, second, layers };
}

/** Returns the position of the longest shared token, or 0. */
function sharedToken(first, second) {
  const lengths = first.map((token) => (second.includes(token) ? token.length : 0));
  return lengths.indexOf(Math.max(...lengths));
}

function neighborList(layer, chosen, tokens) {
  const ranked = layer.second.map((vector, position) => (
    { number: dot(layer.first[chosen], vector), position }
  ));
  ranked.sort((a, b) => b.number - a.number); // stable
  const items = ranked.slice(0, NUM_NEIGHBORS).map(({ number, position }) => {
    const place = element("small", {}, `${position + 1}`);
    const name = element("span", { className: "token" }, tokenElement(tokens[position]), place);
    return { name, number };
  });
  return element("section", { className: "card" }, layerTitle(layer), ranking(items));
}

function heatMap(layer, tokens) {
  const header = (token, scope) =>
    element("th", { scope }, element("span", {}, tokenElement(token)));
  const cell = (i, j) => {
    const similarity = dot(layer.first[i], layer.first[j]);
    const title = `${tokens[i]} · ${tokens[j]} ${formatted(similarity, 3)}`;
    return color(element("td", { title }, formatted(similarity, 2)), similarity);
  };
  const rows = tokens.map((token, i) =>
    element("tr", {}, header(token, "row"), ...tokens.map((_, j) => cell(i, j))));
  const head = element("tr", {}, element("td"), ...tokens.map((token) => header(token, "col")));
  const table = element("table", { ariaLabel: `Similarity of every pair of tokens in ${layer.name}` },
    element("thead", {}, head), element("tbody", {}, ...rows));
  table.classList.toggle("numbered", tokens.length <= MAX_NUMBERED);
  return element("section", { className: "card map" },
    layerTitle(layer), element("div", { className: "scroller" }, table));
}

function layerTitle({ name, note }) {
  return element("h2", {}, element("code", {}, name), " ", element("small", {}, note));
}

/** Scales a vector to length 1; a zero vector stays. */
function unit(vector) {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((value) => value / length);
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}
