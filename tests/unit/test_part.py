"""Parts are found by folder or by dotted name, and their options are checked."""

import sys

import pytest

from dragoman.errors import RecipeError
from dragoman.model.parts import Similarity
from dragoman.model.similarity.cosine import Cosine
from dragoman.recipe import parts
from dragoman.recipe.parts import Choice


def choose(name, **options):
    choice = Choice(name=name, options=options)
    return parts.choose("model.similarity", choice, "model.similarity", Similarity)


def mistakes_of(name, **options):
    with pytest.raises(RecipeError) as caught:
        choose(name, **options)
    return [(mistake.path, mistake.what) for mistake in caught.value.mistakes]


@pytest.fixture
def write_part(tmp_path, monkeypatch):
    """A package of the user on Python's path."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_parts").mkdir()

    def write(text):
        (tmp_path / "my_parts" / "one.py").write_text(text, encoding="utf-8")
        return "my_parts.one"

    yield write
    for name in ("my_parts", "my_parts.one"):
        sys.modules.pop(name, None)


def test_the_folder_lists_the_parts():
    assert parts.names("model.similarity") == ["additive", "concat", "cosine", "dot", "scaled_dot"]
    assert parts.names("model.attention_kind") == ["hard", "local", "soft"]
    assert parts.names("model.head_kind") == ["bare", "narrow", "standard", "wide"]
    assert parts.names("model.position") == [
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


def test_all_invalid_options_are_reported_at_once():
    assert mistakes_of("cosine", scale="much", scal="2") == [
        ("model.similarity.scale", "found 'much', expected a number"),
        ("model.similarity.scal", "unknown setting; did you mean 'scale'? Available: scale"),
    ]
    assert mistakes_of("dot", scale="2") == [("model.similarity.scale", "dot has no options")]
    assert mistakes_of("additive", hidden="0") == [
        ("model.similarity.hidden", "found '0', expected more than 0")
    ]


def test_a_module_that_python_does_not_find_is_reported():
    ((path, what),) = mistakes_of("nowhere.gaussian")
    assert path == "model.similarity"
    assert "there is no module 'nowhere.gaussian'" in what
    assert "python -m dragoman" in what


def test_an_import_that_fails_inside_the_file_shows_its_own_traceback(write_part):
    name = write_part("import a_package_that_is_missing\n")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_missing"):
        choose(name)


def test_a_missing_package_whose_name_begins_like_the_part_is_not_mistaken_for_it(write_part):
    name = write_part("import my_part\n")
    with pytest.raises(ModuleNotFoundError, match="'my_part'"):
        choose(name)


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_must_define_exactly_one_part(write_part, count):
    classes = "\n".join(f"class Mine{number}(Dot): ..." for number in range(count))
    name = write_part(f"from dragoman.model.similarity.dot import Dot\n{classes}\n")
    ((_, what),) = mistakes_of(name)
    assert what == f"{name} has {count} subclasses of Similarity, expected one"
