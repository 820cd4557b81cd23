// The semantic roles of a sentence for one predicate, which is selected among its tokens.

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
    showRoles(tokens, tags, position, choose);
    return position;
  },
};

let last = {}; // {position, token} of the predicate that is shown

function showRoles(tokens, tags, predicate, choose) {
  const button = (position) => element("button", {
    type: "button",
    ariaPressed: String(position === predicate),
    onclick: () => choose(position),
  }, tokenElement(tokens[position]));
  const items = spansOf(tags).map(
    ({ role, positions }) => labeled(role, ...positions.map(button)),
  );
  const hadFocus = byId("prediction").contains(document.activeElement);
  showPrediction(
    predicate === undefined
      ? "Select the predicate: the token, usually a verb, whose roles are to be found."
      : "The roles of the selected predicate. Select another token to see its roles.",
    element("ol", { className: "tokens labeled" }, ...items),
  );
  if (hadFocus) byId("prediction").querySelector("[aria-pressed=true]")?.focus();
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
