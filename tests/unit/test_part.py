"""Is a part found by its folder or its dotted name, and its options checked?"""

import sys

import pytest

from dragoman import part
from dragoman.errors import RecipeError
from dragoman.model.parts import Similarity
from dragoman.model.similarity.cosine import Cosine
from dragoman.part import Choice


def choose(name, **options):
    choice = Choice(name=name, options=options)
    return part.choose("model.similarity", choice, "model.similarity", Similarity)


def mistakes_of(name, **options):
    with pytest.raises(RecipeError) as caught:
        choose(name, **options)
    return [(mistake.path, mistake.what) for mistake in caught.value.mistakes]


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """A folder of one's own on Python's path."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lessons_of_mine").mkdir()

    def write(text):
        (tmp_path / "lessons_of_mine" / "one.py").write_text(text, encoding="utf-8")
        return "lessons_of_mine.one"

    yield write
    for name in ("lessons_of_mine", "lessons_of_mine.one"):
        sys.modules.pop(name, None)


def test_the_folder_is_the_table():
    assert part.names("model.similarity") == ["additive", "concat", "cosine", "dot", "scaled_dot"]
    assert part.names("model.reach") == ["hard", "local", "soft"]
    assert part.names("model.heads") == ["bare", "narrow", "standard", "wide"]
    assert part.names("model.position") == [
        "learned",
        "naive",
        "none",
        "rotary",
        "shaw",
        "sinusoidal",
    ]


def test_options_are_converted_by_the_signature():
    chosen = choose("cosine", scale="2.5")
    assert chosen.cls is Cosine
    assert chosen.options == {"scale": 2.5}
    built = chosen(8)
    assert isinstance(built, Cosine)
    assert built.scale == 2.5


def test_all_wrong_options_are_told_at_once():
    assert mistakes_of("cosine", scale="much", scal="2") == [
        ("model.similarity.scale", "found 'much', expected a number"),
        ("model.similarity.scal", "unknown setting; did you mean 'scale'? One of: scale"),
    ]
    assert mistakes_of("dot", scale="2") == [("model.similarity.scale", "dot has no options")]
    assert mistakes_of("additive", hidden="0") == [
        ("model.similarity.hidden", "found '0', expected more than 0")
    ]


def test_a_module_that_python_does_not_find_is_told():
    ((path, what),) = mistakes_of("nowhere.gaussian")
    assert path == "model.similarity"
    assert "Python finds no module 'nowhere.gaussian'" in what
    assert "PYTHONPATH=." in what


def test_an_import_that_fails_inside_the_file_shows_its_own_trace(lesson):
    name = lesson("import a_package_that_is_missing\n")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_missing"):
        choose(name)


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_holds_one_part(lesson, count):
    classes = "\n".join(f"class Mine{number}(Dot): ..." for number in range(count))
    name = lesson(f"from dragoman.model.similarity.dot import Dot\n{classes}\n")
    ((_, what),) = mistakes_of(name)
    assert what == f"{name} holds {count} kinds of Similarity, expected one"
