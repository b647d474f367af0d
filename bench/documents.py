"""Measure document translation with a really trained model: protected spans and glossary.

The corpus is English-German text of Debian packages (software strings and manuals), made with the
harvest script beside the shared data. Packages are held out as a whole, and test strings do not
occur in the training text.

    python bench/documents.py split HARVEST.tsv.gz WORK     # corpora, glossary and two recipes
    dragoman prepare WORK/spans.yaml  && dragoman train WORK/spans.yaml
    dragoman prepare WORK/plain.yaml  && dragoman train WORK/plain.yaml
    python bench/documents.py measure WORK                  # writes WORK/documents.json

`spans` is trained with spans and glossary terms as augmentation, `plain` without.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import sacrebleu

from dragoman.documents.glossary import Glossary, count_terms, has_term
from dragoman.documents.guarding import guard, items_of
from dragoman.documents.translation import DocumentTranslator, Options
from dragoman.formats.base.document import Unit, plain_text
from dragoman.inference.translator import Translator
from dragoman.text.spans import find_spans
from dragoman.workflow.documents import options_for, segment_model

UNESCAPE = {"\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\t": "\t"}
MAX_CHARACTERS = 300
TEST_SHARE, VALIDATION_SHARE = 5, 1
"""Percent of the packages."""
MAX_TEST = 1500
MIN_USES = 8
"""A term must occur in so many strings of the training text."""
ACCELERATOR = re.compile(r"(?<!\w)[&_](?=\w)|(?<=\w)[&_](?=\w)|^[&_]")
RECIPE = """\
# Written by bench/documents.py
preset: tiny
languages: {{source: en, target: de}}
corpus:
  train:
    - files: [train.tsv]
  validation:
    - files: [validation.tsv]
  test:
    - files: [test-plain.tsv]
  folder: {name}-prepared
  max_tokens: 100
{corpus}
tokenizer: {{vocabulary_size: 6000}}
model: {{dropout: 0.05, decoder_layers: 2, width: 128, feed_forward_width: 512}}
training:
  folder: {name}
  steps: {steps}
  tokens_per_update: 4096
  warmup_steps: 300
  validate_every: 600
"""
AUGMENTED = """\
  span_augmentation: 0.4
  synthetic_spans: 0.03
  glossary: terms.tsv
  glossary_augmentation: 0.2
"""
PLAIN = """\
  span_augmentation: 0.0
  synthetic_spans: 0.0
"""


class Row(NamedTuple):
    """A pair of the harvest."""

    package: str
    source: str
    target: str


def main() -> None:
    """Run a subcommand."""
    match sys.argv[1:]:
        case ["split", harvest, work, *steps]:
            split(Path(harvest), Path(work), int(steps[0]) if steps else 2400)
        case ["measure", work]:
            measure(Path(work))
        case _:
            sys.exit(__doc__)


def read(path: Path) -> Iterator[Row]:
    """Yield the usable pairs: one line, not too long, without accelerator keys."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            _, origin, _, *texts = (
                re.sub(r"\\[\\nrt]", lambda match: UNESCAPE[match[0]], field)
                for field in line.rstrip("\n").split("\t")
            )
            if len(texts) != 2 or any(_is_unusable(text) for text in texts):
                continue
            source, target = (" ".join(text.split()) for text in texts)
            if source != target:
                yield Row(origin.partition("/")[0], source, target)


def _is_unusable(text: str) -> bool:
    has_controls = any(character in text for character in "\n\r\t")
    return (
        has_controls
        or not any(map(str.isalpha, text))
        or len(text) > MAX_CHARACTERS
        or bool(ACCELERATOR.search(text))
    )


def split(harvest: Path, work: Path, steps: int) -> None:
    """Write the corpora, held out by package, the glossary, and the recipes."""
    work.mkdir(parents=True, exist_ok=True)
    sets: dict[str, list[Row]] = defaultdict(list)
    for row in read(harvest):
        bucket = int(hashlib.sha256(row.package.encode()).hexdigest(), 16) % 100
        name = "train"
        if bucket < TEST_SHARE:
            name = "test"
        elif bucket < TEST_SHARE + VALIDATION_SHARE:
            name = "validation"
        sets[name].append(row)
    known = {row.source.casefold() for row in sets["train"]}
    unseen = {row.source: row for row in sets["test"] if row.source.casefold() not in known}
    test = sorted(unseen.values(), key=lambda row: hashlib.sha256(row.source.encode()).digest())
    with_spans = [row for row in test if _has_equal_spans(row)]
    without = [row for row in test if not find_spans(row.source) and not find_spans(row.target)]
    terms = find_terms(sets["train"])
    glossary = Glossary(terms)
    with_terms = [
        row
        for row in without
        if len(row.source.split()) > 3
        and (counts := count_terms(row.source, row.target, glossary))[0] > 0
        and counts[0] == counts[1]
    ]
    write(work / "train.tsv", sets["train"])
    write(work / "validation.tsv", sets["validation"][:1000])
    write(work / "test-spans.tsv", with_spans[:MAX_TEST])
    write(work / "test-plain.tsv", without[:MAX_TEST])
    write(work / "test-terms.tsv", with_terms[:MAX_TEST])
    lines = [f"{source}\t{target}\n" for source, target in sorted(terms.items())]
    (work / "terms.tsv").write_text("".join(lines), encoding="utf-8")
    for name, corpus in (("spans", AUGMENTED), ("plain", PLAIN)):
        text = RECIPE.format(name=name, corpus=corpus.rstrip("\n"), steps=steps)
        (work / f"{name}.yaml").write_text(text, encoding="utf-8")
    sizes = {name: len(rows) for name, rows in sets.items()}
    print(sizes, f"unseen: {len(with_spans)} with spans, {len(without)} without,")
    print(f"{len(terms)} terms, {len(with_terms)} sentences with terms")


def _has_equal_spans(row: Row) -> bool:
    spans = [Counter(span.text for span in find_spans(text)) for text in row[1:]]
    return bool(spans[0]) and spans[0] == spans[1]


def find_terms(rows: Sequence[Row]) -> dict[str, str]:
    """Find terms: strings of one or two words with one translation, used alike in other strings."""
    translations: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        words = row.source.split()
        is_term = 1 <= len(words) <= 2 and all(word.isalpha() and len(word) > 4 for word in words)
        if is_term:
            translations[row.source.lower()].add(row.target)
    candidates: dict[str, str] = {}
    for source, targets in translations.items():
        target = next(iter(targets))
        is_noun = target.isalpha() and target[0].isupper() and target.casefold() != source
        if len(targets) == 1 and is_noun and len(target) > 4:
            candidates[source] = target
    glossary = Glossary(candidates)
    uses: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for row in rows:
        if len(row.source.split()) > 2:
            for use in glossary.find(row.source):
                term = row.source[use.start : use.end].lower()
                uses[term] += 1
                hits[term] += has_term(row.target, use.target)
    return {
        term: target
        for term, target in candidates.items()
        if uses[term] >= MIN_USES and hits[term] >= uses[term] / 2
    }


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write pairs as TSV."""
    path.write_text("".join(f"{row.source}\t{row.target}\n" for row in rows), encoding="utf-8")


def read_pairs(path: Path) -> tuple[list[str], list[str]]:
    """Read the two columns of a TSV file."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [row[0] for row in rows], [row[1] for row in rows]


def measure(work: Path) -> None:
    """Measure the models on the held-out strings; a model that is not trained yet is left out."""
    names = {"with augmentation": work / "spans", "without augmentation": work / "plain"}
    runs = {name: run for name, run in names.items() if (run / "model.safetensors").exists()}
    spans: dict[str, object] = {}
    others: dict[str, object] = {}
    figures: dict[str, object] = {"strings with spans": spans, "strings without spans": others}
    for name, run in runs.items():
        with Translator.load(run) as translator:
            options = options_for(translator, "de")
            sources, references = read_pairs(work / "test-spans.tsv")
            spans["strings"] = len(sources)
            spans[name] = _spans(translator, options, sources, references)
            spans[f"{name}, in pieces"] = _in_pieces(translator, sources, references)
            sources, references = read_pairs(work / "test-plain.tsv")
            others["strings"] = len(sources)
            others[name] = {"BLEU": _bleu(_lines(translator, sources), references)}
            if run.name == "spans":
                figures["glossary"] = _glossary(work, translator, options)
    (work / "documents.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=1))


def _units(sources: Sequence[str]) -> list[Unit]:
    return [Unit(str(number), (source,), number) for number, source in enumerate(sources, start=1)]


def _spans(
    translator: Translator, options: Options, sources: Sequence[str], references: Sequence[str]
) -> dict[str, object]:
    """Count exact and flagged strings; an unflagged string with wrong spans is a broken one."""
    engine = DocumentTranslator(segment_model(translator), options)
    counts: Counter[str] = Counter()
    outputs = []
    for source, result in zip(sources, engine.translate(_units(sources)), strict=True):
        assert result.target is not None
        output = plain_text(result.target.content)
        outputs.append(output)
        wanted, actual = (
            Counter(span.text for span in find_spans(text)) for text in (source, output)
        )
        fallbacks = [flag for flag in result.flags if flag.startswith(("spans", "source"))]
        state = "flagged" if fallbacks else "exact" if wanted == actual else "broken"
        counts[state] += 1
        counts.update(fallbacks)
    shares = {name: round(100 * count / len(sources), 2) for name, count in counts.items()}
    return {"percent": shares, "BLEU": _bleu(outputs, references)}


def _in_pieces(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> dict[str, object]:
    """Translate the texts between the spans one by one: what simple tools do."""
    outputs = []
    pieces: list[str] = []
    for source in sources:
        pieces += [part for part in guard((source,)) if isinstance(part, str) and _words(part)]
    translated = iter(translator.translate([piece.strip() for piece in pieces]))
    for source in sources:
        text = ""
        for part in guard((source,)):
            if not isinstance(part, str):
                text += str(part.content)
            elif _words(part):
                lead, trail = part[: len(part) - len(part.lstrip())], part[len(part.rstrip()) :]
                text += lead + next(translated).text + trail
            else:
                text += part
        outputs.append(text)
    assert all(len(items_of(guard((source,)))) for source in sources)
    return {"BLEU": _bleu(outputs, references)}


def _words(text: str) -> bool:
    return any(map(str.isalpha, text))


def _lines(translator: Translator, sources: Sequence[str]) -> list[str]:
    return [translation.text for translation in translator.translate(list(sources))]


def _glossary(work: Path, translator: Translator, options: Options) -> dict[str, object]:
    sources, references = read_pairs(work / "test-terms.tsv")
    glossary = Glossary.load(work / "terms.tsv")
    figures: dict[str, object] = {"sentences": len(sources), "terms": len(glossary)}
    for name, terms in (("without glossary", None), ("with glossary", glossary)):
        engine = DocumentTranslator(segment_model(translator), options, terms)
        results = list(engine.translate(_units(sources)))
        outputs = [plain_text(result.target.content) for result in results if result.target]
        pairs = [count_terms(*texts, glossary) for texts in zip(sources, outputs, strict=True)]
        figures[name] = {
            "term accuracy": round(
                100 * sum(used for _, used in pairs) / sum(total for total, _ in pairs), 2
            ),
            "BLEU": _bleu(outputs, references),
        }
    return figures


def _bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    return round(sacrebleu.corpus_bleu(list(outputs), [list(references)]).score, 2)


if __name__ == "__main__":
    main()
