"""Recipe files: YAML, presets, overrides, and all mistakes reported at once."""

from pathlib import Path

import pytest

from dragoman.errors import RecipeError
from dragoman.recipe.files import dump_recipe, load_recipe, preset_names
from dragoman.recipe.schema import Recipe


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


def test_all_mistakes_are_reported_at_once_with_path_and_line(write):
    path = write(
        """\
preset: bas
tokenzier:
  vocabulary_size: 8000
model:
  width: wide
  head_kind: standrad
  norm: pst
  dropout: 1.5
  similarity: {nam: cosine}
  attention_kind: [soft]
seed: 1.5
"""
    )
    mistakes = {mistake.path: (mistake.where, mistake.what) for mistake in mistakes_of(path)}
    assert mistakes == {
        "preset": (
            "recipe.yaml, line 1",
            "no preset is called 'bas'; did you mean 'base'? "
            "Available: base, big, demo, small, tiny",
        ),
        "tokenzier": (
            "recipe.yaml, line 3",
            "unknown setting; did you mean 'tokenizer'? "
            "Available: adaptation, corpus, decoding, languages, model, seed, tokenizer, training",
        ),
        "model.width": ("recipe.yaml, line 5", "found 'wide', expected a whole number"),
        "model.head_kind": (
            "recipe.yaml, line 6",
            "no part is called 'standrad'; did you mean 'standard'? "
            "Available: bare, narrow, standard, wide",
        ),
        "model.norm": (
            "recipe.yaml, line 7",
            "found 'pst'; did you mean 'post'? Available: post, pre",
        ),
        "model.dropout": ("recipe.yaml, line 8", "found '1.5', expected less than 1"),
        "model.similarity": (
            "recipe.yaml, line 9",
            "expected the name of a part, or a section with its name: and options",
        ),
        "model.attention_kind": (
            "recipe.yaml, line 10",
            "expected the name of a part, or a section with its name: and options",
        ),
        "seed": ("recipe.yaml, line 11", "found '1.5', expected a whole number"),
    }


def test_a_file_overrides_its_preset_and_the_command_line_overrides_the_file(write):
    path = write("preset: tiny\nmodel: {width: 64, norm: post}\n")
    recipe = load_recipe(path, ["model.norm=pre", "seed=7"])
    tiny = load_recipe("tiny")
    assert (recipe.model.width, recipe.model.norm, recipe.seed) == (64, "pre", 7)
    assert recipe.model.encoder_layers == tiny.model.encoder_layers
    assert load_recipe(path, ["preset=big"]).model.encoder_layers == 6


def test_a_part_name_replaces_the_part_and_options_alone_change_it(write):
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


def test_a_byte_order_mark_and_windows_newlines_are_accepted(write):
    assert load_recipe(write("seed: 3\r\nmodel:\r\n  width: 64\r\n", "utf-8-sig")).seed == 3


def test_a_setting_written_twice_on_the_command_line_has_no_line_number():
    (mistake,) = mistakes_of("tiny", ["seed={a: 1, a: 2}"])[:1]
    assert (mistake.path, mistake.where) == ("seed.a", "command line")


def test_an_empty_file_gives_the_defaults(write):
    assert load_recipe(write("# nothing\n")) == Recipe()


@pytest.mark.parametrize(
    ("text", "path", "what"),
    [
        ("seed: 1\nseed: 2\n", "seed", "written twice; keep one of them"),
        (
            "model: &m {width: 8}\ndecoding: *m\n",
            "decoding",
            "YAML aliases (`*name`) are not supported; repeat the value",
        ),
        ("just words\n", "", "expected settings, for example `seed: 1`; found one value or a list"),
        ("- a\n- b\n", "", "expected settings, for example `seed: 1`; found one value or a list"),
        ("model: {[1, 2]: 3}\n", "model", "the name of a setting must be a single word"),
        ("model: 12\n", "model", "found '12', expected a section with its settings below it"),
        ("model:\n", "model", "found '', expected a section with its settings below it"),
        ("model: {width: }\n", "model.width", "found '', expected a whole number"),
        ("seed: .inf\n", "seed", "found '.inf', expected a whole number"),
        ("model: {dropout: nan}\n", "model.dropout", "found 'nan', expected a finite number"),
    ],
)
def test_an_impossible_value_is_reported(write, text, path, what):
    assert (path, what) in [(mistake.path, mistake.what) for mistake in mistakes_of(write(text))]


def test_invalid_yaml_is_reported_with_its_line(write):
    (mistake,) = mistakes_of(write("seed: 1\nmodel: {width: 8\nx"))
    assert mistake.what.startswith("this is not YAML: ")
    assert mistake.where == "recipe.yaml, line 3"


def test_control_characters_are_reported(write):
    (mistake,) = mistakes_of(write("seed: \x00"))
    assert "character that YAML forbids" in mistake.what


def test_nested_aliases_are_refused_at_once(write):
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert any("aliases" in mistake.what for mistake in mistakes_of(write("\n".join(lines))))


def test_text_that_is_not_utf8_is_reported(write):
    (mistake,) = mistakes_of(write("seed: 1 # grün", "latin-1"))
    assert "not UTF-8" in mistake.what


def test_a_missing_file_names_the_presets():
    (mistake,) = mistakes_of("bse")
    assert mistake.what == (
        "there is no recipe file and no preset 'bse'; did you mean 'base'? "
        "Available: base, big, demo, small, tiny\n"
        "To write a recipe for your own text, type: dragoman init FOLDER --source FILE"
    )


def test_a_missing_file_is_not_called_a_mistake_in_the_recipe(tmp_path):
    with pytest.raises(RecipeError) as caught:
        load_recipe(tmp_path / "recipe.yaml")
    assert str(caught.value).startswith("there is no recipe file '")
    assert "dragoman init" in str(caught.value)


def test_a_preset_given_as_a_path_is_explained():
    (mistake,) = mistakes_of(Path("tiny"))
    assert "'tiny' is a preset" in mistake.what


@pytest.mark.parametrize("code", ["en", "yue", "pt-BR", "zh_Hant", "sr-Latn-RS", ""])
def test_language_codes_are_accepted(code):
    recipe = load_recipe("base", [f"languages.source={code}"])
    assert recipe.languages.source == code


@pytest.mark.parametrize("code", ["english", "e", "en de", "en-", "日本語"])
def test_a_language_name_is_refused(code):
    (mistake,) = mistakes_of("base", [f"languages.source={code}"])
    assert mistake.path == "languages.source"
    assert "expected a language code such as en" in mistake.what


@pytest.mark.parametrize(
    ("recipe", "settings", "path"),
    [
        ("demo", ["decoding.beam_size=8"], "decoding.beam_size"),
        ("base", ["decoding.search=greedy", "decoding.beam_size=8"], "decoding.beam_size"),
        ("base", ["decoding.temperature=0.5"], "decoding.temperature"),
        ("base", ["model.recurrent.cell=gru"], "model.recurrent.cell"),
    ],
)
def test_a_setting_without_effect_on_the_command_line_is_reported(recipe, settings, path):
    (mistake,) = mistakes_of(recipe, settings)
    assert (mistake.path, mistake.where) == (path, "command line")
    assert mistake.what.startswith("has no effect with ")


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("demo", ["decoding.beam_size=1"]),
        ("demo", ["decoding.search=beam", "decoding.beam_size=8"]),
        ("base", ["decoding.search=sample", "decoding.temperature=0.5"]),
    ],
)
def test_a_setting_with_an_effect_is_accepted(recipe, settings):
    load_recipe(recipe, settings)


def test_a_folder_is_reported(tmp_path):
    (mistake,) = mistakes_of(tmp_path)
    assert "is a folder" in mistake.what


@pytest.mark.parametrize("override", ["model.width", "=3", "model..width=3", ".=1", ""])
def test_an_invalid_override_is_reported(override):
    (mistake,) = mistakes_of("base", [override])
    assert mistake.where == "command line"
    assert "expected key=value" in mistake.what


def test_an_override_of_an_unknown_setting_is_reported():
    (mistake,) = mistakes_of("base", ["modl.width=3"])
    assert (mistake.path, mistake.where) == ("modl", "command line")


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("dropout=0.1", "'model.dropout'"),
        ("temperature=2", "'training.temperature' or 'decoding.temperature'"),
        ("kernel_size=3", "'model.convolutional.kernel_size'"),
        ("model.kernel_size=3", "'model.convolutional.kernel_size'"),
        ("model.learning_rate=1", "'training.learning_rate'"),
        ("training.seed=1", "'seed'"),
    ],
)
def test_a_setting_in_the_wrong_section_suggests_every_section_that_has_it(override, meant):
    (mistake,) = mistakes_of("base", [override])
    assert mistake.what == f"unknown setting; did you mean {meant}?"


@pytest.mark.parametrize("name", preset_names())
def test_a_written_preset_is_read_back_equal(name, write):
    written = load_recipe(name)
    assert set(preset_names()) == {"tiny", "small", "base", "big", "demo"}
    assert load_recipe(write(dump_recipe(written))) == written


def test_a_written_recipe_fits_in_eighty_columns():
    longest = max(dump_recipe(load_recipe("big")).split("\n"), key=len)
    assert len(longest) <= 80, longest


def test_comments_list_the_possible_values_of_a_choice():
    text = " ".join(dump_recipe(load_recipe("base")).replace("#", " ").split())
    assert "Positional encoding: learned, naive, none, rotary, shaw, sinusoidal" in text
    assert "Search algorithm: beam, greedy, sample" in text
    assert "Recurrent cell: lstm, gru" in text
    assert "Cleaning filters, applied in the order of the list; available: copies" in text


def test_options_are_written_as_numbers_and_booleans():
    recipe = load_recipe("base", ["model.similarity={name: cosine, scale: 2.0, loud: true}"])
    assert "similarity: {name: cosine, scale: 2.0, loud: true}" in dump_recipe(recipe)


def test_a_recipe_is_saved_and_read_back_equal(tmp_path):
    recipe = load_recipe("tiny", ["seed=7"])
    recipe.save(tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
