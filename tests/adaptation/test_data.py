"""The files of an adaptation: groups, fixed test sets, and settings by size."""

import pytest

from dragoman.adaptation.data import (
    MAX_VALIDATION,
    fix_test_sets,
    group_files,
    open_group,
    open_test_sets,
    suggestion_group,
)
from dragoman.adaptation.settings import replay_weight, updates_for
from dragoman.cli.adapt import repeat_options
from dragoman.corpus.filter import Pair
from dragoman.errors import ArtifactError, DataError
from dragoman.recipe.schema import LanguagesRecipe
from support.word_language import domain_pairs, general_pairs, write_pairs

LANGUAGES = LanguagesRecipe(source="en", target="fr")


def touch(folder, *names):
    paths = [folder / name for name in names]
    for path in paths:
        path.write_text("text\n")
    return paths


def test_files_with_both_sides_stand_alone_and_others_are_paired(tmp_path):
    paths = touch(tmp_path, "a.tsv", "b.en", "b.fr", "c.po", "d.txt", "e.txt")
    groups = [[path.name for path in group] for group in group_files(paths)]
    assert groups == [["a.tsv"], ["b.en", "b.fr"], ["c.po"], ["d.txt", "e.txt"]]


@pytest.mark.parametrize("names", [["b.en"], ["b.en", "c.po", "b.fr"]])
def test_one_side_alone_is_an_error(tmp_path, names):
    with pytest.raises(DataError, match=r"b\.en.*one side"):
        group_files(touch(tmp_path, *names))


def groups(folder, test=100, general=300):
    return (
        open_group([write_pairs(folder / "test.tsv", domain_pairs(test, 1))], LANGUAGES),
        open_group([write_pairs(folder / "general.tsv", general_pairs(general, 2))], LANGUAGES),
    )


def test_sets_are_disjoint_and_do_not_depend_on_the_order_of_the_pairs(tmp_path):
    test, general = groups(tmp_path)
    sets = fix_test_sets(tmp_path / "tests", test, general)
    reversed_file = write_pairs(tmp_path / "reversed.tsv", domain_pairs(100, 1)[::-1])
    again = fix_test_sets(tmp_path / "again", open_group([reversed_file], LANGUAGES), general)
    for name in ("in_domain", "in_domain_validation", "general", "general_validation"):
        assert sets.read(name) == again.read(name)
    in_domain, validation = (sets.read(name)[0] for name in ("in_domain", "in_domain_validation"))
    assert not set(in_domain) & set(validation)
    assert len(in_domain) + len(validation) == len({source for source, _ in domain_pairs(100, 1)})
    assert len(validation) <= MAX_VALIDATION
    # Most general text is left for replay.
    held_out = len(sets.read("general")[0]) + len(sets.read("general_validation")[0])
    assert held_out <= 0.3 * 300


def test_without_general_text_there_is_no_general_set(tmp_path):
    test, _ = groups(tmp_path)
    sets = fix_test_sets(tmp_path / "tests", test, None)
    assert not sets.has_general
    assert len(sets.entries("in_domain", "general")) == 1


def test_a_changed_test_set_is_noticed(tmp_path):
    test, general = groups(tmp_path)
    fix_test_sets(tmp_path / "tests", test, general)
    with (tmp_path / "tests" / "in_domain.target").open("a") as file:
        file.write("one more\n")
    with pytest.raises(ArtifactError, match=r"in_domain\.target is not what was written"):
        open_test_sets(tmp_path / "tests")


def test_too_few_pairs_for_a_test_are_an_error(tmp_path):
    test, general = groups(tmp_path, test=15)
    with pytest.raises(DataError, match="--test gives"):
        fix_test_sets(tmp_path / "tests", test, general)


def test_small_sets_are_seen_more_often():
    updates = [updates_for(pairs, 0.5) for pairs in (100, 1_000, 5_000, 20_000, 200_000)]
    assert updates == sorted(updates)
    per_pair = [
        count / pairs for count, pairs in zip(updates, (100, 1_000, 5_000, 20_000, 200_000),
                                              strict=True)
    ]  # fmt: skip
    assert per_pair == sorted(per_pair, reverse=True)


@pytest.mark.parametrize(("pairs", "replayed"), [(100, 5_000), (5_000, 100), (300, 300)])
def test_the_weight_gives_the_share_of_replayed_text(pairs, replayed):
    weight = replay_weight(0.25, pairs, replayed)
    assert weight * replayed / (weight * replayed + pairs) == pytest.approx(0.25, rel=1e-3)


def test_several_files_may_follow_one_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["run", "--data", "a.tmx", "b.po", "--general", "c.en", "c.fr", "-o", "new", "seed=2"]
    assert repeat_options(given) == [
        *("run", "--data", "a.tmx", "--data", "b.po", "--general", "c.en", "--general", "c.fr"),
        *("-o", "new", "seed=2"),
    ]
    given = ["run", "--data", "a.tmx", "training.steps=5"]
    assert repeat_options(given) == given


def test_suggestions_are_a_private_corpus_as_long_as_they_are_needed(tmp_path):
    languages = LanguagesRecipe(source="en", target="de")
    pairs = [Pair('two\nlines "a"', "zwei\tZeilen"), Pair("one", "eins\u2028")]
    work = tmp_path / "work"
    names = []
    for keep in (False, True):
        with suggestion_group(work, pairs, languages, keep=keep) as group:
            (file,) = group.files
            path = work / file.name
            assert path.stat().st_mode & 0o777 == 0o600
            assert work.stat().st_mode & 0o777 == 0o700
            assert list(group.read()) == pairs
            assert file.pairs == 2
            assert file.sha256.startswith(file.name[12:24])
        assert path.exists() == keep
        names.append(file.name)
    assert names[0] == names[1]
    with suggestion_group(work, pairs[:1], languages, keep=False) as group:
        assert group.files[0].name != names[0]
    with suggestion_group(tmp_path / "none", [], languages, keep=False) as group:
        assert group.pairs == 0
    assert not (tmp_path / "none").exists()
