// Builds the elements of the page. Strings are inserted as text, never as markup.

const DARKEST_UNDER_DARK_TEXT = 0.66; // darker cells have light text; see page.css

export const byId = (id) => document.getElementById(id);

/** Returns a new element with children, which are elements or strings. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Returns a part of the results: a hint, and elements below it. */
export function section(hint, ...children) {
  return element("section", { className: "card" },
    element("p", { className: "hint" }, hint), ...children);
}

/** Returns the element of a token, isolated from its context if it is written from right to left. */
export function tokenElement(token) {
  return element("bdi", { title: token }, token);
}

/** Returns a button that selects a token. */
export function tokenButton(tokens, position, isPressed, isChosen, choose) {
  return element("button", {
    type: "button",
    id: isChosen ? "chosen" : "",
    ariaPressed: String(isPressed),
    onclick: () => choose(position),
  }, tokenElement(tokens[position]));
}

/** Formats a number with the given number of decimals, without "−0.00". */
export function formatted(number, decimals) {
  return number.toFixed(decimals).replace(/^-(?=[0.]+$)/, "").replace("-", "−");
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

/** Returns a list of names with numbers and their bars. */
export function ranking(items) {
  return element("ol", { className: "ranking" }, ...items.map(({ name, number }) =>
    element("li", {},
      name,
      element("span", { className: "number" }, formatted(number, 3)),
      color(element("span", { className: "bar" }), number),
    ),
  ));
}
