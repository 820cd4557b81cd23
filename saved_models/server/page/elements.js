// What the parts of the page are made of. Strings are inserted as text, never as markup.

const DARKEST_UNDER_DARK_TEXT = 0.66; // beyond it, light text is read better; see page.css

export const byId = (id) => document.getElementById(id);

/** Returns a new element; its children are elements or strings. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Returns a token, set apart from what surrounds it where it is written from right to left. */
export function tokenElement(token) {
  return element("bdi", { title: token }, token);
}

/** Returns a similarity with so many decimals, and no "−0.00". */
export function written(similarity, decimals) {
  return similarity.toFixed(decimals).replace(/^-(?=[0.]+$)/, "").replace("-", "−");
}

/** Colours an element by the rule for `.coloured` in page.css. */
export function colour(made, similarity) {
  const strength = Math.min(1, Math.abs(similarity));
  made.classList.add("coloured");
  made.classList.toggle("opposite", similarity < 0);
  made.classList.toggle("strong", strength > DARKEST_UNDER_DARK_TEXT);
  made.style.setProperty("--strength", `${100 * strength}%`);
  return made;
}

/** Returns the heading of what is shown of one layer. */
export function layerTitle(layer) {
  return element("h3", {}, element("code", {}, layer.name), " ", element("small", {}, layer.note));
}
