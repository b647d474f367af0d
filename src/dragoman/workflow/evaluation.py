"""Evaluate a run on a test text: scores, comparison with other runs, robustness, training cost.

All systems translate the same text. The default text is the test set of the prepared corpus that
the run was trained on. The corpus is identified by its hash, so the run and the corpus can be moved
to another folder together.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.artifact import resolve_model
from dragoman.corpus.files import read_lines
from dragoman.corpus.row import Reject
from dragoman.data.store import Prepared
from dragoman.errors import ArtifactError, DataError
from dragoman.evaluation.compare import SignificanceTest, compare
from dragoman.evaluation.metrics import measure, worst_sentences
from dragoman.evaluation.result import Cost, Evaluation, EvaluationProgress, Stage, System
from dragoman.evaluation.robustness import RobustnessResult, measure_robustness
from dragoman.inference.loading import EngineName
from dragoman.inference.translator import Translation, Translator
from dragoman.recipe.files import load_recipe
from dragoman.storage.files import sha256, verify_hashes
from dragoman.storage.mirror import fetch, local_path, locate, path_text
from dragoman.training.card import read_card

OnProgress = Callable[[EvaluationProgress], None]


def evaluate(  # noqa: PLR0913  (one parameter for each option of the command)
    run: str | Path,
    settings: Sequence[str] = (),
    *,
    source: str | Path | None = None,
    references: Sequence[str | Path] = (),
    against: Sequence[str | Path] = (),
    tokenized: bool = False,
    robustness: bool = False,
    engine: EngineName = "auto",
    device: str = "auto",
    test: SignificanceTest = "bootstrap",
    trust_parts: bool = False,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Translate a test text with a run and score the translation.

    Args:
        run: the run to evaluate.
        settings: decoding settings to change, such as `decoding.beam_size=1`.
        source: text to translate, one sentence per line; default: the test set of the run.
        references: one or more reference translations of `source`.
        against: runs to compare with the first one.
        tokenized: the text is already tokenized; also compute BLEU without a tokenizer.
        robustness: also run the robustness checks.
        engine: `auto`, `ctranslate2` or `pytorch`.
        device: `auto`, `cpu` or `cuda`.
        test: the significance test of the comparison.
        trust_parts: allow model folders to import parts that are not in this package.
        on_progress: called with the progress of each stage.
    """
    folders = {str(folder): resolve_model(Path(folder)) for folder in (run, *against)}
    if len(folders) < 1 + len(against):
        names = [str(folder) for folder in (run, *against)]
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the run {repeated!r} is named twice; expected different runs to compare")
    is_test_set = source is None and not references
    if is_test_set:
        text = _find_test_set(folders[str(run)])
    else:
        source_path = fetch(local_path(source)) if source is not None else None
        text = _read_text(source_path, [fetch(local_path(path)) for path in references])
    report = _Reporter(on_progress)
    with contextlib.ExitStack() as opened:
        translators = {
            name: opened.enter_context(translator)
            for name, translator in _load_all(
                folders, settings, engine, device, trust_parts, report
            )
        }
        outputs = {
            name: _translate_all(translator, text.sources, name, report)
            for name, translator in translators.items()
        }
        checks = _check_robustness(str(run), translators, text, report) if robustness else ()
    texts = {name: [output.text for output in rows] for name, rows in outputs.items()}
    systems = []
    for name, folder in folders.items():
        report("score", name, 0, 1)
        scores = measure(texts[name], text.references, tokenized=tokenized)
        flags = Counter(flag for output in outputs[name] for flag in output.flags)
        systems.append(System(name, tuple(scores), dict(flags.most_common()), _cost(folder)))
        report("score", name, 1, 1)
    comparisons = []
    if against:
        report("compare", "", 0, 1)
        comparisons = compare(texts, text.references, test=test, tokenized=tokenized)
        report("compare", "", 1, 1)
    return Evaluation(
        sentences=len(text.sources),
        files=text.files,
        systems=tuple(systems),
        comparisons=tuple(comparisons),
        robustness=checks,
        worst_sentences=tuple(worst_sentences(text.sources, texts[str(run)], text.references)),
        notes=(
            *(_warn_about_other_corpora(str(run), folders) if is_test_set else ()),
            *_warn_about_intervals(systems, len(text.sources)),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Reporter:
    """Calls `on_progress`, if it is set."""

    on_progress: OnProgress | None

    def __call__(self, stage: Stage, system: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(EvaluationProgress(stage, system, done, total))


def _load_all(
    folders: Mapping[str, Path],
    settings: Sequence[str],
    engine: EngineName,
    device: str,
    trust_parts: bool,
    report: _Reporter,
) -> Iterator[tuple[str, Translator]]:
    """Load all runs; they are loaded before the first one translates, to report damage early."""
    for name, folder in folders.items():
        report("load", name, 0, 1)
        yield (
            name,
            Translator.load(
                folder, settings, engine=engine, device=device, trust_parts=trust_parts
            ),
        )
        report("load", name, 1, 1)


def _translate_all(
    translator: Translator, sources: Sequence[str], name: str, report: _Reporter
) -> list[Translation]:
    report("translate", name, 0, len(sources))
    outputs = []
    for output in translator.stream(sources):
        outputs.append(output)
        report("translate", name, len(outputs), len(sources))
    return outputs


def _check_robustness(
    name: str, translators: Mapping[str, Translator], text: _Text, report: _Reporter
) -> tuple[RobustnessResult, ...]:
    def translate(sentences: Sequence[str]) -> list[str]:
        return [output.text for output in translators[name].translate(sentences)]

    def on_check(done: int, total: int) -> None:
        report("robustness", name, done, total)

    return tuple(measure_robustness(translate, text.sources, text.references[0], on_check=on_check))


@dataclass(frozen=True, slots=True)
class _Text:
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    files: Mapping[str, str]


def _read_text(source: Path | None, references: Sequence[Path]) -> _Text:
    if source is None or not references:
        missing = "--source" if source is None else "--reference"
        raise DataError(
            f"{missing} is missing; set both --source and --reference, or neither to use the test "
            "set of the run"
        )
    files = [source, *references]
    texts = [_read(path) for path in files]
    for path, text in zip(files, texts, strict=True):
        if not text:
            raise DataError(
                f"{path_text(path)} is empty: there is nothing to score; expected one sentence per "
                "line"
            )
        if len(text) != len(texts[0]):
            raise DataError(
                f"{path_text(source)} and {path_text(path)} have {len(texts[0]):,} and "
                f"{len(text):,} lines, expected the same number: line n of one file must be the "
                "translation of line n of the other"
            )
    return _Text(texts[0], texts[1:], {path_text(path): sha256(path) for path in files})


def _find_test_set(run: Path) -> _Text:
    """Find the prepared corpus of a run, beside the run or beside one of its parent folders."""
    if not run.is_dir():
        raise ArtifactError(
            f"there is no folder {str(run)!r}; expected a folder that `dragoman train` wrote"
        )
    corpus_hash = _corpus_hash(run)
    if corpus_hash is None and not (run / "recipe.yaml").is_file():
        raise ArtifactError(
            f"{str(run)!r} is not a run; expected a folder that `dragoman train` wrote"
        )
    if corpus_hash is None:
        raise ArtifactError(
            f"{str(run)!r} has no card (card.json), so its training corpus is unknown. "
            f"{_own_text_advice(run)}"
        )
    named = load_recipe(run / "recipe.yaml").corpus.folder
    if locate(local_path(named)) is not None:
        # The copy of a folder in a store; its path is absolute.
        named = str(Prepared.open(local_path(named)).folder)
    name = Path(named)
    # An absolute path may be one of another machine, from which both folders were copied.
    names = [name, Path(name.name)] if name.is_absolute() else [name]
    parents = run.resolve().parents
    candidates = [Path(os.path.relpath(parent / name)) for name in names for parent in parents]
    for folder in candidates:
        try:
            prepared = Prepared.open(folder)
        except DataError:
            continue
        if prepared.has_hash(corpus_hash):
            return _read_test_set(prepared, run)
    raise ArtifactError(
        f"the corpus that {str(run)!r} was trained on is not in {str(candidates[0])!r}, or has "
        f"changed since; restore it. {_own_text_advice(run)}"
    )


def _read_test_set(prepared: Prepared, run: Path) -> _Text:
    folder, hashes = prepared.folder, prepared.manifest.files
    names = [f"test.{side}" for side in ("source", "target")]
    if not set(names) <= set(hashes):
        raise ArtifactError(
            f"{str(folder)!r} was written by an older version of Dragoman, without hashes of its "
            f"test set; prepare it again. {_own_text_advice(run)}"
        )
    damaged = list(verify_hashes(folder, {name: hashes[name] for name in names}))
    if damaged:
        raise DataError(
            f"the test set in {str(folder)!r} is damaged: {'; '.join(damaged)}. Prepare it again. "
            f"{_own_text_advice(run)}"
        )
    source, target = (folder / name for name in names)
    if not source.stat().st_size:
        raise DataError(f"the test set {str(source)!r} is empty. {_own_text_advice(run)}")
    return _read_text(source, [target])


def _own_text_advice(run: Path) -> str:
    command = f"dragoman evaluate {shlex.quote(str(run))} --source FILE --reference FILE"
    return f"To use your own text, type: {command}"


def _read(path: Path) -> list[str]:
    if not path.is_file():
        raise DataError(
            f"there is no file {path_text(path)!r}; expected a text, one sentence per line"
        )
    lines = []
    for number, line in read_lines(path):
        if isinstance(line, Reject):
            raise DataError(
                f"{path_text(path)}, line {number:,}: {line.reason}; expected one sentence per line"
            )
        lines.append(line)
    return lines


def _cost(run: Path) -> Cost | None:
    card = read_card(run)
    if card is None:
        return None
    return Cost(card.cost, card.flops, card.hours, card.source_tokens + card.target_tokens)


def _corpus_hash(run: Path) -> str | None:
    """Return the hash of the corpus that a run was trained on; None if the run has no card."""
    card = read_card(run)
    return None if card is None else card.corpus_sha256


def _warn_about_other_corpora(run: str, folders: Mapping[str, Path]) -> Iterator[str]:
    """Warn about runs whose training corpus may contain the test set."""
    corpus_hash = _corpus_hash(folders[run])
    for name, folder in folders.items():
        if _corpus_hash(folder) != corpus_hash:
            yield (
                f"{name} and {run} were trained on different corpora. The corpus of {name} may "
                f"contain sentences of this test set, so the scores of {name} may be too high"
            )


def _warn_about_intervals(systems: Sequence[System], sentences: int) -> Iterator[str]:
    """Warn about scores whose interval cannot be estimated from so few sentences."""
    names = dict.fromkeys(
        score.name
        for system in systems
        for score in system.scores
        if score.mean is not None and score.interval is None
    )
    if names:
        count = "1 sentence is" if sentences == 1 else f"{sentences:,} sentences are"
        yield f"{count} too few for a 95 % interval of {', '.join(names)}"
