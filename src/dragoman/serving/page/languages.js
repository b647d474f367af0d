/* Which languages the server has, and the two choosers with search. */

import { byId, element } from "./dom.js";

export const AUTO = "auto";

const MAX_NATIVE_LENGTH = 40;

/** The languages and pairs of the server. */
export class Languages {
  constructor(answer) {
    this.names = new Map(answer.languages.map((language) => [language.code, language.name]));
    this.pairs = new Map(answer.pairs.map((pair) => [`${pair.source} ${pair.target}`, pair]));
    this.sources = answer.languages.filter((language) => language.targets.length).map((language) => language.code);
    this.targets = [...new Set(answer.pairs.map((pair) => pair.target))];
    const byName = (one, other) => this.name(one).localeCompare(this.name(other));
    this.sources.sort(byName);
    this.targets.sort(byName);
  }

  name(code) {
    return this.names.get(code) ?? code;
  }

  pair(source, target) {
    return this.pairs.get(`${source} ${target}`);
  }

  targetsOf(source) {
    if (source === AUTO) return this.targets;
    return this.targets.filter((target) => this.pair(source, target));
  }
}

/** The name of a language in itself, if the browser knows it. */
function nativeName(code) {
  try {
    const name = new Intl.DisplayNames([code], { type: "language", fallback: "none" }).of(code);
    return name && name.length <= MAX_NATIVE_LENGTH ? name : "";
  } catch {
    return "";
  }
}

/** A button that opens a list of languages with a search field. */
export class Chooser {
  constructor(id, onChange) {
    const root = byId(id);
    this.root = root;
    this.button = root.querySelector(".chooser-button");
    this.valueText = root.querySelector(".chooser-value");
    this.popup = root.querySelector(".popup");
    this.input = root.querySelector("input");
    this.list = root.querySelector("[role=listbox]");
    this.emptyText = root.querySelector(".empty");
    this.options = [];
    this.active = 0;
    this.value = "";
    this.onChange = onChange;
    this.button.addEventListener("click", () => (this.popup.hidden ? this.open() : this.close()));
    this.button.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        this.open();
      }
    });
    this.input.addEventListener("input", () => this.filter());
    this.input.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("pointermove", (event) => {
      const item = event.target.closest("li");
      if (item) this.activate(Number(item.dataset.position));
    });
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("li");
      if (item) this.choose(Number(item.dataset.position));
    });
    root.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !root.contains(event.relatedTarget)) this.hide();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!root.contains(event.target)) this.hide();
    });
  }

  /** Set what can be chosen: a list of {code, name, note}. */
  setOptions(options) {
    this.options = options.map((option) => {
      const own = option.code === AUTO ? "" : nativeName(option.code);
      const native = own.toLowerCase() === option.name.toLowerCase() ? "" : own;
      return { ...option, native, search: `${option.name} ${native} ${option.code}`.toLowerCase() };
    });
  }

  setValue(code, ...label) {
    this.value = code;
    this.valueText.replaceChildren(...label);
  }

  open() {
    this.input.value = "";
    this.popup.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.filter();
    this.input.focus();
  }

  hide() {
    this.popup.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
  }

  close() {
    this.hide();
    this.button.focus();
  }

  filter() {
    const search = this.input.value.trim().toLowerCase();
    this.shown = this.options.filter((option) => option.search.includes(search));
    this.list.replaceChildren(
      ...this.shown.map((option, position) =>
        element(
          "li",
          {
            role: "option",
            id: `${this.list.id}-${position}`,
            "data-position": position,
            "data-code": option.code,
            "aria-selected": String(option.code === this.value),
          },
          option.name,
          element("small", {}, option.note || option.native),
        ),
      ),
    );
    this.emptyText.hidden = this.shown.length > 0;
    const selected = this.shown.findIndex((option) => option.code === this.value);
    this.activate(search ? 0 : Math.max(selected, 0));
  }

  activate(position) {
    this.active = position;
    for (const item of this.list.children) item.classList.toggle("active", Number(item.dataset.position) === position);
    const item = this.list.children[position];
    if (item) {
      this.input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else {
      this.input.removeAttribute("aria-activedescendant");
    }
  }

  choose(position) {
    const option = this.shown[position];
    if (!option) return;
    this.close();
    this.onChange(option.code);
  }

  onKey(event) {
    const last = this.shown.length - 1;
    const moves = {
      ArrowDown: Math.min(this.active + 1, last),
      ArrowUp: Math.max(this.active - 1, 0),
      PageDown: Math.min(this.active + 8, last),
      PageUp: Math.max(this.active - 8, 0),
    };
    if (event.key in moves) this.activate(moves[event.key]);
    else if (event.key === "Enter") this.choose(this.active);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }
}
