"""Lost terms: the sign test finds a term that went wrong, and not what changes by chance."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adaptation.terms import (
    MIN_USES,
    TermCounts,
    count_glossary_terms,
    count_words,
    find_lost_terms,
)
from dragoman.text.glossary import Glossary


@given(lost=st.integers(0, 5), gained=st.integers(0, 5))
def test_the_p_value_is_the_share_of_coin_tosses_with_so_many_losses(lost, gained):
    tosses = list(itertools.product((0, 1), repeat=lost + gained))
    expected = sum(sum(toss) >= lost for toss in tosses) / len(tosses)
    assert TermCounts(lost=lost, gained=gained).p_value == pytest.approx(expected)


def test_words_are_counted_where_the_reference_has_them():
    counts = count_words(
        ["Der Hund rennt.", "Der HUND schläft.", "Ein Kind"],
        ["hund", "Katze rennt", "Hund"],
        ["Katze", "Hund", "Kind"],
    )
    assert set(counts) == {"hund", "rennt", "schläft", "kind"}
    assert counts["hund"] == TermCounts(sentences=2, parent=1, candidate=1, lost=1, gained=1)
    assert counts["kind"] == TermCounts(sentences=1, candidate=1, gained=1)


def test_terms_of_a_glossary_count_in_inflected_forms():
    counts = count_glossary_terms(
        Glossary({"folder": "Ordner"}),
        ["Open the folder.", "A Folder", "A file"],
        ["Öffnen Sie den Ordner.", "Des Ordners", "Ordner"],
        ["Öffnen Sie die Mappe.", "Ordnern", "Mappe"],
    )
    assert counts == {("folder", "Ordner"): TermCounts(2, 2, 1, 1, 0)}


def test_a_term_counts_once_in_a_sentence():
    """A sentence that goes wrong loses all uses of its term at once."""
    counts = count_glossary_terms(
        Glossary({"folder": "Ordner"}),
        ["A folder in a folder in a Folder"],
        ["Ein Ordner in einem Ordner in einem Ordner"],
        ["Eine Mappe in einer Mappe in einer Mappe"],
    )
    assert counts == {("folder", "Ordner"): TermCounts(1, 1, 0, 1, 0)}


def changed(before, after, sentences=100):
    return TermCounts(
        sentences, before, after, lost=max(0, before - after), gained=max(0, after - before)
    )


def test_a_lost_term_is_found_among_many_words():
    counts = {f"word{number}": changed(50, 51) for number in range(300)}
    counts |= {"term": changed(40, 2), "less": changed(30, 10)}
    result = find_lost_terms(counts, 0.05)
    assert result.tested == 302
    assert [lost.term for lost in result.lost] == ["term", "less"]


def test_a_small_loss_is_no_lost_term():
    """A better model chooses some other words too; a wrong term takes the place of nearly all."""
    counts = {"often": changed(200, 170), "term": changed(200, 100)}
    assert [lost.term for lost in find_lost_terms(counts, 0.05).lost] == ["term", "often"]
    assert [lost.term for lost in find_lost_terms(counts, 0.05, 0.2).lost] == ["term"]


def test_the_more_words_are_tested_the_more_losses_are_needed():
    term = {"term": changed(8, 0)}
    others = {f"word{number}": changed(50, 50) for number in range(300)}
    assert find_lost_terms(term, 0.05).lost
    assert not find_lost_terms(term | others, 0.05).lost


def test_a_term_that_the_parent_did_not_use_is_not_tested():
    rare = changed(MIN_USES - 1, 0)
    assert find_lost_terms({"rare": rare}, 0.05).tested == 0


def test_changes_by_chance_are_rarely_called_a_loss():
    """Of 200 pairs of equal models, about 5 % lose a word; the limit is for all words together."""
    rng = random.Random(7)
    refused = 0
    for _ in range(200):
        counts = {}
        for word in range(100):
            lost = sum(rng.random() < 0.5 for _ in range(20))
            counts[f"word{word}"] = TermCounts(60, 40, 60 - lost, lost, 20 - lost)
        refused += bool(find_lost_terms(counts, 0.05).lost)
    assert refused <= 20
