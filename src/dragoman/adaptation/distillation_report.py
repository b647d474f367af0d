"""The report of a distillation: `distillation.json`, and the same as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dragoman.recipe.schema import LanguagesRecipe

REPORT, REPORT_PAGE = "distillation.json", "report.md"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DistillationFigures(_Frozen):
    """What one system does with one test set and one beam size."""

    test: str
    """The name of the test set."""
    system: str
    """`student`, `teacher`, `teacher 2`, `ensemble`."""
    engine: str
    quantization: str
    beam_size: int
    bleu: float
    chrf: float
    megabytes: float
    """Size of the folder that translates: weights, vocabularies and tokenizers."""
    cpu_seconds: float
    """Processor time per sentence; the median of the passes."""
    passes: int


class TeacherModel(_Frozen):
    """A teacher."""

    name: str
    model_sha256: str


class TestSetFile(_Frozen):
    """A test set."""

    __test__ = False  # Not a test of pytest.

    name: str
    sha256: str
    pairs: int


class DistillationReport(_Frozen):
    """How a student was made, and how it compares with its teachers."""

    version: Literal[1] = 1
    request: str
    """Hash of the teachers, the text and the settings."""
    languages: LanguagesRecipe
    teachers: tuple[TeacherModel, ...]
    student_sha256: str
    preset: str
    data: tuple[str, ...]
    """Names of the files whose sources the teacher translated."""
    sources: int
    """Different sources that were translated."""
    pairs: int
    """Pairs that were left after cleaning."""
    tests: tuple[TestSetFile, ...]
    is_validated_by_teacher: bool
    """Whether the validation set is the teacher's own translation of held-out sources."""
    parameters: int
    updates: int
    cost: str
    """The cost of the training in one line."""
    figures: tuple[DistillationFigures, ...]

    def rows(self, test: str) -> list[DistillationFigures]:
        """Return the figures on one test set."""
        return [row for row in self.figures if row.test == test]


COLUMNS = ("system", "weights", "beam", "BLEU", "chrF", "MB", "CPU s/sentence")


def cells(row: DistillationFigures) -> tuple[str, ...]:
    """Return a row of the table as text, in the order of `COLUMNS`."""
    return (
        row.system,
        row.quantization,
        str(row.beam_size),
        f"{row.bleu:.1f}",
        f"{row.chrf:.1f}",
        _figure(row.megabytes, 1),
        _figure(row.cpu_seconds, 3),
    )


def _figure(value: float, decimals: int) -> str:
    """Return a number with these decimals, or with two digits if they would hide it."""
    return f"{value:,.{decimals}f}" if value >= 10 ** (1 - decimals) else f"{value:.2g}"


def render(report: DistillationReport) -> str:
    """Return the report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: DistillationReport) -> Iterator[str]:
    pair = f"{report.languages.source} → {report.languages.target}"
    yield f"# Distilled model, {pair}"
    yield ""
    teachers = (f"{teacher.name} ({teacher.model_sha256[:12]})" for teacher in report.teachers)
    yield f"- Teachers: {', '.join(teachers)}"
    yield (
        f"- Student: preset {report.preset}, {report.parameters:,} parameters, "
        f"{report.student_sha256[:12]}"
    )
    yield (
        f"- Text: {report.sources:,} different sources of {', '.join(report.data)}; "
        f"{report.pairs:,} pairs after cleaning"
    )
    validation = "the teacher's translation of held-out sources"
    yield f"- Validation: {validation if report.is_validated_by_teacher else 'human pairs'}"
    yield f"- Training: {report.updates:,} updates; {report.cost}"
    for test in report.tests:
        yield ""
        yield f"## {test.name}, {test.pairs:,} sentences"
        yield ""
        yield f"| {' | '.join(COLUMNS)} |"
        yield f"|{'---|' * len(COLUMNS)}"
        yield from (f"| {' | '.join(cells(row))} |" for row in report.rows(test.name))
    yield ""
    yield (
        "MB: weights, vocabularies and tokenizers. CPU s/sentence: processor time with one thread, "
        "without loading; the median of several passes if a pass is short."
    )
