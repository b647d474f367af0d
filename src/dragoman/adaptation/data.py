"""The text of an adaptation: the files of the user, and the sets that are held out once.

The test sets are fixed at the first adaptation, so all versions of a model are measured with the
same sentences. They come from trusted pairs (`--test`) and from general text (`--general`), never
from the new data: a damaged set would test itself.

    tests/in_domain.source, .target               the gate's in-domain test set
    tests/general.source, .target                 the gate's general test set
    tests/in_domain_validation.source, .target    chooses the best checkpoint
    tests/general_validation.source, .target      the same, for general text
    tests/tests.json                              the SHA-256 of each file

Which pair belongs to which set depends on the hash of its text, so the order of the files does not
matter. Preparation removes all pairs of these sets from the training data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.adaptation.history import DataFile
from dragoman.corpus.discovery import guess_format
from dragoman.corpus.files import check_files
from dragoman.corpus.filter import Pair
from dragoman.corpus.opening import CorpusRequest, OpenCorpus, open_corpus
from dragoman.corpus.row import Row
from dragoman.errors import ArtifactError, DataError
from dragoman.recipe.schema import CorpusFiles, LanguagesRecipe
from dragoman.storage.files import atomic_folder, atomic_write, sha256, verify_hashes
from dragoman.text.languages import LanguagePair

MAX_VALIDATION, MAX_TEST, MAX_GENERAL_TEST = 200, 1000, 500
"""The most pairs of each set. Translating the test sets twice is a part of every adaptation."""
MIN_TEST = 20
"""With fewer pairs, no difference would be significant."""
_VALIDATION_SHARE, _GENERAL_TEST_SHARE = 0.2, 0.2
_TESTS = "tests.json"
_SIDES = ("source", "target")


@dataclass(frozen=True, slots=True)
class CorpusGroup:
    """The corpora that one option names, with what was read from each."""

    corpora: tuple[OpenCorpus, ...]
    files: tuple[DataFile, ...]

    @property
    def pairs(self) -> int:
        """The number of pairs that can be read."""
        return sum(file.pairs for file in self.files)

    def entries(self, weight: float = 1.0) -> tuple[CorpusFiles, ...]:
        """Return the corpora as entries of a recipe."""
        return tuple(
            CorpusFiles(
                files=tuple(str(path.absolute()) for path in corpus.files),
                format=corpus.format,
                weight=weight,
            )
            for corpus in self.corpora
        )

    def joined(self, other: CorpusGroup) -> CorpusGroup:
        """Return the corpora of both groups."""
        return CorpusGroup(self.corpora + other.corpora, self.files + other.files)

    def read(self) -> Iterator[Pair]:
        """Yield the pairs of all corpora that have text on both sides."""
        for corpus in self.corpora:
            yield from _pairs(corpus)


def open_group(paths: Sequence[Path], languages: LanguagesRecipe) -> CorpusGroup:
    """Open corpus files and count their pairs.

    A format with both sides in one file is recognized by the extension. Two other files, one after
    the other, are aligned line by line.
    """
    corpora, files = [], []
    for group in group_files(paths):
        request = CorpusRequest(group, LanguagePair(languages.source, languages.target))
        corpus = open_corpus(request)
        count = sum(1 for _ in _pairs(corpus))
        corpora.append(corpus)
        name = " + ".join(path.name for path in group)
        hashes = "".join(sha256(path) for path in group)
        digest = hashes if len(group) == 1 else hashlib.sha256(hashes.encode()).hexdigest()
        files.append(DataFile(name=name, sha256=digest, pairs=count))
    return CorpusGroup(tuple(corpora), tuple(files))


@contextlib.contextmanager
def suggestion_group(
    folder: Path, pairs: Sequence[Pair], languages: LanguagesRecipe, *, keep: bool
) -> Iterator[CorpusGroup]:
    """Give approved suggestions as a corpus file, which exists as long as it is needed.

    The same suggestions give the same file, so an adaptation that was stopped continues. They are
    texts of users, and preparation copies them into other files: nobody else may enter the folder.
    """
    paths = []
    if pairs:
        rows = ({languages.source: pair.source, languages.target: pair.target} for pair in pairs)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        paths.append(folder / f"suggestions-{hashlib.sha256(text).hexdigest()[:12]}.jsonl")
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        with atomic_write(paths[0], is_private=True) as temporary:
            temporary.write_bytes(text)
    try:
        yield open_group(paths, languages)
    finally:
        for path in paths if not keep else ():
            path.unlink(missing_ok=True)


def group_files(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Group files to corpora: one file that has both sides, or two that are aligned."""
    groups: list[tuple[Path, ...]] = []
    waiting: Path | None = None
    check_files(paths, len(paths))
    for path in paths:
        if has_both_sides(path):
            if waiting is not None:
                break
            groups.append((path,))
        elif waiting is None:
            waiting = path
        else:
            groups.append((waiting, path))
            waiting = None
    if waiting is not None:
        raise DataError(
            f"{str(waiting)!r} is one side of aligned text, and the other side does not follow it; "
            "give both, one after the other: text.en text.fr"
        )
    return groups


def has_both_sides(path: Path) -> bool:
    """Return whether one file contains source and target, by its extension."""
    try:
        return guess_format([[path]]) != "lines"
    except DataError:
        return False


def _pairs(corpus: OpenCorpus) -> Iterator[Pair]:
    for row in corpus.read():
        if isinstance(row, Row) and row.source.strip() and row.target.strip():
            yield Pair(row.source, row.target)


class _Hashes(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = 1
    sha256: dict[str, str]


@dataclass(frozen=True, slots=True)
class TestSets:
    """The fixed sets of a versioned model."""

    __test__ = False  # Not a test of pytest.

    folder: Path
    has_general: bool

    def files(self, name: str) -> tuple[Path, Path]:
        """Return source and target of a set, for example `in_domain_validation`."""
        source, target = (self.folder / f"{name}.{side}" for side in _SIDES)
        return source, target

    def read(self, name: str) -> tuple[list[str], list[str]]:
        """Return the sources and the references of a set."""
        source, target = (
            path.read_text(encoding="utf-8").split("\n")[:-1] for path in self.files(name)
        )
        return source, target

    def entries(self, *names: str) -> tuple[CorpusFiles, ...]:
        """Return sets as entries of a recipe."""
        return tuple(
            CorpusFiles(files=tuple(str(path.absolute()) for path in self.files(name)))
            for name in names
            if self.has_general or not name.startswith("general")
        )


def fix_test_sets(folder: Path, test: CorpusGroup, general: CorpusGroup | None) -> TestSets:
    """Choose the sets and write them; they are never changed afterwards."""
    in_domain = _shuffled(test.read())
    count = min(MAX_VALIDATION, int(_VALIDATION_SHARE * len(in_domain)))
    sets = {
        "in_domain_validation": in_domain[:count],
        "in_domain": in_domain[count : count + MAX_TEST],
    }
    if general is not None:
        pairs = _shuffled(general.read())
        count = min(MAX_VALIDATION, int(_VALIDATION_SHARE / 2 * len(pairs)))
        test_count = min(MAX_GENERAL_TEST, int(_GENERAL_TEST_SHARE * len(pairs)))
        sets["general_validation"] = pairs[:count]
        sets["general"] = pairs[count : count + test_count]
    for name, option in (("in_domain", "--test"), ("general", "--general")):
        if name in sets and len(sets[name]) < MIN_TEST:
            raise DataError(
                f"{option} gives {len(sets[name])} different pairs for the test set, expected at "
                f"least {MIN_TEST}: with fewer, no difference would be significant. Add pairs; "
                "several hundred are better"
            )
    with atomic_folder(folder) as temporary:
        hashes = {}
        for name, pairs in sets.items():
            for side in _SIDES:
                path = temporary / f"{name}.{side}"
                lines = (f"{' '.join(getattr(pair, side).split())}\n" for pair in pairs)
                path.write_text("".join(lines), encoding="utf-8")
                hashes[path.name] = sha256(path)
        text = json.dumps(_Hashes(sha256=hashes).model_dump(), indent=1)
        (temporary / _TESTS).write_text(text + "\n", encoding="utf-8")
    return open_test_sets(folder)


def open_test_sets(folder: Path) -> TestSets:
    """Open the fixed sets, and check that nobody has changed them."""
    try:
        hashes = _Hashes.model_validate_json((folder / _TESTS).read_bytes()).sha256
    except (OSError, ValidationError):
        raise ArtifactError(
            f"{str(folder / _TESTS)!r} cannot be read; the test sets of a model are fixed at its "
            "first adaptation. Copy them from the original"
        ) from None
    damaged = list(verify_hashes(folder, hashes))
    if damaged:
        raise ArtifactError(
            f"the test sets in {str(folder)!r} have changed: {'; '.join(damaged)}. Versions could "
            "not be compared any more; copy the files from the original"
        )
    return TestSets(folder, "general.source" in hashes)


def _shuffled(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs with different sources, in the order of the hashes of their text."""
    by_source = {" ".join(pair.source.split()).casefold(): pair for pair in pairs}
    return sorted(by_source.values(), key=lambda pair: (_hash(pair), pair))


def _hash(pair: Pair) -> bytes:
    text = f"{pair.source}\0{pair.target}".encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=8).digest()
