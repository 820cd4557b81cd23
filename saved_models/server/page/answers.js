// The answer to a question, marked in its passage.

import { element, formatted, showPrediction } from "./elements.js";
import { placedTokens, predictOne } from "./server.js";

export const answers = {
  title: "Answers to questions",
  signature: "pair",
  inputs: ["passage", "question"],
  outputs: ["answer_start", "answer_end", "answer", "probability"],
  fields: [
    { name: "passage", label: "Passage", rows: 6 },
    { name: "question", label: "Question" },
  ],
  invitation: "Enter a passage and a question to see the answer.",
  action: "Answer",
  examples: {
    bridge: {
      passage:
        "The old stone bridge was built in 1532 by monks of the nearby abbey . A flood destroyed " +
        "two of its five arches in 1784 , and they were replaced by wooden ones .",
      question: "Who built the bridge ?",
    },
    penguins: {
      passage:
        "Penguins live almost only in the southern half of the world . They cannot fly , but they " +
        "swim well and catch fish , squid and krill under water .",
      question: "What do penguins eat ?",
    },
  },

  async show({ model, texts, signal }) {
    const found = await predictOne(model, this.signature, texts, signal);
    const places = placedTokens(texts.passage);
    const { start } = places[found.answer_start];
    const { end } = places[found.answer_end];
    showPrediction(
      "The most probable answer, its probability, and its place in the passage.",
      element("p", { className: "answer" },
        element("strong", { dir: "auto" }, found.answer),
        element("span", { className: "number" }, formatted(found.probability, 3))),
      element("p", { className: "text", dir: "auto" },
        texts.passage.slice(0, start),
        element("mark", {}, texts.passage.slice(start, end)),
        texts.passage.slice(end)),
    );
  },
};
