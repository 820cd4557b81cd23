// Builds the elements of the page. Strings are inserted as text, never as markup.

const DARKEST_UNDER_DARK_TEXT = 0.66; // darker cells have light text; see page.css

export const byId = (id) => document.getElementById(id);

/** Returns a new element with children, which are elements or strings. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Returns the element of a token, isolated from its context if it is written from right to left. */
export function tokenElement(token) {
  return element("bdi", { title: token }, token);
}

/** Formats a similarity with the given number of decimals, without "−0.00". */
export function formatted(similarity, decimals) {
  return similarity.toFixed(decimals).replace(/^-(?=[0.]+$)/, "").replace("-", "−");
}

/** Colors an element by the rule for `.colored` in page.css. */
export function color(made, similarity) {
  const strength = Math.min(1, Math.abs(similarity));
  made.classList.add("colored");
  made.classList.toggle("opposite", similarity < 0);
  made.classList.toggle("strong", strength > DARKEST_UNDER_DARK_TEXT);
  made.style.setProperty("--strength", `${100 * strength}%`);
  return made;
}

/** Returns the heading of a layer. */
export function layerTitle(layer) {
  return element("h3", {}, element("code", {}, layer.name), " ", element("small", {}, layer.note));
}

/** Replaces the prediction of a task model. */
export function showPrediction(hint, ...children) {
  byId("prediction").replaceChildren(element("p", { className: "hint" }, hint), ...children);
}

/** Returns the list item of a span of tokens with its label below, or "" for none. */
export function labeled(label, ...tokens) {
  const item = element("li", {}, element("div", {}, ...tokens));
  if (label) item.append(element("b", {}, label));
  return item;
}
