// The label of a text or of a pair of sentences, with probabilities.

import { color, element, formatted, showPrediction } from "./elements.js";
import { predictOne } from "./server.js";

const OUTPUTS = ["label", "probabilities"];

export const labels = {
  title: "Label of a text",
  signature: "default",
  inputs: ["strings"],
  outputs: OUTPUTS,
  fields: [{ name: "text", label: "Text" }],
  invitation: "Enter a text to see its label.",
  action: "Classify",
  examples: {
    praise: { text: "A warm , funny and beautifully acted film ." },
    complaint: { text: "Two hours of noise , and not a single good idea ." },
  },
  async show({ model, texts, signal }) {
    showLabel(await predictOne(model, this.signature, { strings: texts.text }, signal));
  },
};

export const pairLabels = {
  title: "Label of a pair of sentences",
  signature: "pair",
  inputs: ["premise", "hypothesis"],
  outputs: OUTPUTS,
  fields: [{ name: "premise", label: "Premise" }, { name: "hypothesis", label: "Hypothesis" }],
  invitation: "Enter two sentences to see the label of the pair.",
  action: "Classify",
  examples: {
    dogs: {
      premise: "Two dogs run across a snowy field .",
      hypothesis: "Some animals are outdoors .",
    },
    guitar: {
      premise: "A man plays the guitar on a stage .",
      hypothesis: "The man is asleep .",
    },
  },
  async show({ model, texts, signal }) {
    showLabel(await predictOne(model, this.signature, texts, signal));
  },
};

/** Shows the best label by its name, the others by their numbers: only the best is an output. */
function showLabel({ label, probabilities }) {
  const ranked = probabilities.map((probability, index) => ({ probability, index }));
  ranked.sort((a, b) => b.probability - a.probability); // stable
  const items = ranked.map(({ probability, index }, rank) =>
    element("li", {},
      rank === 0 ? element("strong", {}, element("bdi", {}, label)) : `label ${index + 1}`,
      element("span", { className: "number" }, formatted(probability, 3)),
      color(element("span", { className: "bar" }), probability),
    ),
  );
  showPrediction(
    "The most probable label has its name. The others have the numbers of their lines in the " +
    "model's assets/labels.txt.",
    element("ol", { className: "ranking" }, ...items),
  );
}
