/* Draws the translation word by word, and highlights what belongs together on both sides.

   The source is a text area, which cannot highlight words. A copy of its text lies behind it, with the same line
   breaks, and shows the highlights. */

import { alignWords } from "./alignment.js";
import { byId, element } from "./dom.js";

const output = byId("output");
const source = byId("source-text");
const marks = byId("source-marks");
const caption = byId("caption");

const HINT = matchMedia("(hover: none)").matches
  ? "Tap a word to see its source and other wordings of the sentence."
  : "Point at a word to see its source. Click a sentence for other wordings.";

let drawn = []; // Per sentence: alignment, elements of words on both sides, start in the source.
let onSentence = () => {};

export function whenSentenceIsChosen(callback) {
  onSentence = callback;
}

/** Cut a text at its words; `make` turns each word into an element. */
function cut(text, textWords, make) {
  const parts = [];
  let position = 0;
  textWords.forEach((word, number) => {
    parts.push(text.slice(position, word.start), make(text.slice(word.start, word.end), number));
    position = word.end;
  });
  parts.push(text.slice(position));
  return parts;
}

/** Show a translation: a list of sentences as the server sends them. */
export function draw(sentences, languages) {
  drawn = [];
  const targetParts = [];
  const sourceParts = [];
  let start = 0;
  sentences.forEach((sentence, index) => {
    const aligned = alignWords(sentence, languages.source, languages.target);
    const entry = { ...aligned, sentence, start, sourceElements: [], targetElements: [] };
    drawn.push(entry);
    const sourceSpan = cut(sentence.source, aligned.sourceWords, (text) => {
      const word = element("span", {}, text);
      entry.sourceElements.push(word);
      return word;
    });
    sourceParts.push(...sourceSpan, sentence.source_gap);
    start += sentence.source.length + sentence.source_gap.length;
    const targetSpan = cut(sentence.text, aligned.targetWords, (text, number) => {
      const word = element("span", { class: "word", tabindex: "-1", "data-word": number }, text);
      entry.targetElements.push(word);
      return word;
    });
    const isFlagged = sentence.flags.some((flag) => flag !== "split");
    const classes = `sentence${isFlagged ? " flagged" : ""}`;
    if (sentence.text) targetParts.push(element("span", { class: classes, "data-sentence": index }, ...targetSpan));
    targetParts.push(sentence.gap);
  });
  output.lang = languages.target;
  output.replaceChildren(...targetParts);
  output.querySelector(".word")?.setAttribute("tabindex", "0");
  // A final line break has no height in a normal element.
  marks.replaceChildren(...sourceParts, "\u200b");
  highlight();
}

export function clear() {
  drawn = [];
  output.replaceChildren();
  marks.replaceChildren();
  highlight();
}

/** The copy behind the text area must not show old text while the user types. */
export function forgetSource() {
  marks.replaceChildren(`${source.value}\u200b`);
  for (const entry of drawn) entry.sourceElements = [];
  highlight();
}

export function markSentence(index) {
  for (const span of output.querySelectorAll(".sentence")) {
    span.classList.toggle("selected", Number(span.dataset.sentence) === index);
  }
}

/** Highlight a word and what it belongs to. */
function highlight(side = "", index = 0, number = 0) {
  for (const word of document.querySelectorAll("#output .on, #source-marks .on")) word.classList.remove("on");
  const entry = drawn[index];
  const links = side && entry && (side === "target" ? entry.toSource : entry.toTarget)[number];
  if (!links || !links.size) {
    caption.replaceChildren(drawn.some((item) => item.sentence.alignment.length) ? HINT : "");
    return;
  }
  const others = [...links].sort((one, other) => one - other);
  const sourceNumbers = side === "target" ? others : [number];
  const targetNumbers = side === "target" ? [number] : others;
  for (const position of sourceNumbers) entry.sourceElements[position]?.classList.add("on");
  for (const position of targetNumbers) entry.targetElements[position]?.classList.add("on");
  const list = (text, spans, positions) =>
    positions.flatMap((position, place) => [
      place ? ", " : "",
      element("b", {}, text.slice(spans[position].start, spans[position].end)),
    ]);
  caption.replaceChildren(
    ...list(entry.sentence.text, entry.targetWords, targetNumbers),
    " translates ",
    ...list(entry.sentence.source, entry.sourceWords, sourceNumbers),
  );
}

function highlightTarget(word) {
  const index = Number(word.closest(".sentence").dataset.sentence);
  highlight("target", index, Number(word.dataset.word));
}

output.addEventListener("pointerover", (event) => {
  const word = event.target.closest(".word");
  if (word) highlightTarget(word);
});
output.addEventListener("pointerleave", () => {
  const focused = document.activeElement;
  if (focused?.classList.contains("word")) highlightTarget(focused);
  else highlight();
});
output.addEventListener("focusin", (event) => {
  const word = event.target.closest(".word");
  if (!word) return;
  // One word is in the order of the Tab key; arrow keys move between words.
  output.querySelector(".word[tabindex='0']")?.setAttribute("tabindex", "-1");
  word.setAttribute("tabindex", "0");
  highlightTarget(word);
});
output.addEventListener("focusout", (event) => {
  if (!output.contains(event.relatedTarget)) highlight();
});
output.addEventListener("keydown", (event) => {
  const all = [...output.querySelectorAll(".word")];
  const position = all.indexOf(event.target);
  if (position < 0) return;
  const isLeftward = getComputedStyle(output).direction === "rtl";
  const [next, previous] = isLeftward ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
  const moves = {
    [next]: position + 1,
    ArrowDown: position + 1,
    [previous]: position - 1,
    ArrowUp: position - 1,
    Home: 0,
    End: all.length - 1,
  };
  if (event.key in moves) all[Math.min(Math.max(moves[event.key], 0), all.length - 1)].focus();
  else if (event.key === "Enter" || event.key === " ") choose(event.target);
  else return;
  event.preventDefault();
});
output.addEventListener("click", (event) => {
  // Text that is being selected is not a click.
  if (String(getSelection())) return;
  choose(event.target);
});

function choose(target) {
  const sentence = target.closest(".sentence");
  if (sentence) onSentence(Number(sentence.dataset.sentence));
}

/* The source: by the pointer, and by the position of the caret. */

source.addEventListener("pointermove", (event) => {
  for (const [index, entry] of drawn.entries()) {
    const number = entry.sourceElements.findIndex((word) =>
      [...word.getClientRects()].some(
        (box) =>
          box.left <= event.clientX && event.clientX < box.right && box.top <= event.clientY && event.clientY < box.bottom,
      ),
    );
    if (number >= 0) return highlight("source", index, number);
  }
  return highlight();
});
source.addEventListener("pointerleave", () => highlight());
document.addEventListener("selectionchange", () => {
  if (document.activeElement !== source) return;
  const caret = source.selectionStart;
  for (const [index, entry] of drawn.entries()) {
    const number = entry.sourceWords.findIndex(
      (word) => entry.start + word.start <= caret && caret <= entry.start + word.end,
    );
    if (number >= 0 && entry.sourceElements.length) return highlight("source", index, number);
  }
  return highlight();
});
