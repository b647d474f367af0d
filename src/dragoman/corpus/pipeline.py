"""What happens between raw text and a prepared folder?

    read → clean → exact duplicates → near duplicates → split → tokenizer → shards

Each stage is a map of tasks over chunks or buckets, so it runs in one process or on a cluster and
gives the same bytes. A stage works in a folder whose name is the hash of everything it depends on:
its settings and the stages before it. So a second run finds everything done, and a changed setting
does again exactly what depends on it.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from dragoman import part
from dragoman.corpus import engine, table
from dragoman.corpus.clean import CleanTask
from dragoman.corpus.cleaning import Pair, Step
from dragoman.corpus.deduplicate import ExactTask, NearTask, SignTask
from dragoman.corpus.encode import EncodeTask
from dragoman.corpus.files import COMPRESSIONS, check_name
from dragoman.corpus.leakage import Leakage
from dragoman.corpus.learn import SOURCE_TARGET, LearnTask, find_tokenizers, take
from dragoman.corpus.publish import publish
from dragoman.corpus.read import ReadTask, chunks_of
from dragoman.corpus.reader import Reader
from dragoman.corpus.split import SIDES, SplitTask
from dragoman.corpus.task import Task
from dragoman.durable import sha256, write_text
from dragoman.errors import DataError, Mistake, RecipeError
from dragoman.part import Choice, choose
from dragoman.recipe import CorpusFiles, Recipe

VERSION = 2
"""Of the stages' code: raise it when a stage would write other bytes for the same settings."""
CHUNK_ROWS = (20_000, 1_000_000)
"""The least and the most. A cleaned chunk holds a batch for each bucket: small chunks keep all
workers busy to the end, large ones keep those batches from becoming crumbs."""
BUCKET_ROWS = 500_000


class Progress(NamedTuple):
    """How far a stage is."""

    stage: str
    done: int
    total: int


class Corpus(NamedTuple):
    """One set of files that is read together."""

    name: str
    side: str
    files: tuple[Path, ...]
    format: Choice
    weight: float


@dataclass(slots=True)
class Preparation:
    """One run of the pipeline over one recipe."""

    recipe: Recipe
    home: Path
    """The folder of the recipe; relative paths start here."""
    folder: Path
    """The prepared folder."""
    workers: int
    corpora: list[Corpus] = field(default_factory=list)
    read_folders: list[Path] = field(default_factory=list)
    clean_files: list[list[Path]] = field(default_factory=list)
    exact_files: list[Path] = field(default_factory=list)
    split_files: list[Path] = field(default_factory=list)
    shards: list[Path] = field(default_factory=list)
    tokenizers: tuple[Path, Path] | None = None

    @property
    def work(self) -> Path:
        """Where the stages keep what they made."""
        return self.folder / "work"

    def run(self) -> Iterator[Progress]:
        """Prepare; give progress as it is made."""
        self.corpora = find_corpora(self.recipe, self.home)
        tokenizers = find_tokenizers(self.recipe.tokenizer, self.home, self.folder)
        yield from self._read()
        leakage, leakage_key = self._leakage()
        yield from self._clean(leakage, leakage_key)
        yield from self._deduplicate()
        yield from self._tokenizer(tokenizers)
        yield from self._encode()
        self._publish()

    # Each stage below: make its tasks, run them, and remember where the results are.

    def _read(self) -> Iterator[Progress]:
        fingerprints = _Fingerprints(self.work / "fingerprints.json")
        languages = self.recipe.languages
        size = sum(path.stat().st_size for corpus in self.corpora for path in corpus.files)
        # Chunks and buckets both grow with the root: neither becomes too many.
        # A power of two, so that a little more text does not cut everything anew.
        root = 1 << (round(size**0.5) - 1).bit_length()
        chunk_rows = min(max(CHUNK_ROWS[0], root), CHUNK_ROWS[1])
        tasks = []
        for corpus in self.corpora:
            contents = [fingerprints.of(path) for path in corpus.files]
            settings = [contents, _part_key(corpus.format), languages.model_dump(), chunk_rows]
            folder = self.work / f"read-{_key(settings)}"
            tasks.append(
                ReadTask(
                    result=folder,
                    format=corpus.format,
                    files=corpus.files,
                    source=languages.source,
                    target=languages.target,
                    chunk_rows=chunk_rows,
                )
            )
        fingerprints.save()
        yield from self._run("read", tasks)
        self.read_folders = [task.result for task in tasks]

    def _leakage(self) -> tuple[Path | None, str]:
        """Collect the marks of the declared development and test sets."""
        held = [
            folder
            for corpus, folder in zip(self.corpora, self.read_folders, strict=True)
            if corpus.side != "train"
        ]
        if not held:
            return None, ""
        path = self.work / f"leakage-{_key([folder.name for folder in held])}"
        if not path.exists():
            Leakage.save(path, (pair for folder in held for pair in read_pairs(folder)))
        return path, path.name

    def _clean(self, leakage: Path | None, leakage_key: str) -> Iterator[Progress]:
        languages, settings = self.recipe.languages, self.recipe.corpus
        training = [
            (origin, corpus, folder)
            for origin, (corpus, folder) in enumerate(
                zip(self.corpora, self.read_folders, strict=True)
            )
            if corpus.side == "train"
        ]
        rows = sum(table.counts(chunks_of(folder)[-1])["rows"] for _, _, folder in training)
        buckets = max(1, -(-rows // BUCKET_ROWS))
        steps = [_part_key(step) for step in settings.steps]
        tasks: list[Task] = []
        self.clean_files = [[] for _ in self.corpora]
        for origin, corpus, folder in training:
            key = _key([folder.name, origin, steps, languages.model_dump(), leakage_key, buckets])
            for chunk in chunks_of(folder):
                task = CleanTask(
                    result=self.work / f"clean-{key}" / chunk.name,
                    chunk=chunk,
                    origin=origin,
                    source=languages.source,
                    target=languages.target,
                    steps=settings.steps,
                    leakage=leakage,
                    is_aligned_by_line=len(corpus.files) > 1,
                    buckets=buckets,
                )
                tasks.append(task)
                self.clean_files[origin].append(task.result)
        yield from self._run("clean", tasks)

    def _deduplicate(self) -> Iterator[Progress]:
        settings = self.recipe.corpus
        chunks = tuple(path for files in self.clean_files for path in files)
        buckets = table.shape(chunks[0])[0]
        key = _key([sorted({path.parent.name for path in chunks}), settings.duplicates == "keep"])
        exact = [
            ExactTask(
                result=self.work / f"exact-{key}" / f"bucket-{bucket:05}.arrow",
                chunks=chunks,
                bucket=bucket,
                keeps_all=settings.duplicates == "keep",
            )
            for bucket in range(buckets)
        ]
        yield from self._run("exact duplicates", exact)
        self.exact_files = [task.result for task in exact]
        votes: tuple[Path, ...] = ()
        if settings.duplicates == "near":
            signed = [
                SignTask(result=self.work / f"sign-{key}" / path.name, rows=path, buckets=buckets)
                for path in self.exact_files
            ]
            yield from self._run("signatures", signed)
            near = [
                NearTask(
                    result=self.work / f"near-{key}" / f"bucket-{bucket:05}.arrow",
                    signed=tuple(task.result for task in signed),
                    bucket=bucket,
                    buckets=buckets,
                )
                for bucket in range(buckets)
            ]
            yield from self._run("near duplicates", near)
            votes = tuple(task.result for task in near)
        yield from self._split(key, votes)

    def _split(self, exact_key: str, votes: tuple[Path, ...]) -> Iterator[Progress]:
        given = {corpus.side for corpus in self.corpora}
        rows = sum(table.shape(path)[1] for path in self.exact_files)
        share = min(0.1, self.recipe.corpus.held_out / max(1, rows))
        shares = [0.0 if side in given else share for side in SIDES[1:]]
        key = _key([exact_key, bool(votes), self.recipe.seed, shares])
        tasks = [
            SplitTask(
                result=self.work / f"split-{key}" / path.name,
                rows=path,
                votes=votes,
                bucket=bucket,
                seed=self.recipe.seed,
                development_share=shares[0],
                test_share=shares[1],
            )
            for bucket, path in enumerate(self.exact_files)
        ]
        yield from self._run("split", tasks)
        self.split_files = [task.result for task in tasks]
        if not any(table.counts(path)["sides"]["train"] for path in self.split_files):
            raise DataError(self._why_nothing_is_left())

    def _why_nothing_is_left(self) -> str:
        reasons: Counter[str] = Counter()
        for folder in self.read_folders:
            reasons.update(table.counts(chunks_of(folder)[-1])["rejects"])
        for path in (path for files in self.clean_files for path in files):
            dropped = table.counts(path)["dropped"]
            reasons.update({reason: record["count"] for reason, record in dropped.items()})
        listed = ", ".join(f"{reason} ({count:,})" for reason, count in reasons.most_common(5))
        return (
            f"no pair is left to train on. Dropped: {listed or 'nothing, the files are empty'}. "
            "Are the files, their order and the languages right? Steps that are too strict can be "
            "left out of corpus.steps."
        )

    def _tokenizer(self, taken: tuple[Path, Path] | None) -> Iterator[Progress]:
        settings, languages = self.recipe.tokenizer, self.recipe.languages
        if taken:
            first, second = (self.work / f"tokenizer-{_key([sha256(file)])}" for file in taken)
            for file, folder in zip(taken, (first, second), strict=True):
                take(file, folder)
            self.tokenizers = (first, second)
            return
        depends = [self.split_files[0].parent.name, settings.model_dump(), languages.model_dump()]
        sides = [SOURCE_TARGET] if settings.shared else [(side,) for side in SOURCE_TARGET]
        tasks = [
            LearnTask(
                result=self.work / f"tokenizer-{_key([*depends, columns])}",
                rows=tuple(self.split_files),
                columns=columns,
                sample=settings.sample,
                kind=settings.kind,
                vocabulary_size=settings.vocabulary_size,
                languages=tuple(sorted({languages.source, languages.target})),
            )
            for columns in sides
        ]
        yield from self._run("tokenizer", tasks)
        self.tokenizers = (tasks[0].result, tasks[-1].result)

    def _encode(self) -> Iterator[Progress]:
        assert self.tokenizers is not None
        longest = self.recipe.corpus.longest
        names = [folder.name for folder in self.tokenizers]
        key = _key([self.split_files[0].parent.name, names, longest])
        tasks = [
            EncodeTask(
                result=self.work / f"encode-{key}" / f"train-{bucket:05}.arrow",
                rows=path,
                tokenizers=self.tokenizers,
                longest=longest,
                threads=max(1, self.workers // len(self.split_files)),
            )
            for bucket, path in enumerate(self.split_files)
        ]
        yield from self._run("shards", tasks)
        self.shards = [task.result for task in tasks]

    def _publish(self) -> None:
        assert self.tokenizers is not None
        facts = {
            "languages": self.recipe.languages.model_dump(),
            "recipe_sha256": _key([self.recipe.model_dump()], 64),
            "corpora": [corpus.name for corpus in self.corpora],
            "weights": {str(n): corpus.weight for n, corpus in enumerate(self.corpora)},
        }
        held_out = {side: self._held_out(side) for side in SIDES[1:]}
        publish(self.folder, self.shards, self.tokenizers, held_out, facts)

    def _held_out(self, side: str) -> Iterator[Pair]:
        for corpus, folder in zip(self.corpora, self.read_folders, strict=True):
            if corpus.side == side:
                yield from read_pairs(folder)
        for path in self.split_files:
            rows = table.read_bucket([path], SIDES.index(side))
            yield from map(Pair, rows["source"].to_pylist(), rows["target"].to_pylist())

    def _run(self, stage: str, tasks: Sequence[Task]) -> Iterator[Progress]:
        yield Progress(stage, 0, len(tasks))
        for done, _ in enumerate(engine.run(tasks, self.workers)):
            yield Progress(stage, done + 1, len(tasks))


def find_corpora(recipe: Recipe, home: Path) -> list[Corpus]:
    """Find the files and parts that a recipe names, in an order that no file system decides."""
    mistakes = [
        Mistake(f"languages.{side}", "missing; expected a language code, as en")
        for side in ("source", "target")
        if not getattr(recipe.languages, side)
    ]
    if (home / recipe.corpus.folder).resolve() == home.resolve():
        what = "expected a folder of its own: what was prepared before is replaced"
        mistakes.append(Mistake("corpus.folder", what))
    if not recipe.corpus.train:
        mistakes.append(Mistake("corpus.train", "missing; expected at least one corpus"))
    for number, step in enumerate(recipe.corpus.steps):
        try:
            choose("corpus.step", step, f"corpus.steps.{number}", Step)
        except RecipeError as error:
            mistakes += error.mistakes
    corpora: list[Corpus] = []
    for side in SIDES:
        entries: tuple[CorpusFiles, ...] = getattr(recipe.corpus, side)
        for number, entry in enumerate(entries):
            path = f"corpus.{side}.{number}"
            try:
                corpora += _expand(entry, side, home, path)
            except RecipeError as error:
                mistakes += error.mistakes
            except DataError as error:
                mistakes.append(Mistake(f"{path}.files", str(error)))
    if mistakes:
        raise RecipeError(mistakes)
    return corpora


def _expand(entry: CorpusFiles, side: str, home: Path, path: str) -> Iterator[Corpus]:
    columns = [_find(pattern, home) for pattern in entry.files]
    format_ = entry.format if entry.format.name != "auto" else Choice(name=guess_format(columns))
    wanted = choose("corpus.format", format_, f"{path}.format", Reader).cls.files
    if len(columns) != wanted:
        listed = ", ".join(entry.files)
        raise DataError(f"{format_.name} reads {wanted} file(s) together, found: {listed}")
    if len({len(column) for column in columns}) != 1:
        counts = " and ".join(str(len(column)) for column in columns)
        raise DataError(f"the patterns match {counts} files; each needs its partner")
    for files in zip(*columns, strict=True):
        name = " + ".join(_name(file, home) for file in files)
        yield Corpus(name, side, files, format_, entry.weight)


def _find(pattern: str, home: Path) -> list[Path]:
    """Find the files of a name, which may be a pattern; a file of that very name comes first."""
    literal = home / pattern
    if literal.is_dir():
        raise DataError(
            f"{pattern!r} is a folder, expected a file, or a pattern as {pattern}/*.tsv"
        )
    found = (
        [literal]
        if literal.exists()
        else sorted(home / name for name in glob.glob(pattern, root_dir=home))
    )
    if not found:
        raise DataError(f"no file {pattern!r} in the folder of the recipe")
    for path in found:
        check_name(path)
    return found


def _name(path: Path, home: Path) -> str:
    return str(path.relative_to(home)) if path.is_relative_to(home) else path.name


def guess_format(columns: Sequence[Sequence[Path]]) -> str:
    """Tell a format by the endings of its files."""
    if len(columns) == 2:
        return "lines"
    path = columns[0][0]
    bare = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    for name in part.names("corpus.format"):
        cls = choose("corpus.format", Choice(name=name), "corpus.format", Reader).cls
        if bare.suffix.lower() in cls.endings:
            return name
    raise DataError(
        f"{path.name!r} does not tell its format; name it, as in `format: tsv` "
        f"(one of: {', '.join(part.names('corpus.format'))})"
    )


def read_pairs(folder: Path) -> Iterator[Pair]:
    """Give the pairs of a corpus that was read."""
    for chunk in chunks_of(folder):
        rows = table.read(chunk)
        yield from map(Pair, rows["source"].to_pylist(), rows["target"].to_pylist())


class _Fingerprints:
    """Hashes of files, remembered while size and time of change stay the same."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, list[Any]] = {}
        if path.exists():
            self.known = json.loads(path.read_text(encoding="utf-8"))

    def of(self, path: Path) -> str:
        state = path.stat()
        seen = [state.st_size, state.st_mtime_ns]
        remembered = self.known.get(str(path))
        if remembered is None or remembered[:2] != seen:
            remembered = [*seen, sha256(path)]
            self.known[str(path)] = remembered
        return str(remembered[2])

    def save(self) -> None:
        text = json.dumps(self.known, indent=1, sort_keys=True)
        if not self.path.exists() or self.path.read_text(encoding="utf-8") != text:
            write_text(self.path, text)


def _key(parts: Sequence[Any], length: int = 16) -> str:
    text = json.dumps([VERSION, *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _part_key(choice: Choice) -> Any:
    """What a part depends on: its name and options, and its text where it is not ours."""
    spec = find_spec(choice.name) if "." in choice.name else None
    own = sha256(Path(spec.origin)) if spec and spec.origin else None
    return [choice.model_dump(), own]
