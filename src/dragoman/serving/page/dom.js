/* Helpers for elements. Text is always inserted as text, never as markup. */

export const byId = (id) => document.getElementById(id);

/** Make an element. Attributes that are false or null are left out. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null) continue;
    made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Make an icon from the symbols of the page. */
export function icon(name, extra = "") {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("class", `icon ${extra}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(namespace, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** Read a message aloud in a screen reader. */
export function announce(message) {
  byId("status").textContent = message;
}

/** Show a problem in its place, with a button to repeat if there is something to repeat. */
export function showProblem(place, message, repeat = null) {
  place.replaceChildren(message);
  if (repeat) {
    const button = element("button", { type: "button" }, "Try again");
    button.addEventListener("click", repeat);
    place.append(button);
  }
  place.hidden = !message;
}
