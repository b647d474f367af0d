"""How is a translator of the lab made?

As anybody's: a recipe is written, and the functions behind the commands prepare the text, train
the model, and translate with it. What is finished is kept, so a run that was stopped goes on, and
claims that ask for the same run share it:

    FOLDER/TEXT/recipe.yaml     where the text is; all else is said on top of it
    FOLDER/TEXT/TOKENIZER/      the text, cut in one way
    FOLDER/TEXT/RUN/            a run, named by recipe and code, which decide it, and found.json

FOLDER is `lab-runs`, or what the environment calls DRAGOMAN_LAB; it may be removed at any time.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, get_args

import dragoman
from dragoman.artifact import CARD, read_artifact
from dragoman.corpus import demo
from dragoman.durable import write_text
from dragoman.errors import DataError
from dragoman.evaluation.compare import compare
from dragoman.evaluation.metrics import PAPERS, measure
from dragoman.recipe_file import dump_recipe, load_recipe
from dragoman.tokenizer.folder import load_tokenizer
from dragoman.tokenizer.interface import Tokenizer
from dragoman.training.journal import read_journal
from dragoman.training.run import JOURNAL
from dragoman.translator import Translator
from dragoman.workflow.preparation import prepare
from dragoman.workflow.training import train

Pairs = tuple[tuple[str, str], ...]

_SOURCE, _TARGET = "en", "de"
_MULTI30K = {"train": "train", "development": "val", "test": "test_2016_flickr"}
_FOUND = "found.json"
_MAKERS = ("corpus", "data", "decoding", "model", "tokenizer", "training")
"""The folders of the package whose code decides what a run becomes."""


@dataclass(frozen=True, slots=True)
class Text:
    """Pairs to learn from, to watch learning by, and to be judged by."""

    name: str
    train: Pairs
    development: Pairs
    test: Pairs
    is_tokenised: bool = False
    """As papers have it: then BLEU is that of tokenised text."""

    def beginning(self, count: int) -> Text:
        """The same with fewer pairs to learn from; a smaller one is a part of a larger one."""
        if count > len(self.train):
            raise DataError(f"{self.name} has {len(self.train):,} pairs to learn from, not {count}")
        return replace(self, train=self.train[:count])

    @property
    def bleu(self) -> str:
        """Under which name BLEU is scored here."""
        return PAPERS if self.is_tokenised else "BLEU"

    @property
    def folder(self) -> Path:
        """Where everything made of it is kept: another text has another name."""
        digest = sha256(repr((self.train, self.development, self.test)).encode()).hexdigest()
        home = Path(os.environ.get("DRAGOMAN_LAB", "lab-runs"))
        return home / f"{self.name}-{len(self.train)}-{digest[:8]}"


@dataclass(frozen=True, slots=True)
class Trained:
    """A translator, what it says, how good that is, and what it cost."""

    bleu: float
    low: float
    high: float
    """The ends of the 95 % interval of BLEU, over sentences; of seeds it knows nothing."""
    chrf: float
    parameters: int
    flops: float
    """Of its whole training."""
    minutes: float
    """Of its training, validations included."""
    updates: int
    curve: list[tuple[int, float]]
    """Updates, and BLEU of the development text."""
    translations: list[str]

    def figures(self) -> dict[str, float | list[tuple[int, float]]]:
        """All but the text, which is not ours to show."""
        told = asdict(self)
        del told["translations"]
        return told


def demo_text(pairs: int, judged: int, seed: int) -> Text:
    """Numbers, dates, clock times and prices, by the grammar of the demo."""
    counts: dict[demo.Part, int] = {"train": pairs, "development": judged, "test": judged}
    parts = {
        part: tuple((item.source, item.target) for item in demo.items(seed, count, part))
        for part, count in counts.items()
    }
    return Text("demo", parts["train"], parts["development"], parts["test"])


def multi30k() -> Text:
    """Captions of photographs, lower-cased and tokenised as papers have them, in a mixed order."""
    named = os.environ.get("DRAGOMAN_DATA")
    folder = Path(named or "data") / "multi30k" / "tok"
    first, second, third = (_read(folder, _MULTI30K[part]) for part in get_args(demo.Part))
    mixed = list(first)
    random.Random(1).shuffle(mixed)  # noqa: S311  (nothing secret)
    return Text("multi30k", tuple(mixed), second, third, is_tokenised=True)


def _read(folder: Path, stem: str) -> Pairs:
    sides = []
    for language in (_SOURCE, _TARGET):
        path = folder / f"{stem}.lc.norm.tok.{language}.gz"
        if not path.is_file():
            raise DataError(
                f"there is no file {str(path)!r}; the full size of this claim learns from "
                "Multi30k: set DRAGOMAN_DATA to the folder that holds multi30k/tok/ "
                "(docs/results.md says what goes into it), or try the claim with --quick"
            )
        sides.append(gzip.decompress(path.read_bytes()).decode().split("\n")[:-1])
    return tuple(zip(*sides, strict=True))


def prepare_text(text: Text, settings: Sequence[str]) -> tuple[Path, tuple[Tokenizer, Tokenizer]]:
    """Prepare a text as settings of a recipe say; give the folder and both tokenizers."""
    recipe = _recipe(text)
    chosen = load_recipe(recipe, settings).tokenizer
    name = f"{chosen.kind}-{chosen.vocabulary_size}"
    folder = recipe.parent / name
    if not (folder / "report.json").exists():  # It is written last.
        for _ in prepare(recipe, [*settings, f"corpus.folder={name}"], workers=1):
            pass
    source, target = (load_tokenizer(folder / "tokenizer" / side) for side in ("source", "target"))
    return folder, (source, target)


def make(text: Text, settings: Sequence[str], seed: int) -> Trained:
    """Train a translator and let it translate the test text; what was made before is read."""
    prepared, _ = prepare_text(text, settings)
    recipe = _recipe(text)
    overrides = [*settings, f"seed={seed}", f"corpus.folder={prepared.name}"]
    decides = dump_recipe(load_recipe(recipe, overrides)) + _code()
    run = recipe.parent / f"run-{sha256(decides.encode()).hexdigest()[:12]}"
    found = run / _FOUND
    if not found.exists():
        for _ in train(recipe, [*overrides, f"training.folder={run.name}"]):
            pass
        write_text(found, json.dumps(asdict(_judge(text, run)), ensure_ascii=False) + "\n")
    return Trained(**json.loads(found.read_text(encoding="utf-8")))


class Compared(NamedTuple):
    """BLEU of one system, and what chance has to do with it."""

    bleu: float
    margin: float
    """Half the width of its 95 % interval."""
    luck: float
    """How likely so large a difference from the first system is luck."""


def compare_all(
    text: Text, systems: Mapping[str, Trained], rows: Iterable[int] | None = None
) -> dict[str, Compared]:
    """Compare systems with the first of them.

    By a paired bootstrap over the sentences of the test text, or over some of them; the first is
    not compared with itself, and its luck is 1.
    """
    chosen = list(range(len(text.test)) if rows is None else rows)
    said = {name: [each.translations[row] for row in chosen] for name, each in systems.items()}
    references = [text.test[row][1] for row in chosen]
    found = compare(said, [references], papers=text.is_tokenised)
    return {
        each.system: Compared(
            each.score.value,
            each.score.margin or 0.0,
            1.0 if each.p_value is None else each.p_value,
        )
        for each in found
        if each.score.name == text.bleu
    }


@cache
def _code() -> str:
    """A digest of all code by which a translator is made: other code makes another."""
    package = Path(dragoman.__file__).parent
    files = (file for name in _MAKERS for file in sorted((package / name).rglob("*.py")))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _judge(text: Text, run: Path) -> Trained:
    sources, references = zip(*text.test, strict=True)
    answers = Translator.load(run).translate(sources)
    said = [each.text for each in answers]
    scores = {each.name: each for each in measure(said, [references], papers=text.is_tokenised)}
    bleu = scores[text.bleu]
    low, high = bleu.interval or (bleu.value, bleu.value)
    card = json.loads((run / CARD).read_text(encoding="utf-8"))
    journal = read_journal(run / JOURNAL)
    return Trained(
        bleu=bleu.value,
        low=low,
        high=high,
        chrf=scores["chrF2"].value,
        parameters=sum(each.numel() for each in read_artifact(run).weights().values()),
        flops=card["flops"],
        minutes=60 * card["hours"],
        updates=card["updates"],
        curve=[(each["step"], each["bleu"]) for each in journal if each["kind"] == "validated"],
        translations=said,
    )


def _recipe(text: Text) -> Path:
    """Write the text and a recipe that names it."""
    folder = text.folder
    path = folder / "recipe.yaml"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        corpora = ""
        for part, pairs in (
            ("train", text.train),
            ("development", text.development),
            ("test", text.test),
        ):
            names = [f"{part}.{language}" for language in (_SOURCE, _TARGET)]
            for name, lines in zip(names, zip(*pairs, strict=True), strict=True):
                write_text(folder / name, "".join(f"{line}\n" for line in lines))
            corpora += f"  {part}: [{{files: [{', '.join(names)}]}}]\n"
        write_text(
            path,
            f"preset: tiny\nlanguages: {{source: {_SOURCE}, target: {_TARGET}}}\ncorpus:\n{corpora}"
            "  steps: [unicode]\n  duplicates: keep\n",  # As papers do: every pair counts.
        )
    return path
