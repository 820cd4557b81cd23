// Fetches the vectors of two sentences from the server and computes cosines.

import { predict } from "./server.js";

const LAYERS = [ // in this order: name of the output, description
  [/^word_emb$/, () => "context-independent"],
  [/^lstm_outputs(\d+)$/, (number) => `layer ${number}, in context`],
  [/^elmo(?:_\d+)?$/, () => "the mix of the layers"],
];

/** Returns [{name, note, first, second}, …]: per layer, the vectors of both sentences. */
export async function embed(model, first, second, signal) {
  const width = Math.max(first.length, second.length);
  const padded = (tokens) => [...tokens, ...Array(width - tokens.length).fill("")];
  const inputs = {
    tokens: [padded(first), padded(second)],
    sequence_len: [first.length, second.length],
  };
  const outputs = await predict(model, "tokens", inputs, signal);
  const names = Object.keys(outputs).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const layers = LAYERS.flatMap(([pattern, note]) =>
    names.filter((name) => pattern.test(name)).map((name) => ({
      name,
      note: note(name.match(pattern)[1]),
      first: outputs[name][0].slice(0, first.length),
      second: outputs[name][1].slice(0, second.length),
    })),
  );
  if (layers.length === 0) throw new Error("The model has none of the outputs that this page can show.");
  return layers;
}

/** Returns the cosine similarities of all pairs, (row, column); 0 for zero vectors. */
export function similarities(rows, columns) {
  const [rowUnits, columnUnits] = [rows.map(unit), columns.map(unit)];
  return rowUnits.map((a) => columnUnits.map((b) => dot(a, b)));
}

function unit(vector) {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((value) => value / length);
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}
