"""Train translation models for the lab with the same workflow functions that a user calls.

The lab writes a recipe, prepares the text, trains the model and translates the test text. Finished
runs are kept: an interrupted experiment trains only what is missing, and claims share runs.

    FOLDER/TEXT/recipe.yaml     names the text; all other settings are overrides
    FOLDER/TEXT/TOKENIZER/      the text, prepared with one tokenizer
    FOLDER/TEXT/RUN/            a run, named after a hash of its recipe and code, evaluation.json

FOLDER is `lab-runs`, or the value of the environment variable DRAGOMAN_LAB. It is safe to delete.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, get_args

import dragoman
from dragoman.artifact import read_artifact
from dragoman.corpus import demo
from dragoman.errors import DataError
from dragoman.evaluation.compare import Comparison, compare
from dragoman.evaluation.metrics import TOKENIZED_BLEU, measure
from dragoman.inference.translator import Translator
from dragoman.recipe.files import dump_recipe, load_recipe
from dragoman.storage.files import write_text
from dragoman.storage.lock import FolderLockedError, lock_folder
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import Tokenizer
from dragoman.training.card import read_card
from dragoman.training.journal import JOURNAL, read_journal
from dragoman.workflow.preparation import prepare
from dragoman.workflow.training import train

Pairs = tuple[tuple[str, str], ...]

_SOURCE, _TARGET = "en", "de"
_MULTI30K = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
_RESULT = "evaluation.json"
_CHRF = "chrF2"
LENGTH_PENALTIES = (0.6, 1.0, 1.4, 1.8)
"""Of these, each model decodes with the one that has the best BLEU on its validation text."""
_CODE_FOLDERS = (
    "corpus",
    "data",
    "decoding",
    "inference",
    "model",
    "text",
    "tokenizer",
    "training",
)
"""The folders of the package whose code determines the result of a run."""


@dataclass(frozen=True, slots=True)
class ParallelText:
    """Sentence pairs for training, validation and test."""

    name: str
    train: Pairs
    validation: Pairs
    test: Pairs
    is_tokenized: bool = False
    """Whether the text is already tokenized, as in papers. Then BLEU is that of tokenized text."""

    def first_pairs(self, count: int) -> ParallelText:
        """The same text with fewer training pairs; a smaller one is a prefix of a larger one."""
        if count > len(self.train):
            raise DataError(
                f"{self.name} has {len(self.train):,} training pairs, but {count:,} were requested"
            )
        return replace(self, train=self.train[:count])

    @property
    def bleu(self) -> str:
        """The name of the BLEU score for this text."""
        return TOKENIZED_BLEU if self.is_tokenized else "BLEU"

    @property
    def folder(self) -> Path:
        """The folder of everything made from it; the name contains a hash of the text."""
        digest = sha256(repr((self.train, self.validation, self.test)).encode()).hexdigest()
        runs = Path(os.environ.get("DRAGOMAN_LAB", "lab-runs"))
        return runs / f"{self.name}-{len(self.train)}-{digest[:8]}"


@dataclass(frozen=True, slots=True)
class TranslatorResult:
    """The translations of a trained model, their quality, and the cost of training."""

    bleu: float
    low: float
    high: float
    """The 95 % interval of BLEU over sentences; it does not cover the variation over seeds."""
    chrf: float
    parameters: int
    flops: float
    """Of the whole training."""
    minutes: float
    """Of processor time, for the training with its validations."""
    updates: int
    length_penalty: float
    """Chosen on the validation text."""
    penalty_scores: list[tuple[float, float]]
    """Each length penalty that was tried, with its BLEU on the validation text."""
    curve: list[tuple[int, float]]
    """Updates, and BLEU of the validation text."""
    translations: list[str]

    @property
    def validation_bleu(self) -> float:
        """BLEU on the validation text, with the chosen length penalty."""
        return max(score for _, score in self.penalty_scores)

    def numbers(self) -> dict[str, float | list[tuple[int, float]]]:
        """Everything except the translations, which may be under copyright."""
        fields = asdict(self)
        del fields["translations"]
        return fields


def demo_text(pairs: int, test_pairs: int, seed: int) -> ParallelText:
    """Numbers, dates, clock times and prices from the grammar of the demo."""
    counts: dict[demo.Split, int] = {"train": pairs, "validation": test_pairs, "test": test_pairs}
    parts = {
        part: tuple((item.source, item.target) for item in demo.items(seed, count, part))
        for part, count in counts.items()
    }
    return ParallelText("demo", parts["train"], parts["validation"], parts["test"])


def multi30k() -> ParallelText:
    """Captions of photographs, lower-cased and tokenized as in papers, in shuffled order."""
    folder = Path(os.environ.get("DRAGOMAN_DATA") or "data") / "multi30k" / "tok"
    training, validation, test = (
        _read_pairs(folder, _MULTI30K[part]) for part in get_args(demo.Split)
    )
    shuffled = list(training)
    random.Random(1).shuffle(shuffled)  # noqa: S311  (nothing secret)
    return ParallelText("multi30k", tuple(shuffled), validation, test, is_tokenized=True)


def _read_pairs(folder: Path, stem: str) -> Pairs:
    sides = []
    for language in (_SOURCE, _TARGET):
        path = folder / f"{stem}.lc.norm.tok.{language}.gz"
        if not path.is_file():
            raise DataError(
                f"there is no file {str(path)!r}; the full size of this claim trains on "
                "Multi30k: set DRAGOMAN_DATA to the folder that contains multi30k/tok/ "
                "(docs/results.md lists its files), or run the claim with --quick"
            )
        sides.append(gzip.decompress(path.read_bytes()).decode().split("\n")[:-1])
    return tuple(zip(*sides, strict=True))


def prepare_text(
    text: ParallelText, settings: Sequence[str]
) -> tuple[Path, tuple[Tokenizer, Tokenizer]]:
    """Prepare a text with recipe settings; return the folder and both tokenizers."""
    recipe = _write_recipe(text)
    tokenizer = load_recipe(recipe, settings).tokenizer
    name = f"{tokenizer.kind}-{tokenizer.vocabulary_size}"
    folder = recipe.parent / name
    if not (folder / "report.json").exists():  # The last file that `prepare` writes.
        prepare(recipe, [*settings, f"corpus.folder={name}"], workers=1)
    source, target = (load_tokenizer(folder / "tokenizer" / side) for side in ("source", "target"))
    return folder, (source, target)


class TrainedRun(NamedTuple):
    """A finished run."""

    folder: Path
    result: TranslatorResult


def train_translator(text: ParallelText, settings: Sequence[str], seed: int) -> TranslatorResult:
    """Train a model and translate the test text; a finished run is read instead."""
    return train_run(text, settings, seed).result


def train_run(text: ParallelText, settings: Sequence[str], seed: int) -> TrainedRun:
    """Train a model and translate the test text; a finished run is read instead."""
    prepared, _ = prepare_text(text, settings)
    recipe = _write_recipe(text)
    overrides = [*settings, f"seed={seed}", f"corpus.folder={prepared.name}"]
    identity = dump_recipe(load_recipe(recipe, overrides)) + _hash_code()
    run = recipe.parent / f"run-{sha256(identity.encode()).hexdigest()[:12]}"
    result = run / _RESULT
    if not result.exists():
        with _lock(run):
            if not result.exists():  # Another process may have finished it just before.
                # A run that was stopped begins again: only then its processor time is complete.
                shutil.rmtree(run, ignore_errors=True)
                start = time.process_time()
                train(recipe, [*overrides, f"training.folder={run.name}"])
                minutes = (time.process_time() - start) / 60
                evaluation = asdict(_evaluate(text, run, minutes))
                write_text(result, json.dumps(evaluation, ensure_ascii=False) + "\n")
    return TrainedRun(run, TranslatorResult(**json.loads(result.read_text(encoding="utf-8"))))


@contextlib.contextmanager
def _lock(run: Path) -> Iterator[None]:
    """Let one process train a run; the lock is beside its folder, which is removed."""
    try:
        with lock_folder(run.with_name(f"{run.name}.lock")):
            yield
    except FolderLockedError as error:
        raise DataError(
            f"process {error.pid} is training {str(run)!r}; wait for it, or set DRAGOMAN_LAB to "
            "another folder"
        ) from None


class BleuComparison(NamedTuple):
    """BLEU of one system, compared with the first system."""

    bleu: float
    margin: float
    """Half the width of its 95 % interval."""
    p_value: float
    """Of the difference from the first system."""


def compare_bleu(
    text: ParallelText, results: Mapping[str, TranslatorResult], rows: Iterable[int] | None = None
) -> dict[str, BleuComparison]:
    """Compare systems with the first of them by a paired bootstrap.

    Over all sentences of the test text, or over the given rows. The first system is not compared
    with itself; its p-value is 1.
    """
    return {
        system.system: BleuComparison(
            system.score.value,
            system.score.margin or 0.0,
            1.0 if system.p_value is None else system.p_value,
        )
        for system in _compare(text, results, text.bleu, rows)
    }


def bleu_of(text: ParallelText, result: TranslatorResult, rows: Sequence[int]) -> float:
    """BLEU over some sentences of the test text."""
    translations = [result.translations[row] for row in rows]
    return _bleu(text, translations, [text.test[row][1] for row in rows])


def chrf_p_values(text: ParallelText, results: Mapping[str, TranslatorResult]) -> dict[str, float]:
    """The p-value of each system's difference in chrF from the first system, as `compare_bleu`."""
    return {
        system.system: 1.0 if system.p_value is None else system.p_value
        for system in _compare(text, results, _CHRF)
    }


def _compare(
    text: ParallelText,
    results: Mapping[str, TranslatorResult],
    metric: str,
    rows: Iterable[int] | None = None,
) -> list[Comparison]:
    chosen = list(range(len(text.test)) if rows is None else rows)
    hypotheses = {
        name: [result.translations[row] for row in chosen] for name, result in results.items()
    }
    references = [text.test[row][1] for row in chosen]
    return compare(hypotheses, [references], tokenized=text.is_tokenized, only=metric)


@cache
def _hash_code() -> str:
    """A hash of the code that determines a run: other code gives another run."""
    package = Path(dragoman.__file__).parent
    files = (file for name in _CODE_FOLDERS for file in sorted((package / name).rglob("*.py")))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _evaluate(text: ParallelText, run: Path, minutes: float) -> TranslatorResult:
    sources, references = zip(*text.test, strict=True)
    with Translator.load(run) as translator:
        penalty_scores = _try_length_penalties(text, translator)
        penalty, _ = max(penalty_scores, key=lambda tried: tried[1])
        translations = _translate(translator, sources, penalty)
    scores = {
        score.name: score
        for score in measure(translations, [references], tokenized=text.is_tokenized)
    }
    bleu = scores[text.bleu]
    low, high = bleu.interval or (bleu.value, bleu.value)
    card = read_card(run)
    assert card is not None, "a finished run has a card"
    journal = read_journal(run / JOURNAL)
    return TranslatorResult(
        bleu=bleu.value,
        low=low,
        high=high,
        chrf=scores[_CHRF].value,
        parameters=sum(tensor.numel() for tensor in read_artifact(run).weights().values()),
        flops=card.flops,
        minutes=minutes,
        updates=card.updates,
        length_penalty=penalty,
        penalty_scores=penalty_scores,
        curve=[(line["step"], line["bleu"]) for line in journal if line["kind"] == "validation"],
        translations=translations,
    )


def _try_length_penalties(text: ParallelText, translator: Translator) -> list[tuple[float, float]]:
    """BLEU on the validation text for each length penalty; one beam does not use it."""
    sources, references = zip(*text.validation, strict=True)
    is_used = translator.settings.beam_size > 1
    penalties = LENGTH_PENALTIES if is_used else (translator.settings.length_penalty,)
    return [
        (penalty, _bleu(text, _translate(translator, sources, penalty), references))
        for penalty in penalties
    ]


def _translate(translator: Translator, sources: Sequence[str], penalty: float) -> list[str]:
    translations = translator.translate(list(sources), length_penalty=penalty)
    return [translation.text for translation in translations]


def _bleu(text: ParallelText, translations: Sequence[str], references: Sequence[str]) -> float:
    scores = measure(translations, [references], tokenized=text.is_tokenized, resamples=0)
    return next(score.value for score in scores if score.name == text.bleu)


def _write_recipe(text: ParallelText) -> Path:
    """Write the text and a recipe that names it; return the recipe."""
    folder = text.folder
    path = folder / "recipe.yaml"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        corpora = ""
        for part, pairs in (
            ("train", text.train),
            ("validation", text.validation),
            ("test", text.test),
        ):
            names = [f"{part}.{language}" for language in (_SOURCE, _TARGET)]
            for name, lines in zip(names, zip(*pairs, strict=True), strict=True):
                write_text(folder / name, "".join(f"{line}\n" for line in lines))
            corpora += f"  {part}: [{{files: [{', '.join(names)}]}}]\n"
        write_text(
            path,
            f"preset: tiny\nlanguages: {{source: {_SOURCE}, target: {_TARGET}}}\ncorpus:\n{corpora}"
            # As in papers: every pair counts, and none is changed.
            "  filters: [unicode]\n  duplicates: keep\n"
            "  span_augmentation: 0\n  synthetic_spans: 0\n",
        )
    return path
