"""The sample of `dragoman init` shows the pairs that `prepare` drops, by reason."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from dragoman.corpus.opening import CorpusRequest
from dragoman.corpus.problems import DUPLICATE, SAMPLE, CorpusSample
from dragoman.corpus.row import Reject, Row
from dragoman.recipe.corpus import DEFAULT_FILTERS
from dragoman.text.languages import LanguagePair
from dragoman.workflow.initialization import init
from dragoman.workflow.preparation import prepare

PAIR = LanguagePair("en", "de")


def sample_of(rows, *, aligned=False):
    sample = CorpusSample(is_aligned_by_line=aligned)
    for row in rows:
        sample.add(row)
    return sample


def good(number):
    return Row(
        number,
        f"The house number {number} stands in this street.",
        f"Das Haus mit der Nummer {number} steht in dieser Straße.",
    )


def test_each_reason_has_its_count_and_first_example():
    rows = [good(number) for number in range(1, 31)]
    rows[4] = Row(5, "", "Etwas steht hier.")
    rows[7] = Row(8, "", "Noch etwas steht hier.")
    rows[9] = Row(10, rows[9].source, rows[9].source)
    rows[20] = rows[19]._replace(number=21)
    problems = sample_of([*rows, Reject(31, "not UTF-8")]).problems(PAIR, DEFAULT_FILTERS)
    assert problems.examined == 30
    assert [(one.reason, one.count, one.example.number) for one in problems.by_reason] == [
        ("empty", 2, 5),
        (DUPLICATE, 1, 21),
        ("target is a copy", 1, 10),
    ]
    assert problems.shift is None


def test_a_good_corpus_has_no_problems():
    problems = sample_of(map(good, range(1, 50)), aligned=True).problems(PAIR, DEFAULT_FILTERS)
    assert problems.by_reason == ()
    assert problems.shift is None


def test_every_part_of_a_large_corpus_is_sampled_and_the_sample_is_the_same_again():
    total = 10 * SAMPLE
    rows = [Row(number, "a", "b") for number in range(1, total + 1)]
    first, second = sample_of(rows), sample_of(rows)
    assert first.rows == second.rows
    assert len(set(first.rows)) == SAMPLE
    tenths = Counter((row.number - 1) // SAMPLE for row in first.rows)
    assert set(tenths) == set(range(10))
    # A tenth has 1,000 rows on average, with a standard deviation of about 30.
    assert all(850 < count < 1150 for count in tenths.values())


def test_shifted_files_are_noticed():
    texts = [good(number) for number in range(1, 600)]
    shifted = [Row(one.number, one.source, other.target) for one, other in pairwise(texts)]
    rows = [*texts[:100], *shifted[100:]]
    shift = sample_of(rows, aligned=True).problems(PAIR, ()).shift
    assert shift is not None
    assert shift.shift == -1
    assert "1 line further up" in str(shift)


# Daft does not close a pipe of its own.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_counts_are_those_of_a_preparation(tmp_path):
    """For a corpus that is not larger than the sample, and before duplicates are counted."""
    rows = [good(number) for number in range(1, 401)]
    rows[3] = Row(4, " ", "Hier steht etwas.")
    rows[5] = Row(6, rows[5].source, "Wort " * 400)
    rows[9] = Row(10, rows[9].source, rows[9].source)
    rows[11] = Row(12, "Cette phrase est en français, elle n'est pas anglaise.", rows[11].target)
    for side in ("source", "target"):
        text = "".join(f"{getattr(row, side)}\n" for row in rows)
        (tmp_path / f"text.{side}").write_text(text, encoding="utf-8")
    files = (tmp_path / "text.source", tmp_path / "text.target")
    result = init(tmp_path / "project", CorpusRequest(files=files, languages=PAIR))
    problems = {one.reason: one.count for one in result.preview.problems.by_reason}
    settings = ["tokenizer.vocabulary_size=400", "corpus.held_out=20", "corpus.duplicates=keep"]
    report = prepare(result.recipe, settings, workers=1).report
    (corpus,) = report.corpora
    assert len(problems) == 4
    assert problems == corpus.dropped
