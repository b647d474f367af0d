"""What every document format must do; formats and their made documents are found by folder."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.formats.base.document import Content, Document, Target, Unit, numbered
from dragoman.formats.base.folder import find_format, formats
from support.document_checks import changed, has_text, written
from support.shared_data import shared_data

LANGUAGES = ("en", "de")
SOME = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
HOSTILE = "<b>&amp;\"'\\ \\n %s {0} ]]> --> ``` * _ # ü 漢 \u202e \U0001f600 =: 1. - | [x](y)"
"""Text that could be mistaken for the markup of some format."""


def made(name: str) -> ModuleType:
    return importlib.import_module(f"formats.made.{name}")


def open_as(name: str, data: bytes) -> Document:
    return formats()[name](data, "document", *LANGUAGES)


def current(document: Document, unit: Unit) -> Content | None:
    """The content that writing replaces."""
    return unit.target if document.is_bilingual else unit.source


def renumbered(content: Content | None) -> Content | None:
    return None if content is None else numbered(content)


def samples() -> Iterator[tuple[str, Path]]:
    """All real files with the format whose test module claims them."""
    folder = shared_data() / "formats"
    for name in formats():
        for pattern in made(name).SAMPLES:
            yield from ((name, path) for path in sorted(folder.glob(pattern)))


@pytest.mark.parametrize("name", sorted(formats()))
def test_every_format_has_made_documents(name):
    module = made(name)
    assert isinstance(module.SAMPLES, tuple)
    assert isinstance(module.INVALID, dict)
    assert formats()[name].extensions
    assert callable(module.documents)


@pytest.mark.parametrize("name", sorted(formats()))
@pytest.mark.parametrize("difference", [-1, 1])
def test_another_number_of_targets_than_units_is_an_error(name, difference):
    def has_unit(data: bytes) -> bool:
        return any(True for _ in open_as(name, data).units())

    only_generate = settings(SOME, phases=[Phase.generate], database=None)
    data = find(made(name).documents(), has_unit, settings=only_generate)
    document = open_as(name, data)
    count = sum(1 for _ in document.units())
    with pytest.raises(ValueError, match=r"targets|zip\(\)"):
        written(document, [None] * (count + difference))


@pytest.mark.slow
def test_every_sample_is_read_or_refused_and_written_back_to_the_byte():
    counts = {"identical": 0, "refused": 0, "units": 0}
    folder = shared_data() / "formats"
    for name, path in samples():
        data = path.read_bytes()
        relative = str(path.relative_to(folder))
        document = find_format(path, data)(data, str(path), *LANGUAGES)
        if relative in made(name).INVALID:
            with pytest.raises(DataError) as refusal:
                list(document.units())
            assert made(name).INVALID[relative] in str(refusal.value), relative
            assert str(path) in str(refusal.value)
            counts["refused"] += 1
            continue
        units = list(document.units())
        assert written(document, [None] * len(units)) == data, relative
        same = [
            None if (content := current(document, unit)) is None else Target(content, False)
            for unit in units
        ]
        kept = [
            None if unit.state in ("needs_review", "locked") else target
            for unit, target in zip(units, same, strict=True)
        ]
        assert written(document, kept) == data, relative
        counts["identical"] += 1
        counts["units"] += len(units)
    assert counts["identical"] > 100
    assert counts["units"] > 5000


@pytest.mark.slow
@pytest.mark.parametrize("change", [str.upper, lambda text: text + HOSTILE, lambda _: HOSTILE])
def test_what_is_written_into_a_sample_is_read_back(change):
    folder = shared_data() / "formats"
    rng = random.Random(1)
    for name, path in samples():
        if str(path.relative_to(folder)) in made(name).INVALID:
            continue
        data = path.read_bytes()
        try:
            check_written(find_format(path, data), data, change, rng)
        except DataError as error:  # The file has an encoding without these characters.
            assert "encoding of the file" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(formats()))
def test_made_documents_are_written_back_and_read_back(name):
    @SOME
    @given(made(name).documents(), st.randoms(use_true_random=False))
    def run(data, rng):
        document = open_as(name, data)
        units = list(document.units())
        assert written(document, [None] * len(units)) == data
        for change in (str.upper, lambda text: text + HOSTILE):
            output = check_written(formats()[name], data, change, rng)
            # Emphasis that cannot be read again becomes other markup in Markdown.
            assert name == "markdown" or made(name).is_equal(data, output)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(formats()))
def test_damaged_documents_are_refused_with_the_name_or_read(name):
    @SOME
    @given(made(name).documents(), st.data())
    def run(data, draw):
        damaged = bytearray(data)
        for _ in range(draw.draw(st.integers(1, 4))):
            position = draw.draw(st.integers(0, max(0, len(damaged) - 1)))
            if draw.draw(st.booleans()):
                del damaged[position : position + draw.draw(st.integers(1, 20))]
            else:
                damaged[position:position] = draw.draw(st.binary(min_size=1, max_size=4))
        try:
            document = open_as(name, bytes(damaged))
            units = list(document.units())
        except DataError as error:
            assert "document" in str(error)
            return
        assert written(document, [None] * len(units)) == bytes(damaged)

    run()


def check_written(
    cls: type[Document], data: bytes, change: Callable[[str], str], rng: random.Random
) -> bytes:
    """Write changed contents into some units and read them back; the others stay as they are."""
    document = cls(data, "document", *LANGUAGES)
    units = list(document.units())
    targets: list[Target | None] = [
        Target(changed(unit.source, change))
        if rng.random() < 0.7 and unit.state != "locked" and has_text(unit.source)
        else None
        for unit in units
    ]
    output = written(document, targets)
    rewritten = cls(output, "written", *LANGUAGES)
    after = list(rewritten.units())
    assert [unit.key for unit in after] == [unit.key for unit in units]
    for before, target, now in zip(units, targets, after, strict=True):
        expected = current(document, before) if target is None else target.content
        assert renumbered(current(rewritten, now)) == renumbered(expected)
        if document.is_bilingual:
            assert now.source == before.source
            is_changed = target is not None and target.content != before.target
            if is_changed and document.review_mark:
                assert now.state == "needs_review"
    return output


def test_the_table_of_formats_is_up_to_date():
    from formats.table import page

    written = Path(__file__).parents[2].joinpath("docs", "formats.md").read_text(encoding="utf-8")
    assert written == page(), "type: python tests/formats/table.py > docs/formats.md"
