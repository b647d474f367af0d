/* Which words of a translation belong to which words of its source.

   The server aligns tokens, which are parts of words. A reader wants words. Each token is looked up in its text, in
   order; the word that contains it gets its links. */

const MAX_GAP = 24; // Characters that may lie between two tokens; more would be another occurrence.
const SPACE = "\u2581"; // SentencePiece writes a space in this way.

/** The words of a text: a list of {start, end}. Works for scripts without spaces, too. */
export function words(text, language) {
  if (!("Segmenter" in Intl)) {
    return [...text.matchAll(/[\p{L}\p{N}\p{M}]+(?:[-'’][\p{L}\p{N}\p{M}]+)*/gu)].map((match) => ({
      start: match.index,
      end: match.index + match[0].length,
    }));
  }
  let segmenter;
  try {
    segmenter = new Intl.Segmenter(language, { granularity: "word" });
  } catch {
    segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  }
  return [...segmenter.segment(text)]
    .filter((segment) => segment.isWordLike)
    .map((segment) => ({ start: segment.index, end: segment.index + segment.segment.length }));
}

/** Where each token is in the text: [start, end], or null if it cannot be found. */
function locate(tokens, text) {
  const lower = text.toLowerCase();
  // Few letters change their length in lower case; then only exact matches count.
  const isComparable = lower.length === text.length;
  let position = 0;
  return tokens.map((token) => {
    const body = token.replaceAll(SPACE, " ").trim();
    if (!body) return null;
    let start = text.indexOf(body, position);
    if ((start < 0 || start - position > MAX_GAP) && isComparable) start = lower.indexOf(body.toLowerCase(), position);
    if (start < 0 || start - position > MAX_GAP) return null;
    position = start + body.length;
    return [start, position];
  });
}

/** The word that each token belongs to; -1 if there is none. */
function wordOfTokens(tokens, text, textWords) {
  return locate(tokens, text).map((span) => {
    if (!span) return -1;
    return textWords.findIndex((word) => word.start < span[1] && span[0] < word.end);
  });
}

/** Align the words of a sentence: both lists of words, and for each word a set of words on the other side. */
export function alignWords(sentence, sourceLanguage, targetLanguage) {
  const sourceWords = words(sentence.source, sourceLanguage);
  const targetWords = words(sentence.text, targetLanguage);
  const toSource = targetWords.map(() => new Set());
  const toTarget = sourceWords.map(() => new Set());
  const sourceOf = wordOfTokens(sentence.source_tokens, sentence.source, sourceWords);
  const targetOf = wordOfTokens(sentence.tokens, sentence.text, targetWords);
  for (const [source, target] of sentence.alignment) {
    const sourceWord = sourceOf[source] ?? -1;
    const targetWord = targetOf[target] ?? -1;
    if (sourceWord < 0 || targetWord < 0) continue;
    toSource[targetWord].add(sourceWord);
    toTarget[sourceWord].add(targetWord);
  }
  return { sourceWords, targetWords, toSource, toTarget };
}
