"""The public names are exactly the promised ones."""

import dragoman

# A change of this list needs a line in CHANGELOG.md.
PUBLIC_NAMES = [
    "ArtifactError",
    "DataError",
    "DragomanError",
    "MissingExtraError",
    "Recipe",
    "RecipeError",
    "Stopped",
    "Translation",
    "Translator",
    "adapt",
    "distill",
    "evaluate",
    "explain",
    "export",
    "import_model",
    "load_recipe",
    "prepare",
    "record",
    "train",
    "translate_files",
]


def test_the_public_names_are_the_promised_ones():
    assert sorted(dragoman.__all__) == PUBLIC_NAMES
    assert set(dir(dragoman)) == {*PUBLIC_NAMES, "__version__"}
    for name in PUBLIC_NAMES:
        assert getattr(dragoman, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(dragoman, "Translater")
