// The server's REST interface, and the tokens of a text as the server splits it.

// The white space of Python's str.split(): JavaScript's \s lacks five of these and adds U+FEFF.
const TOKEN = /[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;

/** Returns the tokens of a text. */
export function split(text) {
  return placedTokens(text).map(({ token }) => token);
}

/** Returns [{token, start, end}, …]: the tokens of a text with their places in it. */
export function placedTokens(text) {
  return [...text.matchAll(TOKEN)].map(({ 0: token, index }) => (
    { token, start: index, end: index + token.length }
  ));
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

/** Returns a model's signatures: {name: {inputs: {name: …}, outputs: {name: …}}}. */
export async function signaturesOf(model, signal) {
  const { metadata } = await ask(`${pathOf(model)}/metadata`, { signal });
  return metadata.signature_def.signature_def;
}

/** Returns the outputs of a signature, tensors by name. */
export async function predict(model, signature, inputs, signal) {
  const body = JSON.stringify({ signature_name: signature, inputs });
  return (await ask(`${pathOf(model)}:predict`, { method: "POST", body, signal })).outputs;
}

/** Returns the signature for raw text, if the model has one, and otherwise `name`. */
export function orRaw(signatures, name) {
  return "text" in signatures ? "text" : name;
}

/** Returns the outputs for one example, both without the batch axis. */
export async function predictOne(model, signature, example, signal) {
  const mapped = (tensors, change) =>
    Object.fromEntries(Object.entries(tensors).map(([name, value]) => [name, change(value)]));
  const inputs = mapped(example, (value) => [value]);
  return mapped(await predict(model, signature, inputs, signal), ([value]) => value);
}

function pathOf(model) {
  return `v1/models/${encodeURIComponent(model)}`;
}
