"""The files of a recipe are found and paired; files that do not belong together are refused."""

import pytest

from dragoman.corpus.discovery import find_corpora
from dragoman.errors import RecipeError
from dragoman.recipe.files import load_recipe


def pairs(folder, names, *patterns):
    """The files of each corpus that two patterns give, in a folder with these files."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")
    listed = ", ".join(f'"{pattern}"' for pattern in patterns)
    (folder / "recipe.yaml").write_text(
        f"languages: {{source: en, target: de}}\ncorpus:\n  train: [{{files: [{listed}]}}]\n"
    )
    recipe = load_recipe(folder / "recipe.yaml")
    return [
        tuple(str(path.relative_to(folder)) for path in corpus.files)
        for corpus in find_corpora(recipe, folder)
    ]


def test_two_patterns_give_one_corpus_for_each_pair_of_files(tmp_path):
    names = ["b.en", "a.en", "a.de", "b.de"]
    assert pairs(tmp_path, names, "*.en", "*.de") == [("a.en", "a.de"), ("b.en", "b.de")]


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        (["a.en", "b.en", "b.de", "c.de"], ["*.en", "*.de"]),
        (["x/1.en", "x/2.en", "x/2.de", "x/3.de"], ["x/?.en", "x/[0-9].de"]),
        (["en/1-a.txt", "en/2-a.txt", "de/2-a.txt", "de/3-a.txt"], ["en/*-*.txt", "de/*-*.txt"]),
    ],
)
def test_files_that_do_not_belong_together_are_refused_by_name(tmp_path, names, patterns):
    with pytest.raises(RecipeError) as caught:
        pairs(tmp_path, names, *patterns)
    (mistake,) = caught.value.mistakes
    assert mistake.path == "corpus.train.0.files"
    second_source, first_target, second_target = names[1:]
    assert (
        f"{second_source!r} would be paired with {second_target!r} instead of {first_target!r}"
        in mistake.what
    )


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        # The language is a part of what the wildcard matches: nothing can be compared.
        (["en-1.txt", "en-2.txt", "de-1.txt", "de-2.txt"], ["en*.txt", "d*.txt"]),
        # One pattern has no wildcard.
        (["a.en", "b.de"], ["a.en", "*.de"]),
        (["[1].en", "[1].de"], ["[1].en", "[1].de"]),
        # A pattern that begins with the folder itself.
        (["a.en", "b.en", "a.de", "b.de"], ["./*.en", "./*.de"]),
    ],
)
def test_other_names_are_paired_in_sorted_order(tmp_path, names, patterns):
    half = len(names) // 2
    expected = list(zip(names[:half], names[half:], strict=True))
    assert pairs(tmp_path, names, *patterns) == expected


def test_an_absolute_pattern_is_checked_too(tmp_path):
    names = ["a.en", "b.en", "b.de", "c.de"]
    with pytest.raises(RecipeError, match="do not belong together"):
        pairs(tmp_path, names, f"{tmp_path}/*.en", f"{tmp_path}/*.de")
