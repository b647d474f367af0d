"""Is a recipe file read as a person means it, and are all mistakes told at once?"""

import pytest

from dragoman.errors import RecipeError
from dragoman.recipe import Recipe
from dragoman.recipe_file import dump_recipe, load_recipe, preset_names


@pytest.fixture
def write(tmp_path):
    def write_recipe(text, encoding="utf-8"):
        path = tmp_path / "recipe.yaml"
        path.write_bytes(text.encode(encoding))
        return path

    return write_recipe


def mistakes_of(*arguments):
    with pytest.raises(RecipeError) as caught:
        load_recipe(*arguments)
    return caught.value.mistakes


def test_every_mistake_is_told_at_once_with_path_and_line(write):
    path = write(
        """\
preset: bas
tokeniser:
  vocabulary_size: 8000
model:
  width: wide
  heads: standrad
  norm: pst
  dropout: 1.5
  similarity: {nam: cosine}
  reach: [soft]
seed: 1.5
"""
    )
    found = {mistake.path: (mistake.where, mistake.what) for mistake in mistakes_of(path)}
    assert found == {
        "preset": (
            "recipe.yaml, line 1",
            "no preset is called 'bas'; did you mean 'base'? One of: base, big, demo, small, tiny",
        ),
        "tokeniser": (
            "recipe.yaml, line 3",
            "unknown setting; did you mean 'tokenizer'? "
            "One of: corpus, decoding, languages, model, seed, tokenizer, training",
        ),
        "model.width": ("recipe.yaml, line 5", "found 'wide', expected a whole number"),
        "model.heads": (
            "recipe.yaml, line 6",
            "no part is called 'standrad'; did you mean 'standard'? "
            "One of: bare, narrow, standard, wide",
        ),
        "model.norm": (
            "recipe.yaml, line 7",
            "found 'pst'; did you mean 'post'? One of: post, pre",
        ),
        "model.dropout": ("recipe.yaml, line 8", "found '1.5', expected less than 1"),
        "model.similarity": (
            "recipe.yaml, line 9",
            "expected the name of a part, or a section with its name: and options",
        ),
        "model.reach": (
            "recipe.yaml, line 10",
            "expected the name of a part, or a section with its name: and options",
        ),
        "seed": ("recipe.yaml, line 11", "found '1.5', expected a whole number"),
    }


def test_a_preset_is_the_ground_and_the_command_line_the_top(write):
    path = write("preset: tiny\nmodel: {width: 64, norm: post}\n")
    recipe = load_recipe(path, ["model.norm=pre", "seed=7"])
    tiny = load_recipe("tiny")
    assert (recipe.model.width, recipe.model.norm, recipe.seed) == (64, "pre", 7)
    assert recipe.model.encoder_layers == tiny.model.encoder_layers
    assert load_recipe(path, ["preset=big"]).model.encoder_layers == 6


def test_naming_a_part_replaces_it_and_options_alone_adjust_it(write):
    path = write("model: {similarity: {name: cosine, scale: 3}}\n")
    adjusted = load_recipe(path, ["model.similarity.scale=5"]).model.similarity
    assert (adjusted.name, adjusted.options) == ("cosine", {"scale": "5"})
    replaced = load_recipe(path, ["model.similarity=additive"]).model.similarity
    assert (replaced.name, replaced.options) == ("additive", {})
    replaced = load_recipe(path, ["model.similarity={name: concat, hidden: 4}"]).model.similarity
    assert (replaced.name, replaced.options) == ("concat", {"hidden": "4"})
    adjusted = load_recipe("base", ["model.position.layout=halves"]).model.position
    assert (adjusted.name, adjusted.options) == ("sinusoidal", {"layout": "halves"})


def test_scalars_are_converted_by_the_type_of_the_setting(write):
    recipe = load_recipe(write("model: {dropout: 1e-3}\ntokenizer: {shared: yes}\nseed: 012\n"))
    assert (recipe.model.dropout, recipe.tokenizer.shared, recipe.seed) == (0.001, True, 12)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(write):
    assert load_recipe(write("seed: 3\r\nmodel:\r\n  width: 64\r\n", "utf-8-sig")).seed == 3


def test_an_empty_file_is_the_defaults(write):
    assert load_recipe(write("# nothing\n")) == Recipe()


@pytest.mark.parametrize(
    ("text", "path", "what"),
    [
        ("seed: 1\nseed: 2\n", "seed", "said twice; keep one of them"),
        (
            "model: &m {width: 8}\ndecoding: *m\n",
            "decoding",
            "YAML aliases (`*name`) are not read; write the value out",
        ),
        ("just words\n", "", "expected settings, as in `seed: 1`; found one value or a list"),
        ("- a\n- b\n", "", "expected settings, as in `seed: 1`; found one value or a list"),
        ("model: {[1, 2]: 3}\n", "model", "a setting's name must be a plain word"),
        ("model: 12\n", "model", "found '12', expected a section with its settings below it"),
        ("model:\n", "model", "found '', expected a section with its settings below it"),
        ("model: {width: }\n", "model.width", "found '', expected a whole number"),
        ("seed: .inf\n", "seed", "found '.inf', expected a whole number"),
        ("model: {dropout: nan}\n", "model.dropout", "found 'nan', expected a finite number"),
    ],
)
def test_what_cannot_be_meant_is_told(write, text, path, what):
    assert (path, what) in [(mistake.path, mistake.what) for mistake in mistakes_of(write(text))]


def test_broken_yaml_is_told_with_its_line(write):
    (mistake,) = mistakes_of(write("seed: 1\nmodel: {width: 8\nx"))
    assert mistake.what.startswith("this is not YAML: ")
    assert mistake.where == "recipe.yaml, line 3"


def test_control_characters_are_told(write):
    (mistake,) = mistakes_of(write("seed: \x00"))
    assert "character that YAML forbids" in mistake.what


def test_a_bomb_of_aliases_is_refused_at_once(write):
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert any("aliases" in mistake.what for mistake in mistakes_of(write("\n".join(lines))))


def test_text_that_is_not_utf8_is_told(write):
    (mistake,) = mistakes_of(write("seed: 1 # grün", "latin-1"))
    assert "not UTF-8" in mistake.what


def test_a_missing_file_names_the_presets():
    (mistake,) = mistakes_of("bse")
    assert mistake.what == (
        "no file and no preset is called 'bse'; among the presets, did you mean 'base'? "
        "One of: base, big, demo, small, tiny"
    )


def test_a_folder_is_told(tmp_path):
    (mistake,) = mistakes_of(tmp_path)
    assert "is a folder" in mistake.what


@pytest.mark.parametrize("override", ["model.width", "=3", "model..width=3", ".=1", ""])
def test_an_override_that_is_none_is_told(override):
    (mistake,) = mistakes_of("base", [override])
    assert mistake.where == "command line"
    assert "expected key=value" in mistake.what


def test_an_override_of_nothing_known_is_told_with_its_place():
    (mistake,) = mistakes_of("base", ["modl.width=3"])
    assert (mistake.path, mistake.where) == ("modl", "command line")


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_states_every_setting(name, write):
    written = load_recipe(name)
    assert set(preset_names()) == {"tiny", "small", "base", "big", "demo"}
    assert load_recipe(write(dump_recipe(written))) == written


def test_a_written_recipe_fits_in_eighty_columns():
    longest = max(dump_recipe(load_recipe("big")).split("\n"), key=len)
    assert len(longest) <= 80, longest
