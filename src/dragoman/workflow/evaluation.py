"""How good is a model, what did it cost, and is it better than another?

All systems are measured on one text. Unless files are named, it is the test set that was held out
of the corpus the run has learned from; the corpus is known by its hash, wherever the folders have
moved together.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.artifact import CARD
from dragoman.corpus.files import read_lines
from dragoman.corpus.row import Reject
from dragoman.data.store import MANIFEST, Prepared
from dragoman.durable import damages, sha256
from dragoman.engines import EngineName
from dragoman.errors import ArtifactError, DataError
from dragoman.evaluation.compare import Comparison, Test, compare
from dragoman.evaluation.metrics import Score, measure
from dragoman.evaluation.robustness import Row, stress
from dragoman.recipe_file import load_recipe
from dragoman.translator import Translator

_CORPUS = "corpus_sha256"
_NAME_A_TEXT = "name a text with --source and --reference"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a model has cost to train."""

    summary: str
    flops: float
    hours: float
    tokens: int
    """Of both sides, all epochs."""


@dataclass(frozen=True, slots=True)
class System:
    """A run that was asked to translate the text."""

    name: str
    scores: tuple[Score, ...]
    flags: Mapping[str, int]
    """How many translations carry which."""
    cost: Cost | None
    """None where the folder has no card, as an imported model has none."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that was found out."""

    sentences: int
    files: Mapping[str, str]
    """Source and references, with their SHA-256."""
    systems: tuple[System, ...]
    """The run first, then those it was compared with."""
    comparisons: tuple[Comparison, ...] = ()
    robustness: tuple[Row, ...] = ()
    """Of the run alone."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


def evaluate(  # noqa: PLR0913  (they are the options of a command)
    run: Path,
    settings: Sequence[str] = (),
    *,
    source: Path | None = None,
    references: Sequence[Path] = (),
    against: Sequence[Path] = (),
    papers: bool = False,
    robustness: bool = False,
    engine: EngineName = "auto",
    test: Test = "bootstrap",
) -> Evaluation:
    """Translate a text and score it; compare the run with others, and try what confuses it."""
    folders = {str(folder): folder for folder in (run, *against)}
    if len(folders) < 1 + len(against):
        raise DataError("a run is named twice; expected other runs to compare it with")
    is_own = source is None and not references
    text = _test_set(run) if is_own else _named_text(source, references)
    # All of them before any of the work, so that a broken one is told at once.
    translators = {
        name: Translator.load(folder, settings, engine=engine) for name, folder in folders.items()
    }
    answers = {name: each.translate(text.sources) for name, each in translators.items()}
    translations = {name: [each.text for each in found] for name, found in answers.items()}

    def ask(sentences: Sequence[str]) -> list[str]:
        return [each.text for each in translators[str(run)].translate(sentences)]

    systems = []
    for name, folder in folders.items():
        scores = measure(translations[name], text.references, papers=papers)
        flags = Counter(flag for each in answers[name] for flag in each.flags)
        systems.append(System(name, tuple(scores), dict(flags.most_common()), _cost(folder)))
    compared = compare(translations, text.references, test=test, papers=papers) if against else []
    return Evaluation(
        sentences=len(text.sources),
        files=text.files,
        systems=tuple(systems),
        comparisons=tuple(compared),
        robustness=tuple(stress(ask, text.sources, text.references[0]) if robustness else ()),
        notes=tuple(_strangers(run, against)) if is_own else (),
    )


@dataclass(frozen=True, slots=True)
class _Text:
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    files: Mapping[str, str]


def _named_text(source: Path | None, references: Sequence[Path]) -> _Text:
    if source is None or not references:
        missing = "--source" if source is None else "--reference"
        raise DataError(
            f"{missing} is missing; name both --source and --reference, or neither for the run's "
            "own test set"
        )
    files = [source, *references]
    texts = [_read(path) for path in files]
    for path, text in zip(files, texts, strict=True):
        if not text:
            raise DataError(f"{path} is empty: there is nothing to score; {_NAME_A_TEXT}")
        if len(text) != len(texts[0]):
            raise DataError(
                f"{source} has {len(texts[0]):,} lines and {path} has {len(text):,}, expected as "
                "many in both: line n of the one must translate line n of the other"
            )
    return _Text(texts[0], texts[1:], {str(path): sha256(path) for path in files})


def _test_set(run: Path) -> _Text:
    """Find the corpus that a run has learned from, beside it or beside a folder above it."""
    if not run.is_dir():
        raise ArtifactError(f"there is no folder {str(run)!r}; expected a run")
    corpus = _card(run).get(_CORPUS)
    if corpus is None:
        raise ArtifactError(f"{str(run)!r} does not say which corpus it is from; {_NAME_A_TEXT}")
    name = load_recipe(run / "recipe.yaml").corpus.folder
    candidates = [Path(os.path.relpath(home / name)) for home in run.resolve().parents]
    for folder in candidates:
        manifest = folder / MANIFEST
        if manifest.is_file() and sha256(manifest) == corpus:
            return _held_out(folder)
    raise ArtifactError(
        f"the corpus that {str(run)!r} has learned from is not in {str(candidates[0])!r}, or has "
        f"changed since; put it back as it was, or {_NAME_A_TEXT}"
    )


def _held_out(folder: Path) -> _Text:
    names = [f"test.{side}" for side in ("source", "target")]
    hashes = Prepared.open(folder).manifest.get("files", {})
    if not set(names) <= set(hashes):
        raise ArtifactError(
            f"{str(folder)!r} comes from an older Dragoman, which did not sign its test set; "
            f"prepare it again, or {_NAME_A_TEXT}"
        )
    damaged = list(damages(folder, {name: hashes[name] for name in names}))
    if damaged:
        raise DataError(
            f"the test set in {str(folder)!r} is damaged: {'; '.join(damaged)}. Prepare it again, "
            f"or {_NAME_A_TEXT}"
        )
    source, target = (folder / name for name in names)
    return _named_text(source, [target])


def _read(path: Path) -> list[str]:
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}; expected a text, one sentence a line")
    lines = []
    for number, line in read_lines(path):
        if isinstance(line, Reject):
            raise DataError(f"{path}, line {number:,}: {line.reason}; expected one sentence a line")
        lines.append(line)
    return lines


def _card(run: Path) -> dict[str, Any]:
    """What is written on a run's card; nothing where it has none, as an imported model."""
    try:
        card: dict[str, Any] = json.loads((run / CARD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise ArtifactError(
            f"{CARD} of {str(run)!r} is damaged; train it to its end again"
        ) from None
    return card


def _cost(run: Path) -> Cost | None:
    card = _card(run)
    if "cost" not in card:
        return None
    tokens = card["source_tokens"] + card["target_tokens"]
    return Cost(card["cost"], card["flops"], card["hours"], tokens)


def _strangers(run: Path, against: Sequence[Path]) -> Iterator[str]:
    """Name runs that may have learned what they are now asked."""
    own = _card(run)[_CORPUS]
    for folder in against:
        if _card(folder).get(_CORPUS) != own:
            yield (
                f"{folder} has learned from another corpus than {run}, which may hold sentences of "
                "this test set: its scores may be too good"
            )
