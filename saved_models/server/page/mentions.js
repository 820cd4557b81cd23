// The entities of a document: each mention in brackets, with the number and the color of its entity.

import { element, showPrediction } from "./elements.js";
import { predictOne, split } from "./server.js";

const HUE_STEP = 137.5; // degrees, the golden angle: neighboring numbers get different colors

export const mentions = {
  title: "Coreference",
  signature: "default",
  inputs: ["strings"],
  outputs: ["mention_start", "mention_end", "entity"],
  fields: [{ name: "document", label: "Document, one sentence per line", rows: 8 }],
  invitation: "Enter a document to see its entities.",
  action: "Find entities",
  examples: {
    sisters: {
      document:
        "Mary gave her sister a kitten .\nIt was so small that she carried it in her pocket .\n" +
        "Mary laughed when she saw them .",
    },
    captain: {
      document:
        "The captain of the ship looked at his map .\n“ We are lost , ” he told the crew .\n" +
        "They did not believe him , because the ship was old and its compass was new .",
    },
  },

  async show({ model, texts, signal }) {
    const example = { strings: texts.document };
    const found = await predictOne(model, this.signature, example, signal);
    const spans = found.entity.map((entity, i) => (
      { entity, start: found.mention_start[i], end: found.mention_end[i] }
    )).filter(({ entity }) => entity >= 0); // -1 is padding
    spans.sort((a, b) => a.start - b.start || b.end - a.end); // outer mentions first
    showEntities(texts.document.split("\n").map(split), spans);
  },
};

function showEntities(sentences, spans) {
  const tokens = sentences.flat();
  const textOf = ({ start, end }) => tokens.slice(start, end + 1).join(" ");
  let position = 0;
  const lines = sentences.map((sentence) => {
    const line = bracketed(sentence, position, spans, textOf);
    position += sentence.length;
    return line;
  });
  const text = element("div", { className: "text" }, ...lines);
  const numbers = [...new Set(spans.map(({ entity }) => entity))].sort((a, b) => a - b);
  const items = numbers.map((entity) => {
    const texts = spans.filter((span) => span.entity === entity).map(textOf).join(" · ");
    return colored(element("li", {}, element("b", {}, `${entity + 1}`), ` ${texts}`), entity);
  });
  const list = element("ul", { className: "entities", ariaLabel: "Entities" }, ...items);
  const root = element("div", {}, text, list);
  root.addEventListener("pointerover", ({ target }) => outline(root, target));
  root.addEventListener("pointerleave", () => outline(root, null));
  root.addEventListener("focusin", ({ target }) => outline(root, target));
  root.addEventListener("focusout", () => outline(root, null));
  text.addEventListener("keydown", move);
  const first = text.querySelector(".mention");
  if (first) first.tabIndex = 0; // the arrow keys move to the others
  showPrediction(
    first
      ? "Mentions with the same number are the same entity. Point at one to outline them all, or use " +
        "the arrow keys: left and right for all mentions, up and down for those of the same entity."
      : "The model finds no mentions in this document.",
    root,
  );
}

/** Returns a sentence, which begins at `position`, with its mentions; they may be nested. */
function bracketed(sentence, position, spans, textOf) {
  const line = element("p", { dir: "auto" });
  const open = []; // [{span, node}, …], from the outermost on
  const parent = () => open.at(-1)?.node ?? line;
  for (const [offset, token] of sentence.entries()) {
    const here = position + offset;
    if (offset > 0) parent().append(" ");
    for (const span of spans) {
      if (span.start !== here) continue;
      const label = `Entity ${span.entity + 1}: ${textOf(span)}`;
      const properties = { className: "mention", role: "group", ariaLabel: label, tabIndex: -1 };
      const node = element("span", properties, "[");
      parent().append(colored(node, span.entity));
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

function colored(node, entity) {
  node.dataset.entity = entity;
  node.style.setProperty("--hue", `${(entity * HUE_STEP) % 360}`);
  return node;
}

/** Outlines all mentions of the entity at `target`, else of the one with the focus, if any. */
function outline(root, target) {
  const at = target?.closest("[data-entity]") ?? root.querySelector(".mention:focus");
  for (const node of root.querySelectorAll("[data-entity]")) {
    node.classList.toggle("outlined", node.dataset.entity === at?.dataset.entity);
  }
}

function move(event) {
  const all = [...event.currentTarget.querySelectorAll(".mention")];
  const same = all.filter((node) => node.dataset.entity === event.target.dataset.entity);
  const goal = {
    ArrowLeft: all[all.indexOf(event.target) - 1],
    ArrowRight: all[all.indexOf(event.target) + 1],
    ArrowUp: same[same.indexOf(event.target) - 1],
    ArrowDown: same[same.indexOf(event.target) + 1],
    Home: all[0],
    End: all.at(-1),
  };
  if (!(event.key in goal)) return;
  event.preventDefault();
  const next = goal[event.key] ?? event.target;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
