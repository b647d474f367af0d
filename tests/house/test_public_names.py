"""Are the public names exactly those that were promised?"""

import dragoman

# Changing this list is a promise kept or broken: it needs a line in CHANGELOG.md.
PROMISED = [
    "DragomanError",
    "Recipe",
    "Translation",
    "Translator",
    "explain",
    "load_recipe",
    "record",
]


def test_the_public_names_are_the_promised_ones():
    assert sorted(dragoman.__all__) == PROMISED
    assert set(dir(dragoman)) == {*PROMISED, "__version__"}
    for name in PROMISED:
        assert getattr(dragoman, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(dragoman, "Translater")
