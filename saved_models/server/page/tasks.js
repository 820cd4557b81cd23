// The predictions of task models.

import {
  color, element, formatted, ranking, section, tokenButton, tokenElement,
} from "./elements.js";
import { orRaw, placedTokens, predictOne, split } from "./server.js";

const HUE_STEP = 137.5; // degrees, the golden angle: neighboring numbers get different colors

/** The label of each token of a sentence. */
export const tags = {
  title: "Labels of tokens",
  signature: "default",
  inputs: ["strings"],
  outputs: ["tags", "sequence_len"],
  fields: [{ name: "sentence", label: "Sentence" }],
  action: "Label",
  example: { sentence: "Anna Keller moved from Zürich to New York to work for IBM ." },

  async show({ model, signatures, texts: { sentence: strings }, signal }) {
    const found = await predictOne(model, orRaw(signatures, "default"), { strings }, signal);
    const items = split(strings).map((token, position) => {
      const tag = found.tags[position];
      return labeled(tag === "O" ? "" : tag, tokenElement(token));
    });
    const list = element("ol", { className: "tokens labeled" }, ...items);
    return { parts: [section("Tokens without a label are O.", list)] };
  },
};

/** The label of a text, with probabilities. */
export const labels = {
  title: "Label of a text",
  signature: "default",
  inputs: ["strings"],
  outputs: ["label", "probabilities"],
  fields: [{ name: "text", label: "Text" }],
  action: "Classify",
  example: { text: "A warm , funny and beautifully acted film ." },

  async show({ model, signatures, texts: { text: strings }, signal }) {
    const signature = orRaw(signatures, "default");
    return rankedLabels(await predictOne(model, signature, { strings }, signal));
  },
};

/** The label of a pair of sentences, with probabilities. */
export const pairLabels = {
  title: "Label of a pair of sentences",
  signature: "pair",
  inputs: ["premise", "hypothesis"],
  outputs: ["label", "probabilities"],
  fields: [{ name: "premise", label: "Premise" }, { name: "hypothesis", label: "Hypothesis" }],
  action: "Classify",
  example: {
    premise: "Two dogs run across a snowy field .",
    hypothesis: "Some animals are outdoors .",
  },

  async show({ model, signatures, texts, signal }) {
    const strings = [texts.premise, texts.hypothesis].map((text) => text.replaceAll("\t", " "));
    const inputs = "text" in signatures ? { strings: strings.join("\t") } : texts;
    return rankedLabels(await predictOne(model, orRaw(signatures, "pair"), inputs, signal));
  },
};

/** The semantic roles of the predicates that the model finds, if it can, and of a selected one. */
export const roles = {
  title: "Semantic roles",
  signature: "roles",
  inputs: ["strings", "predicate"],
  outputs: ["tags", "sequence_len"],
  fields: [{ name: "sentence", label: "Sentence" }],
  choice: "predicate",
  action: "Show roles",
  example: { sentence: "Yesterday the teacher gave each child a book about cats .", predicate: 4 },

  async show({ model, signatures, texts: { sentence: strings }, choice, choose, signal }) {
    const tokens = split(strings);
    const shown = []; // {predicate: position, tags}
    if ("propositions" in signatures) {
      const found = await predictOne(model, "propositions", { strings }, signal);
      for (const [i, predicate] of found.predicate.entries()) { // -1 is padding
        if (predicate >= 0) shown.push({ predicate, tags: found.roles[i].split(" ") });
      }
    }
    const chosen = choice in tokens ? choice : undefined;
    if (chosen !== undefined && shown.every(({ predicate }) => predicate !== chosen)) {
      const { tags } = await predictOne(model, "roles", { strings, predicate: chosen }, signal);
      shown.push({ predicate: chosen, tags });
    }
    if (shown.length === 0) shown.push({ tags: tokens.map(() => "O") });
    const lists = shown.map(({ predicate, tags }) => {
      const button = (position) => tokenButton(
        tokens, position, position === predicate, position === predicate && position === chosen, choose,
      );
      const items = spansOf(tags).map(({ role, places }) => labeled(role, ...places.map(button)));
      return element("ol", { className: "tokens labeled" }, ...items);
    });
    return { parts: [section("Select a token, usually a verb, to see its roles.", ...lists)], chosen };
  },
};

/** The answer to a question, marked in its passage. */
export const answers = {
  title: "Answers to questions",
  signature: "pair",
  inputs: ["passage", "question"],
  outputs: ["answer_start", "answer_end", "answer", "probability"],
  fields: [
    { name: "passage", label: "Passage", isLong: true },
    { name: "question", label: "Question" },
  ],
  action: "Answer",
  example: {
    passage:
      "The old stone bridge was built in 1532 by monks of the nearby abbey . A flood destroyed " +
      "two of its five arches in 1784 , and they were replaced by wooden ones .",
    question: "Who built the bridge ?",
  },

  async show({ model, texts, signal }) {
    const found = await predictOne(model, "pair", texts, signal);
    const places = placedTokens(texts.passage);
    const { start } = places[found.answer_start];
    const { end } = places[found.answer_end];
    const text = element("p", { className: "text", dir: "auto" },
      texts.passage.slice(0, start),
      element("mark", {}, texts.passage.slice(start, end)),
      texts.passage.slice(end));
    const answer = element("strong", { dir: "auto" }, found.answer);
    const hint = `The most probable answer, with the probability ${formatted(found.probability, 3)}.`;
    return { parts: [section(hint, element("p", {}, answer), text)] };
  },
};

/** The mentions of a document in brackets, with the number and the color of their entity. */
export const mentions = {
  title: "Coreference",
  signature: "default",
  inputs: ["strings"],
  outputs: ["mention_start", "mention_end", "entity"],
  fields: [{ name: "document", label: "Document, one sentence per line", isLong: true }],
  action: "Find entities",
  example: {
    document:
      "Mary gave her sister a kitten .\nIt was so small that she carried it in her pocket .\n" +
      "Mary laughed when she saw them .",
  },

  async show({ model, texts: { document: strings }, signal }) {
    const found = await predictOne(model, "default", { strings }, signal);
    const spans = found.entity.map((entity, i) => (
      { entity, start: found.mention_start[i], end: found.mention_end[i] }
    )).filter(({ entity }) => entity >= 0); // -1 is padding
    spans.sort((a, b) => a.start - b.start || b.end - a.end); // outer mentions first
    let position = 0;
    const lines = strings.split("\n").map((line) => {
      const tokens = split(line);
      position += tokens.length;
      return bracketed(tokens, position - tokens.length, spans);
    });
    const hint = spans.length
      ? "Mentions with the same number are the same entity."
      : "The model finds no mentions in this document.";
    return { parts: [section(hint, element("div", { className: "text" }, ...lines))] };
  },
};

/** Returns the list item of a span of tokens with its label below, or "" for none. */
function labeled(label, ...tokens) {
  const item = element("li", {}, element("div", {}, ...tokens));
  if (label) item.append(element("b", {}, label));
  return item;
}

/** Shows the best label by its name, the others by their numbers: only the best is an output. */
function rankedLabels({ label, probabilities }) {
  const ranked = probabilities.map((number, index) => ({ number, name: `label ${index + 1}` }));
  ranked.sort((a, b) => b.number - a.number); // stable
  ranked[0].name = element("strong", {}, element("bdi", {}, label));
  const hint = "The other labels have the numbers of their lines in the model's assets/labels.txt.";
  return { parts: [section(hint, ranking(ranked))] };
}

/** Returns [{role, places}, …] by BIO tags. Each token without a role is a span with the role "". */
function spansOf(tags) {
  const spans = [];
  for (const [place, tag] of tags.entries()) {
    const role = tag.slice(2);
    if (tag.startsWith("I-") && spans.at(-1)?.role === role) spans.at(-1).places.push(place);
    else spans.push({ role, places: [place] });
  }
  return spans;
}

/** Returns a sentence, which begins at `position`, with its mentions; they may be nested. */
function bracketed(tokens, position, spans) {
  const line = element("p", { dir: "auto" });
  const open = []; // [{span, node}, …], from the outermost on
  for (const [offset, token] of tokens.entries()) {
    const here = position + offset;
    const parent = () => open.at(-1)?.node ?? line;
    if (offset > 0) parent().append(" ");
    for (const span of spans.filter(({ start }) => start === here)) {
      const node = element("span", { className: "mention" }, "[");
      node.style.setProperty("--hue", `${(span.entity * HUE_STEP) % 360}`);
      parent().append(node);
      open.push({ span, node });
    }
    parent().append(token);
    while (open.length && open.at(-1).span.end <= here) {
      const { span, node } = open.pop();
      node.append("]", element("sub", {}, `${span.entity + 1}`));
    }
  }
  return line;
}
