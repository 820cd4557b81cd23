// Fetches the vectors of two sentences from the server's REST interface and computes cosines.

// The white space of Python's str.split(): JavaScript's \s lacks five of these and adds U+FEFF.
const WHITE_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

const LAYERS = [ // in this order: name of the output, description
  [/^word_emb$/, () => "context-independent"],
  [/^lstm_outputs(\d+)$/, (number) => `layer ${number}, in context`],
  [/^elmo(?:_\d+)?$/, () => "the mix of the layers"],
];

/** Returns the tokens of a sentence. */
export function split(sentence) {
  return sentence.split(WHITE_SPACE).filter((token) => token !== "");
}

/** Returns the server's JSON. Throws an error with a message for the user. */
export async function ask(path, options) {
  let response, text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is it still running?");
  }
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error(`The server's response is not JSON (HTTP status ${response.status}).`);
  }
  if (answer.error) throw new Error(`The server rejected the request: ${answer.error}`);
  return answer;
}

/** Returns [{name, note, first, second}, …]: per layer, the vectors of both sentences. */
export async function embed(model, first, second, signal) {
  const width = Math.max(first.length, second.length);
  const padded = (tokens) => [...tokens, ...Array(width - tokens.length).fill("")];
  const inputs = {
    tokens: [padded(first), padded(second)],
    sequence_len: [first.length, second.length],
  };
  const body = JSON.stringify({ signature_name: "tokens", inputs });
  const path = `v1/models/${encodeURIComponent(model)}:predict`;
  const { outputs } = await ask(path, { method: "POST", body, signal });
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
