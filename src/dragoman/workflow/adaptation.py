"""Adapt a model to a domain: prepare, train, compare with the parent, accept or refuse.

    work/N/P-KEY/recipe.yaml, prepared/, run/   an ordinary recipe with its prepared corpus and run
    work/N/P-KEY/outputs/                       translations of the test sets by both models
    work/suggestions-HASH.jsonl                 approved suggestions, while the adaptation runs

Every stage is one that resumes after a kill, and the last step, `VersionedModel.add`, happens or
does not. So the same command continues, and gives the same weights, to the bit, if the number of
updates and not the clock ends the training. N is the number of the new version, P that of its
parent, and KEY a hash of data and settings: another request has another folder. `work/N` is removed
when version N exists.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from dragoman.adaptation.data import (
    CorpusGroup,
    TestSets,
    fix_test_sets,
    open_group,
    open_test_sets,
    suggestion_group,
)
from dragoman.adaptation.gate import TestOutputs, judge
from dragoman.adaptation.history import TestSet, VersionRecord, is_versioned
from dragoman.adaptation.plausibility import check_glossary, check_pairs
from dragoman.adaptation.report.gather import (
    AdaptationFacts,
    AdaptationSources,
    gather,
    version_scores,
)
from dragoman.adaptation.report.html import render
from dragoman.adaptation.report.model import REPORT, REPORT_PAGE, AdaptationReport
from dragoman.adaptation.settings import AdaptationText, adaptation_recipe
from dragoman.adaptation.size import measure_size
from dragoman.adaptation.versions import VersionedModel
from dragoman.artifact import Artifact, read_artifact, resolve_model
from dragoman.corpus.filter import Pair
from dragoman.corpus.runner import PreparationProgress
from dragoman.errors import ArtifactError, DataError
from dragoman.inference.translator import Translator
from dragoman.recipe.files import dump_recipe
from dragoman.recipe.schema import CorpusFiles, Recipe
from dragoman.storage.files import sha256, write_text
from dragoman.storage.lock import FolderLockedError, lock_folder
from dragoman.text.glossary import Glossary
from dragoman.training.events import TrainingEvent
from dragoman.workflow.preparation import PreparationResult, prepare
from dragoman.workflow.training import train
from dragoman.workflow.translation import translate_file

Stage = Literal["read", "replay", "prepare", "train", "translate", "gate"]
_MAX_SYNTHETIC = 20_000
"""The most sources of the data that the parent translates when there is no general text."""


@dataclass(frozen=True, slots=True)
class AdaptationStage:
    """A stage of the adaptation begins."""

    stage: Stage
    text: str


AdaptationEvent = AdaptationStage | PreparationProgress | TrainingEvent
OnProgress = Callable[[AdaptationEvent], None]


@dataclass(frozen=True, slots=True)
class AdaptationResult:
    """A finished adaptation, accepted or refused."""

    folder: Path
    """The model with its versions."""
    version: Path
    """The model folder of the candidate."""
    record: VersionRecord
    report: AdaptationReport
    was_finished: bool
    """True if the same adaptation was already finished, so that nothing was done."""


def adapt(  # noqa: PLR0913  (the options of a command)
    run: str | Path,
    data: Sequence[str | Path] = (),
    *,
    suggestions: Sequence[Pair] = (),
    output: str | Path | None = None,
    test: Sequence[str | Path] = (),
    general: Sequence[str | Path] | Literal["none"] = (),
    glossary: str | Path | None = None,
    minutes: float = 30.0,
    settings: Sequence[str] = (),
    keep_work: bool = False,
    on_progress: OnProgress | None = None,
) -> AdaptationResult:
    """Adapt a model to new pairs; the result replaces it if the gate accepts it.

    Args:
        run: a model folder, or a model with versions, whose current version is adapted.
        data: new pairs, in any corpus format; two files without a known extension are aligned.
        suggestions: approved corrections, as more new pairs.
        output: folder of the model with its versions; default: `run`, if it has versions.
        test: trusted in-domain pairs, needed once; they become the fixed test set.
        general: pairs of general text to replay; `none` lets the model itself translate the new
            sources instead, and general quality is not tested.
        glossary: terms to learn, a TSV or CSV file.
        minutes: maximum training time (0 = unlimited).
        settings: settings of the recipe to change, such as `adaptation.method=full`.
        keep_work: keep the work folder of the adaptation.
        on_progress: called with every event.
    """
    report = on_progress or (lambda event: None)
    folder = _output_folder(Path(run), output)
    parent = read_artifact(resolve_model(Path(run)))
    languages = parent.recipe.languages
    report(AdaptationStage("read", "reading the files"))
    groups = _Groups(
        open_group([Path(path) for path in data], languages),
        open_group([Path(path) for path in test], languages) if test else None,
        None if general == "none" else open_group([Path(path) for path in general], languages),
        None if glossary is None else Path(glossary),
    )
    groups.check(has_suggestions=bool(suggestions))
    approved = suggestion_group(folder / "work", suggestions, languages, keep=keep_work)
    with _locked(folder), approved as added:
        groups = replace(groups, data=groups.data.joined(added))
        model = _open_model(folder, Path(run), parent, groups)
        tests = _open_tests(model, groups)
        key = groups.key([*settings, f"{minutes:g}"])
        finished = _finished(model, key)
        if finished is None:
            adaptation = _Adaptation(model, tests, groups, key, report)
            finished = adaptation.run(minutes, settings, keep_work=keep_work)
        elif not keep_work:
            shutil.rmtree(model.work(finished.record.number), ignore_errors=True)
    return finished


@dataclass(frozen=True, slots=True)
class _Groups:
    """The files of the request."""

    data: CorpusGroup
    test: CorpusGroup | None
    general: CorpusGroup | None
    """None if there is no general text (`none`)."""
    glossary: Path | None

    def check(self, *, has_suggestions: bool) -> None:
        """Raise if something is missing."""
        if not self.data.pairs and (self.data.files or not has_suggestions):
            raise DataError(
                "--data gives no pair to learn from; check the files and their languages, for "
                "example with: dragoman corpus show FILE"
            )
        if self.general is not None and not self.general.pairs:
            raise DataError(
                "general text is missing: without it, a model forgets what it knew. Give pairs of "
                "general text with --general FILES; if you have none, type --general none"
            )
        if self.glossary is not None:
            Glossary.load(self.glossary)

    def key(self, settings: Sequence[str]) -> str:
        """Hash the files and settings: the request."""
        general = None if self.general is None else [file.sha256 for file in self.general.files]
        terms = "" if self.glossary is None else sha256(self.glossary)
        facts = [[file.sha256 for file in self.data.files], general, terms, list(settings)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _output_folder(run: Path, output: str | Path | None) -> Path:
    if output is not None:
        return Path(output)
    if is_versioned(run):
        return run
    raise DataError(
        f"{str(run)!r} has no versions yet; name a folder for the adapted model and its versions, "
        "for example: -o adapted"
    )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        with lock_folder(folder / "work"):
            yield
    except FolderLockedError as error:
        raise ArtifactError(
            f"{str(folder)!r} is being adapted by process {error.pid}; wait for it, or stop it"
        ) from None


def _open_model(folder: Path, run: Path, parent: Artifact, groups: _Groups) -> VersionedModel:
    """Open the model with its versions; at the first adaptation, make it."""
    if is_versioned(folder):
        model = VersionedModel.open(folder)
        known = {record.model_sha256 for record in model.versions}
        if folder.resolve() != run.resolve() and parent.model_hash not in known:
            raise ArtifactError(
                f"{str(folder)!r} has versions of another model than {str(run)!r}; choose another "
                "folder: -o"
            )
        return model
    if groups.test is None:
        raise DataError(
            "the first adaptation needs trusted in-domain pairs that are not in the data: --test "
            "FILE. They become the test set of all versions"
        )
    return VersionedModel.create(folder, run)


def _open_tests(model: VersionedModel, groups: _Groups) -> TestSets:
    if model.tests.exists():
        return open_test_sets(model.tests)
    if groups.test is None:
        raise DataError(
            f"{str(model.folder)!r} has no test sets yet: its first adaptation was stopped before "
            "they were written. Give trusted in-domain pairs with --test FILE"
        )
    return fix_test_sets(model.tests, groups.test, groups.general)


def _finished(model: VersionedModel, key: str) -> AdaptationResult | None:
    """Return the result if the newest version was made from this request."""
    record = model.versions[-1]
    version = model.folder_of(record.number)
    try:
        report = AdaptationReport.model_validate_json((version / REPORT).read_bytes())
    except (OSError, ValidationError):
        return None
    if report.request != key:
        return None
    return AdaptationResult(model.folder, version, record, report, was_finished=True)


@dataclass(frozen=True, slots=True)
class _Adaptation:
    """One adaptation of the current version."""

    model: VersionedModel
    tests: TestSets
    groups: _Groups
    key: str
    report: OnProgress

    @property
    def number(self) -> int:
        return self.model.next_number

    @property
    def parent(self) -> Path:
        return self.model.folder_of(self.model.current.number)

    @property
    def work(self) -> Path:
        return self.model.work(self.number) / f"{self.model.current.number}-{self.key}"

    def run(self, minutes: float, settings: Sequence[str], *, keep_work: bool) -> AdaptationResult:
        """Run all stages, one after the other."""
        number, work = self.number, self.work
        cpu_before = _cpu_seconds()
        recipe_file = work / "recipe.yaml"
        recipe = self._write_recipe(recipe_file, minutes, settings)
        self.report(AdaptationStage("prepare", "preparing the training data"))
        prepared = prepare(recipe_file, on_progress=self.report)
        glossary = Glossary.load(self.groups.glossary) if self.groups.glossary else None
        self._check_data(prepared, recipe.adaptation.max_dropped, glossary)
        self.report(AdaptationStage("train", "training"))
        trained = train(recipe_file, on_progress=self.report)
        # Both models search in the same way, also if the request changes how.
        search = [setting for setting in settings if setting.startswith("decoding.")]
        outputs = self._translate_tests(trained.folder, search)
        self.report(AdaptationStage("gate", "comparing the models"))
        gate = judge(
            outputs["in_domain"],
            outputs.get("general"),
            measure_size(self.parent),
            measure_size(trained.folder),
            recipe.adaptation,
            glossary,
        )
        facts = AdaptationFacts(
            request=self.key,
            number=number,
            parent=self.model.current.number,
            recipe=recipe,
            text=AdaptationSources(
                self.groups.data, self.groups.general, self.tests, self.groups.glossary
            ),
            corpus=prepared.report,
            manifest=prepared.manifest,
            card=trained.card,
            cpu_seconds=_cpu_seconds() - cpu_before,
        )
        report = gather(facts, trained.folder, outputs, gate)
        text = json.dumps(report.model_dump(mode="json"), indent=1, ensure_ascii=False)
        write_text(trained.folder / REPORT, text + "\n")
        write_text(trained.folder / REPORT_PAGE, render(report, self._next_command(report)))
        record = VersionRecord(
            number=number,
            parent=self.model.current.number,
            method=recipe.adaptation.method,
            state="accepted" if gate.is_accepted else "refused",
            accepted_by="gate" if gate.is_accepted else "",
            data=self.groups.data.files,
            scores=version_scores(gate),
            model_sha256=read_artifact(trained.folder).model_hash,
        )
        self.model.add(trained.folder, record)
        if not keep_work:
            shutil.rmtree(self.model.work(number), ignore_errors=True)
        version = self.model.folder_of(number)
        return AdaptationResult(self.model.folder, version, record, report, was_finished=False)

    def _write_recipe(self, path: Path, minutes: float, settings: Sequence[str]) -> Recipe:
        replay, replay_pairs = self._replay()
        text = AdaptationText(
            self.groups.data, self.tests, replay, replay_pairs, self.groups.glossary
        )
        parent = read_artifact(self.parent)
        recipe = adaptation_recipe(parent.recipe, self.parent, self.work, text, minutes, settings)
        write_text(path, dump_recipe(recipe))
        return recipe

    def _check_data(
        self, prepared: PreparationResult, max_dropped: float, glossary: Glossary | None
    ) -> None:
        """Stop if the new data is damaged. Its corpora are the first of the report."""
        corpora = prepared.report.corpora[: len(self.groups.data.corpora)]
        check_pairs(corpora, max_dropped, prepared.folder / REPORT_PAGE)
        if glossary is not None:
            check_glossary(self.groups.data.read(), glossary)

    def _replay(self) -> tuple[tuple[CorpusFiles, ...], int]:
        """Return the corpora to replay, and the number of their pairs."""
        if self.groups.general is not None:
            return self.groups.general.entries(), self.groups.general.pairs
        self.report(AdaptationStage("replay", "translating the new sources with the parent"))
        source, target = self.work / "replay.source", self.work / "replay.target"
        lines = dict.fromkeys(" ".join(pair.source.split()) for pair in self.groups.data.read())
        chosen = list(lines)[:_MAX_SYNTHETIC]
        write_text(source, "".join(f"{line}\n" for line in chosen))
        self._translate(self.parent, source, target)
        return (CorpusFiles(files=(source.name, target.name)),), len(chosen)

    def _translate_tests(
        self, candidate: Path, search: Sequence[str]
    ) -> dict[TestSet, TestOutputs]:
        names: list[TestSet] = ["in_domain"]
        if self.tests.has_general:
            names.append("general")
        outputs = {}
        for name in names:
            self.report(
                AdaptationStage("translate", f"translating the {name.replace('_', '-')} test set")
            )
            source, _ = self.tests.files(name)
            texts = []
            for system, folder in (("parent", self.parent), ("candidate", candidate)):
                target = self.work / "outputs" / f"{name}.{system}"
                self._translate(folder, source, target, search)
                texts.append(target.read_bytes().decode().split("\n")[:-1])
            outputs[name] = TestOutputs(*self.tests.read(name), *texts)
        return outputs

    def _translate(
        self, folder: Path, source: Path, target: Path, search: Sequence[str] = ()
    ) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with Translator.load(folder, search) as translator:
            translate_file(translator, source, target)

    def _next_command(self, report: AdaptationReport) -> str:
        name = shlex.quote(str(self.model.folder))
        if report.is_accepted:
            return f"dragoman serve {name}"
        return f"dragoman models list {name}"


def _cpu_seconds() -> float:
    """Return the processor time of this process and its ended children."""
    usage = os.times()
    return usage.user + usage.system + usage.children_user + usage.children_system
