/* What the reader should know about a translation, in plain words. */

import { byId, element } from "./dom.js";

const WORDS = {
  repetition: "The model repeats itself in a marked sentence. Check it.",
  length: "A marked sentence is much longer or shorter than expected. Check it.",
  retried: "A sentence was translated a second time because the first attempt was poor.",
  spans_aligned: "Placeholders or tags were put back where the model placed their words. Check their position.",
  spans_in_pieces: "A sentence was translated in pieces around its placeholders or tags. Check the wording.",
  source_copied: "A sentence could not be translated safely and was copied.",
  message_copied: "A message with variants was copied. Translate it by hand.",
  term_missing: "A term of the glossary is not in the translation.",
  glossary_ignored: "The glossary was not used: there is no direct model for these languages.",
  fuzzy_match: "A translation of a similar sentence was used.",
};
const HARMLESS = new Set(["split"]);

/** Show flags and the pivot language of a translation. */
export function showNotes(translation, languages) {
  const items = translation.flags
    .filter((flag) => !HARMLESS.has(flag))
    .map((flag) => element("li", {}, WORDS[flag] ?? `The server marked this translation: ${flag}.`));
  if (translation.pivot) {
    items.push(
      element(
        "li",
        { class: "info" },
        `Translated through ${languages.name(translation.pivot)}: there is no direct model for these languages.`,
      ),
    );
  }
  byId("notes").replaceChildren(...items);
}
