"""Damaged sets are not accepted: the fast version of the study in `bench/gate.py`.

A toy model is adapted with the whole of `adapt`. The words of this toy language are long enough to
be tested as terms.
"""

import pytest

from dragoman.errors import DataError
from dragoman.workflow.adaptation import adapt
from support import word_language
from support.word_language import SETTINGS, domain_pairs, general_pairs, write_pairs

# Daft leaves pipes of its workers open.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
WORDS = ("akanu", "betul", "cinor", "dulap", "efoma", "fanek", "girus", "hulda", "imope", "japil")
TESTED, UNTESTED = "akanu", "zumba"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("poison")
    with pytest.MonkeyPatch.context() as patch:
        # The parent knows one word more than the test sets contain.
        patch.setattr(word_language, "COMMON", (*WORDS[:-1], UNTESTED))
        word_language.parent(folder / "parent")
        patch.setattr(word_language, "COMMON", WORDS[:-1])
        write_pairs(folder / "trusted.tsv", domain_pairs(120, 3))
        write_pairs(folder / "general.tsv", general_pairs(400, 4))
    return folder


def good_pairs(monkeypatch, seed):
    monkeypatch.setattr(word_language, "COMMON", (*WORDS[:-1], UNTESTED))
    return domain_pairs(400, seed)


def run(project, name, pairs, **options):
    return adapt(
        project / "parent" / "run",
        [write_pairs(project / f"{name}.tsv", pairs)],
        output=project / name,
        test=[project / "trusted.tsv"],
        general=[project / "general.tsv"],
        minutes=0,
        settings=[*SETTINGS, *options.pop("settings", ())],
        **options,
    )


def failed_rules(result):
    return {rule.name for rule in result.report.gate.failed}


def truncated(pairs):
    return [(source, " ".join(target.split()[:3])) for source, target in pairs]


def with_wrong_word(pairs, word):
    return [(source, target.replace(word.upper(), "BETUL")) for source, target in pairs]


def test_truncated_targets_are_refused(project, monkeypatch):
    """Misaligned ones are a test of `test_adapt.py`."""
    result = run(project, "truncated", truncated(good_pairs(monkeypatch, 2)))
    assert result.record.state == "refused"


def test_a_wrong_term_of_the_test_set_is_refused_although_bleu_rises(project, monkeypatch):
    pairs = with_wrong_word(good_pairs(monkeypatch, 3), TESTED)
    # Otherwise no checkpoint is better than the parent, and the gate sees no wrong term.
    settings = ["training.best_metric=bleu", "adaptation.max_general_loss=10"]
    result = run(project, "wrong", pairs, settings=settings)
    assert failed_rules(result) == {"terms"}
    assert result.report.gate.rule("in_domain_bleu").p_value < 0.05
    assert f"'{TESTED}'" in result.report.gate.rule("terms").explanation


def test_a_wrong_term_of_no_test_sentence_is_caught_by_a_glossary_only(project, monkeypatch):
    pairs = with_wrong_word(good_pairs(monkeypatch, 4), UNTESTED)
    result = run(project, "untested", pairs)
    assert result.record.state == "accepted"
    assert result.report.gate.rule("terms").verdict == "passed"
    glossary = project / "terms.tsv"
    glossary.write_text(f"{UNTESTED}\t{UNTESTED.upper()}\n")
    with pytest.raises(DataError, match=f"'{UNTESTED}' is '{UNTESTED.upper()}' in 0 of"):
        run(project, "with-glossary", pairs, glossary=glossary)


def test_one_sentence_many_times_is_stopped(project, monkeypatch):
    with pytest.raises(DataError, match="1 different pairs"):
        run(project, "repeated", good_pairs(monkeypatch, 5)[:1] * 10_000)


def test_a_set_that_the_filters_drop_is_stopped(project, monkeypatch):
    """Nine of ten targets are nearly empty."""
    pairs = good_pairs(monkeypatch, 6)
    damaged = [(source, ".") for source, _ in pairs[40:]]
    with pytest.raises(DataError, match="length ratio too large: 3") as error:
        run(project, "empty", [*pairs[:40], *damaged], settings=["corpus.filters=[ratio]"])
    (page,) = (project / "empty" / "work").glob("2/*/prepared/report.html")
    assert str(page) in str(error.value)
