// The label of each token of a sentence.

import { element, labeled, showPrediction, tokenElement } from "./elements.js";
import { predictOne, split } from "./server.js";

export const tags = {
  title: "Labels of tokens",
  signature: "default",
  inputs: ["strings"],
  outputs: ["tags", "sequence_len"],
  fields: [{ name: "sentence", label: "Sentence" }],
  invitation: "Enter a sentence to see its labels.",
  action: "Label",
  examples: {
    Zürich: { sentence: "Anna Keller moved from Zürich to New York to work for IBM ." },
    rain: { sentence: "The rain fell softly on the roofs of the old town ." },
  },

  async show({ model, texts, signal }) {
    const found = await predictOne(model, this.signature, { strings: texts.sentence }, signal);
    const items = split(texts.sentence).map((token, position) => {
      const tag = found.tags[position];
      return labeled(tag === "O" ? "" : tag, tokenElement(token));
    });
    const hasLabels = found.tags.some((tag) => tag !== "O");
    showPrediction(
      hasLabels ? "Tokens without a label are O." : "The model labels all tokens O.",
      element("ol", { className: "tokens labeled" }, ...items),
    );
  },
};
