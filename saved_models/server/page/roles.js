// The semantic roles of a sentence: for one predicate, which is selected among its tokens, or for all
// predicates that the model finds, and the selected one.

import { byId, element, labeled, showPrediction, tokenElement } from "./elements.js";
import { predictOne, split } from "./server.js";

export const roles = {
  title: "Semantic roles",
  signature: "roles",
  inputs: ["strings", "predicate"],
  outputs: ["tags", "sequence_len"],
  fields: [{ name: "sentence", label: "Sentence" }],
  choice: "predicate",
  invitation: "Enter a sentence to see its roles.",
  action: "Show roles",
  examples: {
    gave: { sentence: "Yesterday the teacher gave each child a book about cats .", predicate: 4 },
    want: { sentence: "My cats want to sleep because it rains .", predicate: 3 },
  },

  async show({ model, texts, choice, choose, signal }) {
    const tokens = split(texts.sentence);
    // An edited sentence keeps its predicate if the token is in the same place.
    if (choice === undefined && tokens[last.position] === last.token) choice = last.position;
    const position = choice in tokens ? choice : undefined;
    let tags = tokens.map(() => "O");
    if (position !== undefined) {
      const example = { strings: texts.sentence, predicate: position };
      ({ tags } = await predictOne(model, this.signature, example, signal));
    }
    last = { position, token: tokens[position] };
    const hint = position === undefined
      ? "Select the predicate: the token, usually a verb, whose roles are to be found."
      : "The roles of the selected predicate. Select another token to see its roles.";
    showRoles(tokens, [{ position, tags }], position, choose, hint);
    return position;
  },
};

export const propositions = {
  ...roles,
  signature: "propositions",
  inputs: ["strings"],
  outputs: ["predicate", "roles"],

  async show({ model, texts: { sentence: strings }, choice, choose, signal }) {
    const tokens = split(strings);
    const found = await predictOne(model, this.signature, { strings }, signal);
    const shown = found.predicate.map((position, i) => (
      { position, tags: found.roles[i].split(" ") }
    )).filter(({ position }) => position >= 0); // -1 is padding
    const position = choice in tokens ? choice : undefined;
    const hint = shown.length === 0
      ? "The model finds no predicate in this sentence. Select a token to see its roles."
      : "The roles for each predicate that the model finds. Select another token to see its roles.";
    if (position !== undefined && shown.every((one) => one.position !== position)) {
      const example = { strings, predicate: position };
      shown.push({ position, ...await predictOne(model, roles.signature, example, signal) });
      shown.sort((a, b) => a.position - b.position);
    }
    if (shown.length === 0) shown.push({ tags: tokens.map(() => "O") });
    showRoles(tokens, shown, position, choose, hint);
    return position;
  },
};

let last = {}; // {position, token} of the predicate that is shown

/** Shows a list for each of `[{position, tags}, …]`; the token of `chosen` keeps the focus. */
function showRoles(tokens, shown, chosen, choose, hint) {
  const lists = shown.map(({ position: predicate, tags }) => {
    const button = (position) => element("button", {
      type: "button",
      ariaPressed: String(position === predicate),
      onclick: () => choose(position),
    }, tokenElement(tokens[position]));
    const items = spansOf(tags).map(
      ({ role, positions }) => labeled(role, ...positions.map(button)),
    );
    return element("ol", { className: "tokens labeled" }, ...items);
  });
  const hadFocus = byId("prediction").contains(document.activeElement);
  showPrediction(hint, ...lists);
  const place = shown.findIndex(({ position }) => position === chosen);
  if (hadFocus) lists[place]?.querySelector("[aria-pressed=true]")?.focus();
}

/** Returns [{role, positions}, …] by BIO tags. Each token without a role is a span with the role "". */
function spansOf(tags) {
  const spans = [];
  for (const [position, tag] of tags.entries()) {
    const role = tag.slice(2);
    if (tag.startsWith("I-") && spans.at(-1)?.role === role) spans.at(-1).positions.push(position);
    else spans.push({ role, positions: [position] });
  }
  return spans;
}
