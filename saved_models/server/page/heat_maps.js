// A heat map per layer: the similarity of every pair of tokens of a sentence.

import { byId, color, element, layerTitle, tokenElement, formatted } from "./elements.js";
import { similarities } from "./vectors.js";

const MAX_NUMBERED = 16; // tokens; longer sentences have cells that are too small for numbers
const MAX_NARROW = 30; // tokens; longer sentences use the full width

/** Replaces the heat maps of the page. */
export function showMaps(tokens, layers) {
  byId("maps").replaceChildren(...layers.map((layer) => heatMap(tokens, layer)));
  byId("maps").style.setProperty("--count", tokens.length);
  byId("maps").classList.toggle("numbered", tokens.length <= MAX_NUMBERED);
  byId("maps").classList.toggle("wide", tokens.length > MAX_NARROW);
}

function heatMap(tokens, layer) {
  const label = `Similarity of every pair of tokens in ${layer.name}`;
  const table = element("table", { role: "grid", ariaLabel: label });
  const header = (token, scope) =>
    element("th", { scope }, element("span", {}, tokenElement(token)));
  const rows = similarities(layer.first, layer.first).map((row, i) =>
    element("tr", {}, header(tokens[i], "row"), ...row.map(mapCell)),
  );
  const head = element("tr", {}, element("td"), ...tokens.map((token) => header(token, "col")));
  table.append(element("thead", {}, head), element("tbody", {}, ...rows));
  table.rows[1].cells[1].tabIndex = 0; // the arrow keys move to the others
  table.addEventListener("pointerover", (event) => point(event.target.closest("tbody td")));
  table.addEventListener("focusin", (event) => point(event.target.closest("tbody td")));
  table.addEventListener("keydown", move);
  return element("section", { className: "card map" },
    layerTitle(layer),
    element("p", { className: "readout" }, "\u00a0"),
    element("div", { className: "scroller" }, table),
  );
}

function mapCell(similarity) {
  const cell = color(element("td", { tabIndex: -1 }, formatted(similarity, 2)), similarity);
  cell.dataset.similarity = similarity;
  return cell;
}

/** Highlights the pair of `cell` in every map and shows its similarity there. */
function point(cell) {
  if (cell === null) return;
  const [row, column] = [cell.parentElement.rowIndex, cell.cellIndex];
  for (const marked of document.querySelectorAll(".pointed")) marked.classList.remove("pointed");
  for (const map of byId("maps").children) {
    const { rows } = map.querySelector("table");
    const [rowHeader, columnHeader] = [rows[row].cells[0], rows[0].cells[column]];
    const same = rows[row].cells[column];
    for (const part of [rowHeader, columnHeader, same]) part.classList.add("pointed");
    map.querySelector(".readout").replaceChildren(
      tokenElement(rowHeader.textContent), " · ", tokenElement(columnHeader.textContent),
      element("strong", {}, formatted(Number(same.dataset.similarity), 3)),
    );
  }
}

function move(event) {
  const cell = event.target.closest("tbody td");
  if (cell === null) return;
  const [row, column] = [cell.parentElement.rowIndex, cell.cellIndex];
  const goal = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    Home: [row, 1],
    End: [row, Infinity],
  }[event.key];
  if (goal === undefined) return;
  event.preventDefault();
  const { rows } = event.currentTarget;
  const [toRow, toColumn] = goal.map((place) => Math.min(rows.length - 1, Math.max(1, place)));
  const next = rows[toRow].cells[toColumn];
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
