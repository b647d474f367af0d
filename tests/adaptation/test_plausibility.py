"""Damaged data is stopped before the training, and the error says why."""

from pathlib import Path

import pytest

from dragoman.adaptation.plausibility import MIN_PAIRS, check_glossary, check_pairs
from dragoman.corpus.filter import Pair
from dragoman.corpus.report.model import CorpusReport
from dragoman.errors import DataError
from dragoman.text.glossary import Glossary

PAGE = Path("work") / "report.html"
GLOSSARY = Glossary({"folder": "Ordner"})


def corpus(kept, **dropped):
    reasons = {reason.replace("_", " "): count for reason, count in dropped.items()}
    return CorpusReport(
        name="memory.tmx",
        split="train",
        rows=kept + sum(dropped.values()),
        kept=kept,
        dropped=reasons,
        examples={},
        rejected_rows={},
        dropped_languages={},
        shift=None,
    )


def test_clean_data_passes():
    check_pairs([corpus(MIN_PAIRS)], 0.5, PAGE)
    check_pairs([corpus(500, wrong_target_language=480)], 0.5, PAGE)


def test_data_that_the_filters_mostly_drop_is_stopped():
    damaged = corpus(100, wrong_target_language=900, too_long=20)
    with pytest.raises(DataError, match=r"920 of 1,020 .*wrong target language: 900") as error:
        check_pairs([damaged], 0.5, PAGE)
    assert str(PAGE) in str(error.value)
    assert "adaptation.max_dropped=1" in str(error.value)
    check_pairs([damaged], 1, PAGE)


def test_all_files_count_together():
    check_pairs([corpus(100, wrong_target_language=900), corpus(1000)], 0.5, PAGE)


def test_repeated_and_tested_pairs_are_not_damaged():
    check_pairs([corpus(30, exact_duplicate=900, near_duplicate=50, in_a_test_set=99)], 0.0, PAGE)


def test_one_pair_many_times_is_stopped():
    with pytest.raises(DataError, match=r"1 different pairs .*exact duplicate: 9,999"):
        check_pairs([corpus(1, exact_duplicate=9_999)], 0.5, PAGE)


def pairs(right, wrong):
    return [Pair("The folder", "Des Ordners")] * right + [Pair("A folder", "Mappe")] * wrong


def test_data_that_contradicts_the_glossary_is_stopped():
    with pytest.raises(DataError, match="'folder' is 'Ordner' in 1 of 10 pairs"):
        check_glossary(pairs(1, 9), GLOSSARY)


@pytest.mark.parametrize(("right", "wrong"), [(2, 8), (0, 4), (0, 0)])
def test_few_uses_and_some_other_translations_are_no_contradiction(right, wrong):
    check_glossary(pairs(right, wrong), GLOSSARY)
