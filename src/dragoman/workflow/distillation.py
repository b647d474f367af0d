"""Distill one model or several into a smaller one: translate, prepare, train, compare.

    recipe.yaml, sources.txt     an ordinary recipe, and the text that the teacher translates
    synthetic/, prepared/, run/  translations, prepared corpus and the student
    exports/                     exports of teacher and student
    measurements.json            what is measured so far
    distillation.json, report.md the result

Every stage continues after a kill, so the same command continues, and gives the same weights, to
the bit. `distillation.json` is written last; if it belongs to the same request, nothing is done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from dragoman.adaptation.comparison import Comparison
from dragoman.adaptation.data import CorpusGroup, group_files, open_group
from dragoman.adaptation.distillation import (
    VALIDATION,
    DistillationCorpora,
    SourceCounts,
    check_data,
    distillation_recipe,
    teacher_decoding,
    write_sources,
)
from dragoman.adaptation.distillation_report import (
    REPORT,
    REPORT_PAGE,
    DistillationFigures,
    DistillationReport,
    TeacherModel,
    TestSetFile,
    render,
)
from dragoman.artifact import CHECKPOINTS, read_artifact, resolve_model
from dragoman.corpus.runner import PreparationProgress
from dragoman.errors import ArtifactError, DataError, RecipeError
from dragoman.inference.loading import LoadOptions, find_model
from dragoman.inference.translator import Translator
from dragoman.recipe.files import dump_recipe, load_recipe
from dragoman.recipe.schema import LanguagesRecipe, Recipe
from dragoman.storage.files import sha256, write_text
from dragoman.storage.lock import FolderLockedError, lock_folder
from dragoman.training.card import Card
from dragoman.training.device import restored_torch_settings
from dragoman.training.events import TrainingEvent
from dragoman.workflow.preparation import PreparationResult, prepare
from dragoman.workflow.training import train
from dragoman.workflow.translation import translate_file

Stage = Literal["read", "export", "validation", "prepare", "train", "measure"]
Quantization = Literal["float32", "int8"]


@dataclass(frozen=True, slots=True)
class DistillationStage:
    """A stage of the distillation begins."""

    stage: Stage
    text: str


DistillationEvent = DistillationStage | PreparationProgress | TrainingEvent
OnProgress = Callable[[DistillationEvent], None]
_TEXT_KEY = ".text-key"
"""File with a hash of the teachers and the text."""


@dataclass(frozen=True, slots=True)
class DistillationResult:
    """A student and its report."""

    folder: Path
    run: Path
    """The model folder of the student."""
    report: DistillationReport
    was_finished: bool
    """True if the same distillation was already finished, so that nothing was done."""


def distill(  # noqa: PLR0913  (the options of a command)
    teachers: str | Path | Sequence[str | Path],
    data: Sequence[str | Path],
    *,
    output: str | Path,
    test: Sequence[str | Path],
    validation: Sequence[str | Path] = (),
    preset: str = "tiny",
    beam_size: int | None = None,
    quantization: Quantization = "float32",
    settings: Sequence[str] = (),
    workers: int = 0,
    on_progress: OnProgress | None = None,
) -> DistillationResult:
    """Train a small model on the translations of a large one, and compare the two.

    Args:
        teachers: a run, an export, or a model with versions; several runs are an ensemble.
        data: source text, one sentence per line, or parallel corpora, whose sources are used.
        output: folder of the student; a second call with the same folder continues.
        test: pairs to compare teacher and student with; several test sets are possible.
        validation: pairs that choose the best checkpoint; default: held-out sources with the
            teacher's translations.
        preset: the preset of the student.
        beam_size: beam size of the teacher; default: as in its recipe.
        quantization: `int8` translates with an int8 export of the teacher, which is faster.
        settings: settings of the student's recipe to change, such as `training.steps=2000`.
        workers: processes that translate and prepare (0 = all cores).
        on_progress: called with every event.
    """
    folder = Path(output)
    names = [teachers] if isinstance(teachers, str | Path) else list(teachers)
    teacher = _Teacher.find([Path(name) for name in names], beam_size, quantization)
    if not test:
        raise DataError(
            "there is no test set; teacher and student are compared with it: --test SOURCE TARGET"
        )
    report = on_progress or (lambda event: None)
    report(DistillationStage("read", "reading the files"))
    languages = _languages(teacher, preset, settings)
    files = [Path(path) for path in data]
    if not files:
        raise DataError("no data; give source text with --data FILES")
    check_data(files, languages)
    tests = tuple(
        open_group(group, languages) for group in group_files([Path(path) for path in test])
    )
    for group in tests:
        if not group.pairs:
            raise DataError(f"the test set {group.files[0].name} has no pairs; check the file")
    own_validation = [Path(path) for path in validation]
    validation_set = open_group(own_validation, languages) if own_validation else None
    distillation = _Distillation(
        folder, teacher, languages, files, tests, validation_set, preset, report
    )
    with _locked(folder):
        return distillation.run(settings, workers)


@dataclass(frozen=True, slots=True)
class _Teacher:
    """The models that write the targets."""

    names: tuple[str, ...]
    folders: tuple[Path, ...]
    """One run or export, or several runs; of a model with versions, the current one."""
    recipe: Recipe
    model_hashes: tuple[str, ...]
    beam_size: int | None
    quantization: Quantization

    @classmethod
    def find(
        cls, names: Sequence[Path], beam_size: int | None, quantization: Quantization
    ) -> _Teacher:
        """Check the teachers; all of them must have the same languages."""
        folders = tuple(resolve_model(name) for name in names)
        model = find_model(folders, _settings(beam_size), LoadOptions())
        if model.checkpoint:
            raise ArtifactError(
                f"the training of {str(names[0])!r} is not finished ({model.checkpoint}); finish "
                "it first: dragoman train RECIPE"
            )
        recipes = [load_recipe(folder / "recipe.yaml") for folder in folders]
        pairs = [(recipe.languages.source, recipe.languages.target) for recipe in recipes]
        for name, pair in zip(names, pairs, strict=True):
            if pair != pairs[0]:
                raise DataError(
                    f"{str(name)!r} translates {' → '.join(pair)}, but {str(names[0])!r} "
                    f"translates {' → '.join(pairs[0])}; expected teachers with the same languages"
                )
        if quantization == "int8" and len(folders) > 1:
            raise DataError(
                "an ensemble of teachers translates with PyTorch, which has no int8; name one "
                "teacher, or remove --quantization int8"
            )
        return cls(
            tuple(str(name) for name in names),
            folders,
            model.recipe,
            tuple(model.model_hash.split("+")),
            beam_size,
            quantization,
        )

    @property
    def settings(self) -> list[str]:
        """Changes of its decoding settings."""
        return _settings(self.beam_size)


def _settings(beam_size: int | None) -> list[str]:
    return [f"decoding.{name}={value}" for name, value in teacher_decoding(beam_size).items()]


def _languages(teacher: _Teacher, preset: str, settings: Sequence[str]) -> LanguagesRecipe:
    """Return the languages of the student: those of the teacher, unless a setting says others."""
    own = teacher.recipe.languages
    draft = load_recipe(preset).model_copy(update={"languages": own})
    chosen = [setting for setting in settings if setting.startswith("languages.")]
    languages = load_recipe(draft, chosen).languages
    if not (languages.source and languages.target):
        raise DataError(
            f"{teacher.names[0]!r} does not state its languages; add them, for example: "
            "languages.source=en languages.target=fr"
        )
    if own.source and own.target and languages != own:
        raise DataError(
            f"{teacher.names[0]!r} translates {own.source} → {own.target}, expected "
            f"{languages.source} → {languages.target}; name a teacher with these languages"
        )
    return languages


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        with lock_folder(folder):
            yield
    except FolderLockedError as error:
        raise ArtifactError(
            f"process {error.pid} already distills into {str(folder)!r}; wait for it, or stop it"
        ) from None


@dataclass(frozen=True, slots=True)
class _Distillation:
    """One distillation."""

    folder: Path
    teacher: _Teacher
    languages: LanguagesRecipe
    data: Sequence[Path]
    tests: tuple[CorpusGroup, ...]
    validation: CorpusGroup | None
    preset: str
    report: OnProgress

    def run(self, settings: Sequence[str], workers: int) -> DistillationResult:
        """Run all stages, one after the other."""
        key = _hash(self._text_key(), self.preset, list(settings))
        finished = self._finished(key)
        if finished is not None:
            return finished
        # All mistakes in the settings are found before anything is written.
        recipe = self._recipe(self.teacher.folders, settings)
        self._begin(self.folder / recipe.training.folder)
        held_out = self.tests if self.validation is None else (*self.tests, self.validation)
        counts = write_sources(
            self.folder,
            self.data,
            self.languages,
            held_out,
            needs_validation=self.validation is None,
        )
        translating = self._translating_models()
        if self.validation is None:
            self._translate_validation(translating)
        recipe_file = self.folder / "recipe.yaml"
        write_text(recipe_file, dump_recipe(self._recipe(translating, settings)))
        self.report(DistillationStage("prepare", "translating and preparing the training data"))
        prepared = prepare(recipe_file, workers=workers, on_progress=self.report)
        self.report(DistillationStage("train", "training the student"))
        trained = train(recipe_file, on_progress=self.report)
        self.report(DistillationStage("measure", "comparing teacher and student"))
        comparison = self._comparison("measure")
        systems = comparison.systems(self.teacher.folders, trained.folder)
        figures = comparison.measure(systems, _by_name(self.tests))
        report = self._gather(key, counts, prepared, trained.folder, trained.card, figures)
        write_text(self.folder / REPORT_PAGE, render(report))
        write_text(self.folder / REPORT, report.model_dump_json(indent=1) + "\n")
        return DistillationResult(self.folder, trained.folder, report, was_finished=False)

    def _recipe(self, teachers: tuple[Path, ...], settings: Sequence[str]) -> Recipe:
        corpora = DistillationCorpora(teachers, self.teacher.beam_size, self.tests, self.validation)
        return distillation_recipe(self.preset, self.languages, corpora, self.folder, settings)

    def _begin(self, run: Path) -> None:
        """Refuse other text for a student whose training has begun; `train` checks the rest."""
        path, text_key = self.folder / _TEXT_KEY, self._text_key()
        is_other = not path.exists() or path.read_text(encoding="utf-8").strip() != text_key
        if is_other and (run / CHECKPOINTS).exists():
            raise ArtifactError(
                f"{str(self.folder)!r} has a student of other teachers or other files; choose "
                "another folder with -o, or remove it"
            )
        write_text(path, f"{text_key}\n")

    def _text_key(self) -> str:
        """Hash everything that decides the text that the student learns."""
        groups = [*self.tests, *([] if self.validation is None else [self.validation])]
        return _hash(
            self.teacher.model_hashes,
            self.teacher.settings,
            self.teacher.quantization,
            [sha256(path) for path in self.data],
            [[file.sha256 for file in group.files] for group in groups],
            len(self.tests),
        )

    def _finished(self, key: str) -> DistillationResult | None:
        """Return the result if the folder has the student of this request."""
        try:
            content = (self.folder / REPORT).read_bytes()
            report = DistillationReport.model_validate_json(content)
            folder = load_recipe(self.folder / "recipe.yaml").training.folder
            is_same = read_artifact(self.folder / folder).model_hash == report.student_sha256
        except (OSError, ValidationError, ArtifactError, RecipeError):
            return None
        if report.request != key or not is_same:
            return None
        return DistillationResult(self.folder, self.folder / folder, report, was_finished=True)

    def _translating_models(self) -> tuple[Path, ...]:
        """Return the models that translate the sources; an int8 export is made if asked for."""
        if self.teacher.quantization == "float32":
            return self.teacher.folders
        (folder,) = self.teacher.folders
        exports = self._comparison("export").exports_of("teacher", folder)
        if "int8" not in exports:
            raise ArtifactError(
                f"{self.teacher.names[0]!r} cannot be translated with int8: it is an export with "
                f"{', '.join(exports)}, or CTranslate2 cannot express it; remove --quantization "
                "int8, or name another teacher"
            )
        return (exports["int8"],)

    def _comparison(self, stage: Stage) -> Comparison:
        return Comparison(self.folder, lambda text: self.report(DistillationStage(stage, text)))

    def _translate_validation(self, models: Sequence[Path]) -> None:
        source, target = (self.folder / name for name in VALIDATION)
        self.report(DistillationStage("validation", "translating the validation set"))
        with (
            restored_torch_settings(),
            Translator.load(models, self.teacher.settings) as translator,
        ):
            translate_file(translator, source, target)

    def _gather(
        self,
        key: str,
        counts: SourceCounts,
        prepared: PreparationResult,
        run: Path,
        card: Card,
        figures: tuple[DistillationFigures, ...],
    ) -> DistillationReport:
        teachers = zip(self.teacher.names, self.teacher.model_hashes, strict=True)
        tests = (
            TestSetFile(name=name, sha256=group.files[0].sha256, pairs=group.pairs)
            for name, group in _by_name(self.tests).items()
        )
        return DistillationReport(
            request=key,
            languages=self.languages,
            teachers=tuple(TeacherModel(name=name, model_sha256=sha) for name, sha in teachers),
            student_sha256=read_artifact(run).model_hash,
            preset=self.preset,
            data=tuple(path.name for path in self.data),
            sources=counts.sources,
            pairs=sum(prepared.manifest.origins.values()),
            tests=tuple(tests),
            is_validated_by_teacher=self.validation is None,
            parameters=card.parameters,
            updates=card.updates,
            cost=card.cost,
            figures=figures,
        )


def _hash(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _by_name(tests: Sequence[CorpusGroup]) -> dict[str, CorpusGroup]:
    """Return the test sets by the name of their sources; with the folder, if names are equal."""
    files = [group.corpora[0].files[0] for group in tests]
    is_unique = len({file.name for file in files}) == len(files)
    names = [file.name if is_unique else str(file) for file in files]
    return dict(zip(names, tests, strict=True))
