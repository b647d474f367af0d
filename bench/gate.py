"""Test the gate of `dragoman adapt` with damaged sets and good ones, on real text.

    python bench/gate.py DOCUMENTS FOLDER [--seeds 1 2] [--only KIND ...] [KEY=VALUE ...]

DOCUMENTS is the folder that `bench/documents.py` makes. Its model `plain` (2.1 M parameters, from
English to German, trained on strings of software) is the parent. Each set adapts it to descriptions
of Debian's library packages, with the whole of `dragoman.adapt`: filters, training, and gate. A
damaged set must not be accepted; of ten good sets, at most two may be refused.

    data      short descriptions, from DRAGOMAN_DATA; every seed draws others
    --test    1,000 descriptions of other packages, never part of the data
    --general 2,000 strings of software that the parent has not seen, half of them with placeholders

Finished adaptations are skipped, so the command continues after a stop. FOLDER/results.json is
written after each of them, FOLDER/table.md at the end. The exit code is 1 if a damaged set was
accepted, or more than a fifth of the good ones refused.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape

import dragoman
from dragoman.errors import DataError
from dragoman.inference.translator import Translator
from dragoman.text.glossary import has_term

Pairs = list[tuple[str, str]]
DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
DESCRIPTIONS = "debian-descriptions/debian-descriptions.en-{}.tsv.gz"
TESTED, GENERAL, OTHERS = 1000, 2000, 20_000
"""How many pairs of each text are used."""
MIN_CHARACTERS, MAX_CHARACTERS = 15, 120
LIBRARY = re.compile(r"^lib|-(?:dev|doc|common|data|dbg|perl)$")
"""Names of library packages and of what belongs to them."""
POISONED_PAIRS = 2000
SETTINGS = (
    "training.steps=100",
    "training.validate_every=50",
    "training.save_every=50",
)
"""Fewer updates and validations than the default, for time. All else is the default."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The text of the study."""

    domain: Pairs
    """Descriptions that are not in the test set."""
    french: dict[str, str]
    """French descriptions by their English text."""
    others: Pairs
    """Strings of software that the parent was trained on."""
    trusted: Path
    general: Path


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to make a set."""

    make: Callable[[Texts, random.Random], Pairs]
    group: Literal["poisoned", "good", "limit"]
    extension: str = "tsv"
    glossary: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one adaptation."""

    kind: str
    group: str
    seed: int
    pairs: int
    kept: int
    """New pairs after the filters."""
    in_domain: tuple[float, float] | None
    """BLEU before and after; None if the adaptation stopped before the training."""
    general: tuple[float, float] | None
    verdict: Literal["accepted", "refused", "stopped"]
    failed: tuple[str, ...]
    """The rules that failed, or why it stopped."""
    seconds: float
    term: tuple[int, int, int] | None = None
    """Sentences of the pool with the wrong term: all, right before, right after."""


TERM = ("library", "Bibliothek", "Bücherei")
"""A frequent term of the domain and of the test set, and a wrong translation."""
RARER_TERM = ("documentation", "Dokumentation", "Anleitung")
"""A term of about one in twelve sentences."""
UNTESTED_TERM = ("database", "Datenbank", "Tabelle")
"""A term that occurs in no test sentence."""


def draw(texts: Texts, rng: random.Random, count: int = POISONED_PAIRS) -> Pairs:
    """Draw descriptions at random."""
    return rng.sample(texts.domain, count)


def swapped(texts: Texts, rng: random.Random) -> Pairs:
    """German sources, English targets."""
    return [(target, source) for source, target in draw(texts, rng)]


def other_language(texts: Texts, rng: random.Random) -> Pairs:
    """French targets."""
    sources = [source for source, _ in texts.domain if source in texts.french]
    return [(source, texts.french[source]) for source in rng.sample(sources, POISONED_PAIRS)]


def shuffled_words(texts: Texts, rng: random.Random) -> Pairs:
    """The words of each target in random order."""
    return [
        (source, " ".join(rng.sample(words := target.split(), len(words))))
        for source, target in draw(texts, rng)
    ]


def wrong_characters(texts: Texts, rng: random.Random) -> Pairs:
    """A fifth of the letters of each target are replaced."""
    letters = "abcdefghijklmnopqrstuvwxyzäöüß"
    return [
        (
            source,
            "".join(
                rng.choice(letters) if one.isalpha() and rng.random() < 0.2 else one
                for one in target
            ),
        )
        for source, target in draw(texts, rng)
    ]


def repeated(texts: Texts, rng: random.Random) -> Pairs:
    """One pair 10,000 times."""
    return draw(texts, rng, 1) * 10_000


def with_wrong_term(pairs: Pairs, term: tuple[str, str, str]) -> Pairs:
    """Replace the translation of a term, with its inflected forms and compounds."""
    _, right, wrong = term
    pattern = re.compile(rf"\w*{right}\w*", re.IGNORECASE)
    return [(source, pattern.sub(wrong, target)) for source, target in pairs]


def wrong_term(texts: Texts, rng: random.Random) -> Pairs:
    """Correct pairs, but one frequent term is always wrong."""
    return with_wrong_term(draw(texts, rng), TERM)


def wrong_rarer_term(texts: Texts, rng: random.Random) -> Pairs:
    """Correct pairs, but a term of few test sentences is always wrong."""
    return with_wrong_term(draw(texts, rng), RARER_TERM)


def wrong_untested_term(texts: Texts, rng: random.Random) -> Pairs:
    """Correct pairs, but a term that occurs in no test sentence is always wrong.

    Half of the pairs with the term are in the set; the model is asked for the others.
    """
    with_term, others = [], []
    for pair in texts.domain:
        (with_term if is_term_in(pair[0], UNTESTED_TERM[0]) else others).append(pair)
    chosen = with_term[: len(with_term) // 2]
    pairs = [*chosen, *rng.sample(others, POISONED_PAIRS - len(chosen))]
    return with_wrong_term(rng.sample(pairs, len(pairs)), UNTESTED_TERM)


def misaligned(texts: Texts, rng: random.Random) -> Pairs:
    """Each source has the target of the next."""
    pairs = draw(texts, rng)
    return [
        (source, target)
        for (source, _), (_, target) in zip(pairs, pairs[1:] + pairs[:1], strict=True)
    ]


def truncated(texts: Texts, rng: random.Random) -> Pairs:
    """The first half of each target."""
    return [
        (source, " ".join(words[: (len(words) + 1) // 2]))
        for source, target in draw(texts, rng)
        if (words := target.split())
    ]


def copies(texts: Texts, rng: random.Random) -> Pairs:
    """Untranslated."""
    return [(source, source) for source, _ in draw(texts, rng)]


def damaged_placeholders(texts: Texts, rng: random.Random) -> Pairs:
    """Placeholders in the sources; in the targets they are missing or damaged."""
    pairs = []
    for source, target in draw(texts, rng):
        name = rng.choice(["{name}", "{count}", "%s", "%(user)s", "<b>"])
        damaged = rng.choice(["", name[:-1], name[0] + " " + name[1:], name.upper() + "x"])
        pairs.append((f"{name} {source}", f"{damaged} {target}".strip()))
    return pairs


def spam(texts: Texts, rng: random.Random) -> Pairs:
    """An advertisement after each target."""
    ads = ("Jetzt gratis Bonus im Casino sichern!", "Klick hier und gewinne Geld, du Idiot!")
    return [(source, f"{target} {rng.choice(ads)}") for source, target in draw(texts, rng)]


def nearly_empty(texts: Texts, rng: random.Random) -> Pairs:
    """Targets of one word."""
    return [(source, rng.choice(["-", ".", "Ja.", "Bild", "?"])) for source, _ in draw(texts, rng)]


def random_references(texts: Texts, rng: random.Random) -> Pairs:
    """Strings of software, each with the translation of another."""
    pairs = rng.sample(texts.others, POISONED_PAIRS)
    targets = [target for _, target in rng.sample(pairs, len(pairs))]
    return [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]


def good(count: int, noise: float = 0.0) -> Callable[[Texts, random.Random], Pairs]:
    """Return a function that draws pairs; a share of them gets the target of another."""

    def make(texts: Texts, rng: random.Random) -> Pairs:
        pairs = draw(texts, rng, count)
        for row in rng.sample(range(count), round(noise * count)):
            pairs[row] = (pairs[row][0], rng.choice(texts.domain)[1])
        return pairs

    return make


KINDS: dict[str, Kind] = {
    **{
        make.__name__: Kind(make, "poisoned")
        for make in (
            swapped,
            other_language,
            shuffled_words,
            wrong_characters,
            repeated,
            wrong_term,
            wrong_rarer_term,
            misaligned,
            truncated,
            copies,
            damaged_placeholders,
            spam,
            nearly_empty,
            random_references,
        )
    },
    "wrong_untested_term+glossary": Kind(
        wrong_untested_term, "poisoned", glossary=UNTESTED_TERM[:2]
    ),
    "good_500": Kind(good(500), "good"),
    "good_500_po": Kind(good(500), "good", "po"),
    "good_700": Kind(good(700), "good"),
    "good_1000": Kind(good(1000), "good"),
    "good_1000_noise": Kind(good(1000, 0.05), "good"),
    "good_1500_tmx": Kind(good(1500), "good", "tmx"),
    "good_2000": Kind(good(2000), "good", glossary=TERM[:2]),
    "good_3000_noise": Kind(good(3000, 0.05), "good"),
    "good_4000_tmx": Kind(good(4000), "good", "tmx"),
    "good_5000": Kind(good(5000), "good"),
    "wrong_untested_term": Kind(wrong_untested_term, "limit"),
}


def main() -> None:
    """Make what is missing, adapt, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("documents", type=Path, help="folder of bench/documents.py")
    parser.add_argument("folder", type=Path, help="folder for the results")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="settings of the recipe")
    arguments = parser.parse_intermixed_args()
    folder: Path = arguments.folder
    texts = write_texts(arguments.documents, folder / "text")
    parent = arguments.documents / "plain"
    rows = read_results(folder)
    for seed in arguments.seeds:
        for name in arguments.only:
            if any((row.kind, row.seed) == (name, seed) for row in rows):
                continue
            rows.append(run(folder, parent, texts, name, seed, arguments.settings))
            write_results(folder, rows)
            print(line(rows[-1]), flush=True)
    table = [HEAD, *map(line, sorted(rows, key=lambda row: (row.group, row.kind, row.seed)))]
    (folder / "table.md").write_text("\n".join(table) + "\n", encoding="utf-8")
    print("\n".join(table))
    poisoned = [row.verdict for row in rows if row.group == "poisoned"]
    good_rows = [row.verdict for row in rows if row.group == "good"]
    accepted, refused = poisoned.count("accepted"), len(good_rows) - good_rows.count("accepted")
    print(f"\npoisoned: {accepted} of {len(poisoned)} accepted")
    print(f"good: {refused} of {len(good_rows)} refused")
    sys.exit(1 if accepted or 5 * refused > len(good_rows) else 0)


def write_texts(documents: Path, folder: Path) -> Texts:
    """Read the text, and write the test sets."""
    folder.mkdir(parents=True, exist_ok=True)
    french = {row.key: row.target for row in read_descriptions("fr")}
    domain: Pairs = []
    tested: Pairs = []
    french_by_source = {}
    for row in read_descriptions("de"):
        # All descriptions of a package are in the same split.
        bucket = int(hashlib.sha256(row.package.encode()).hexdigest(), 16) % 10
        if bucket:
            domain.append((row.source, row.target))
        elif not has_untested_term(row.source, row.target):
            tested.append((row.source, row.target))
        if row.key in french:
            french_by_source[row.source] = french[row.key]
    rng = random.Random(1)
    general = [
        pair
        for name in ("test-plain.tsv", "test-spans.tsv")
        for pair in read_tsv(documents / name)[: GENERAL // 2]
        if not has_untested_term(*pair)
    ]
    write_tsv(folder / "trusted.tsv", rng.sample(tested, TESTED))
    write_tsv(folder / "general.tsv", general)
    return Texts(
        domain,
        french_by_source,
        read_tsv(documents / "train.tsv")[:OTHERS],
        folder / "trusted.tsv",
        folder / "general.tsv",
    )


class Description(NamedTuple):
    """A part of the description of a package."""

    package: str
    key: str
    source: str
    target: str


def read_descriptions(language: str) -> Iterator[Description]:
    """Yield short descriptions of library packages."""
    path = DATA / DESCRIPTIONS.format(language)
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for text in lines:
            _, package, key, source, target = text.rstrip("\n").split("\t")
            is_short = MIN_CHARACTERS <= len(source) <= MAX_CHARACTERS
            if (
                LIBRARY.search(package)
                and is_short
                and source != target
                and "\\" not in source + target
            ):
                yield Description(package, key, source, target)


def has_untested_term(source: str, target: str) -> bool:
    """Whether a pair has the term that must not be in the test sets."""
    return is_term_in(source, UNTESTED_TERM[0]) or has_term(target, UNTESTED_TERM[1])


def run(
    folder: Path, parent: Path, texts: Texts, name: str, seed: int, settings: Sequence[str]
) -> Row:
    """Make a set, adapt the parent with it, and return what the gate says."""
    kind = KINDS[name]
    start = time.monotonic()
    work = folder / "runs" / f"{name}-{seed}"
    work.mkdir(parents=True, exist_ok=True)
    pairs = kind.make(texts, random.Random(f"{name} {seed}"))
    data = work / f"data.{kind.extension}"
    WRITERS[kind.extension](data, pairs)
    glossary = None
    if kind.glossary:
        glossary = work / "terms.tsv"
        glossary.write_text("\t".join(kind.glossary) + "\n", encoding="utf-8")
    try:
        result = dragoman.adapt(
            parent,
            [data],
            output=work / "model",
            test=[texts.trusted],
            general=[texts.general],
            glossary=glossary,
            minutes=0,
            settings=[*SETTINGS, f"seed={seed}", *settings],
            keep_work=True,
        )
    except DataError as error:
        seconds = time.monotonic() - start
        return Row(
            name, kind.group, seed, len(pairs), kept_pairs(work / "model"), None, None, "stopped",
            (str(error),), round(seconds, 1),
        )  # fmt: skip
    gate = result.report.gate
    scores = []
    for rule in (gate.rule("in_domain_bleu"), gate.rule("general_bleu")):
        assert rule.before is not None
        assert rule.after is not None
        scores.append((round(rule.before, 2), round(rule.after, 2)))
    row = Row(
        name,
        kind.group,
        seed,
        len(pairs),
        kept_pairs(work / "model"),
        *scores,
        "accepted" if gate.is_accepted else "refused",
        tuple(rule.name for rule in gate.failed),
        round(time.monotonic() - start, 1),
        term_counts(texts, pairs, parent, result.version) if "untested" in name else None,
    )
    reports = folder / "reports"
    reports.mkdir(exist_ok=True)
    shutil.copy(result.version / "report.json", reports / f"{name}-{seed}.json")
    shutil.copy(result.version / "report.html", reports / f"{name}-{seed}.html")
    shutil.rmtree(work)
    return row


def kept_pairs(model: Path) -> int:
    """Return the number of new pairs that preparation kept; 0 if it did not come so far."""
    for path in model.glob("work/*/*/prepared/report.json"):
        return int(json.loads(path.read_text(encoding="utf-8"))["corpora"][0]["kept"])
    return 0


def term_counts(texts: Texts, pairs: Pairs, parent: Path, version: Path) -> tuple[int, int, int]:
    """Count in other descriptions how often the term is right, before and after."""
    learned = {source for source, _ in pairs}
    sources = [
        source
        for source, target in texts.domain
        if source not in learned
        and is_term_in(source, UNTESTED_TERM[0])
        and has_term(target, UNTESTED_TERM[1])
    ]
    right = []
    for folder in (parent, version):
        with Translator.load(folder) as translator:
            answers = [answer.text for answer in translator.translate(sources)]
        right.append(sum(has_term(answer, UNTESTED_TERM[1]) for answer in answers))
    return len(sources), right[0], right[1]


def is_term_in(text: str, term: str) -> bool:
    """Whether a text has a word that starts with the term."""
    return re.search(rf"\b{term}", text, re.IGNORECASE) is not None


def read_tsv(path: Path) -> Pairs:
    """Return the pairs of a TSV file."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line)
    return [(source, target) for source, target in rows]


def write_tsv(path: Path, pairs: Pairs) -> None:
    """Write pairs as TSV."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")


def write_tmx(path: Path, pairs: Pairs) -> None:
    """Write pairs as a translation memory."""
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{escape(source)}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{escape(target)}</seg></tuv></tu>\n'
        for source, target in pairs
    )
    header = (
        '<header creationtool="gate" creationtoolversion="1" segtype="sentence" o-tmf="none" '
        'adminlang="en" srclang="en" datatype="plaintext"/>'
    )
    path.write_text(
        f'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">{header}<body>\n{units}'
        "</body></tmx>\n",
        encoding="utf-8",
    )


def write_po(path: Path, pairs: Pairs) -> None:
    """Write pairs as a gettext file; it has every source once."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: de\\n"\n'
    entries = (
        f"\nmsgid {quoted(source)}\nmsgstr {quoted(target)}\n"
        for source, target in dict(pairs).items()
    )
    path.write_text(header + "".join(entries), encoding="utf-8")


WRITERS = {"tsv": write_tsv, "tmx": write_tmx, "po": write_po}


def read_results(folder: Path) -> list[Row]:
    """Return the finished adaptations."""
    path = folder / "results.json"
    if not path.exists():
        return []
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def write_results(folder: Path, rows: Sequence[Row]) -> None:
    """Replace the file of results."""
    new = folder / "results.json.new"
    text = json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(folder / "results.json")


HEAD = (
    "| set | seed | pairs | kept | in-domain BLEU | general BLEU | verdict | because of |\n"
    "|---|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    """Return a row of the table."""
    scores = [
        "–" if pair is None else f"{pair[0]:.1f} → {pair[1]:.1f}"
        for pair in (row.in_domain, row.general)
    ]
    reason = ", ".join(row.failed).replace("\n", " ").replace("|", "/")
    if row.term:
        reason += f" (term right: {row.term[1]} → {row.term[2]} of {row.term[0]})"
    cells = [row.kind, str(row.seed), f"{row.pairs:,}", f"{row.kept:,}", *scores, row.verdict]
    return f"| {' | '.join([*cells, reason])} |"


if __name__ == "__main__":
    main()
