"""Span tokens in training pairs can always be taken back, and depend on the pair and seed only."""

import re
from collections import Counter
from operator import ne
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.corpus.augmentation import (
    AugmentationSettings,
    annotate,
    augment,
    insert_spans,
    protect_pair,
)
from dragoman.corpus.filter import Pair
from dragoman.text.glossary import Glossary
from dragoman.text.spans import find_spans
from dragoman.tokenizer.interface import SPAN_TOKENS, TERM_TOKENS, annotated_term


def shares(spans, synthetic, seed, terms=0.0):
    return AugmentationSettings(
        span_share=spans, synthetic_share=synthetic, term_share=terms, seed=seed
    )


ALL = shares(1, 1, 1, 1)


def protect(source, target, seed=1):
    pair = Pair(source, target)
    return protect_pair(pair, Random(seed), find_spans(source), find_spans(target))


def tokens_of(text):
    return sorted(character for character in text if character in SPAN_TOKENS)


def test_spans_are_numbered_in_the_order_of_the_source():
    protected = protect("Save <b>%s</b> in {x}", "In {x} <b>%s</b> speichern")
    assert protected.pair == Pair(
        "Save \ue000\ue001\ue002 in \ue003", "In \ue003 \ue000\ue001\ue002 speichern"
    )


def test_equal_spans_are_matched_in_order():
    protected = protect("%s of %s: {x}", "{x}: %s von %s")
    assert protected.pair == Pair("\ue000 of \ue001: \ue002", "\ue002: \ue000 von \ue001")


@pytest.mark.parametrize(
    ("source", "target"),
    [("%s files", "%d Dateien"), ("%s", "%s %s"), ("{}" * 17, "{}" * 17), ("", "%s")],
)
def test_other_pairs_stay_raw(source, target):
    assert protect(source, target) is None
    assert augment(Pair(source, target), ALL) == Pair(source, target)


def test_all_tokens_are_trained():
    counts = Counter()
    for number in range(2000):
        counts.update(augment(Pair(f"%s is {number}", f"%s ist {number}"), ALL).source)
    assert all(counts[token] for token in SPAN_TOKENS)
    others = sum(counts[token] for token in SPAN_TOKENS[1:])
    assert 0.05 < others / 2000 < 0.15


SPANS = ["%s", "%d", "{0}", "{name}", "<b>", "</b>", "<br/>", "https://x.org/", "\ue000", "\ue005"]
WORDS = ["Tom", "in", "12", "the", "Haus", ",", "é", "漢字", "."]
SIDE = st.lists(st.sampled_from(WORDS), max_size=8)


@st.composite
def pairs_with_equal_spans(draw):
    spans = draw(st.lists(st.sampled_from(SPANS), min_size=1, max_size=18))
    source = draw(st.permutations(spans + draw(SIDE)))
    target = draw(st.permutations(spans + draw(SIDE)))
    return Pair(" ".join(source), " ".join(target))


@given(pairs_with_equal_spans(), st.integers(0, 2**64 - 1))
def test_restoring_gives_the_pair_back(pair, seed):
    protected = protect(*pair, seed)
    if protected is None:
        assert len(find_spans(pair.source)) > len(SPAN_TOKENS)
        return
    assert protected.restore() == pair
    source, target = map(tokens_of, protected.pair)
    assert source == target == sorted(protected.spans)
    assert len(source) == len(find_spans(pair.source))


@given(st.text(), st.text(), st.integers(0, 100))
def test_any_pair_can_be_augmented(source, target, seed):
    pair = Pair(source, target)
    changed = augment(pair, shares(1, 1, seed))
    assert changed == augment(pair, shares(1, 1, seed))
    if changed != pair:
        assert tokens_of(changed.source) == tokens_of(changed.target) != []


@given(SIDE.map(" ".join), SIDE.map(" ".join), st.integers(0, 1000))
def test_synthetic_spans_can_be_removed(source, target, seed):
    protected = insert_spans(Pair(source, target), Random(seed))
    if protected is None:
        assert not source.strip() or not target.strip()
        return
    restored = protected.restore()
    assert [text.strip() for text in restored] == [source.strip(), target.strip()]
    source_tokens, target_tokens = map(tokens_of, protected.pair)
    assert source_tokens == target_tokens == sorted(protected.spans)


def test_synthetic_spans_are_at_words_or_around_the_text():
    pair = Pair("Tom has 12 cats.", "Tom hat 12 Katzen.")
    seen = {insert_spans(pair, Random(seed)).pair.source for seed in range(300)}
    stars = str.maketrans(dict.fromkeys(SPAN_TOKENS, "*"))
    anonymous = {text.translate(stars) for text in seen}
    assert anonymous == {
        "* has 12 cats.",
        "Tom has * cats.",
        "*Tom* has 12 cats.",
        "Tom has *12* cats.",
        "*Tom has 12 cats.*",
        "* Tom has 12 cats.",
        "Tom has 12 cats. *",
        "Tom has 12 cats.*",
    }


def test_the_shares_are_kept():
    settings = shares(0.5, 0.05, 3)
    with_spans = [Pair(f"%s {number}", f"{number} %s") for number in range(4000)]
    without = [Pair(f"cat {number}", f"Katze {number}") for number in range(4000)]
    assert sum(augment(pair, settings) != pair for pair in with_spans) / 4000 == pytest.approx(
        0.5, abs=0.03
    )
    assert sum(augment(pair, settings) != pair for pair in without) / 4000 == pytest.approx(
        0.05, abs=0.015
    )
    nothing = shares(0, 0, 3)
    assert all(augment(pair, nothing) == pair for pair in with_spans + without)
    other = shares(0.5, 0.05, 4)
    assert [augment(pair, settings) for pair in with_spans] != [
        augment(pair, other) for pair in with_spans
    ]


# Terms.

GLOSSARY = Glossary({"folder": "Ordner", "home folder": "Persönlicher Ordner", "cat": "Katze"})
FOLDER = annotated_term("folder", "Ordner")


@pytest.mark.parametrize(
    ("source", "target", "annotated"),
    [
        ("Open the folder.", "Öffnen Sie den Ordner.", f"Open the {FOLDER}."),
        ("Two folder icons", "Zwei Symbole von Ordnern", f"Two {FOLDER} icons"),
        ("Open the folder.", "Öffnen Sie das Verzeichnis.", "Open the folder."),
        ("A cat in a folder", "Etwas im Ordner", f"A cat in a {FOLDER}"),
        ("%s: folder /a/folder", "%s: Ordner /a/folder", f"%s: {FOLDER} /a/folder"),
        ("No term", "Kein Wort", "No term"),
    ],
)
def test_terms_with_their_translation_are_annotated(source, target, annotated):
    pair = Pair(source, target)
    assert annotate(pair, GLOSSARY, ALL) == Pair(annotated, target)
    assert annotate(pair, GLOSSARY, shares(1, 1, 1, terms=0)) == pair


@given(
    st.lists(st.sampled_from(["folder", "home", "Cat", "%s", "</b>", "a", ",", "/"])),
    st.lists(st.sampled_from(["Ordnern", "Persönlichen", "Katzen", "%s", "</b>", "a"])),
    st.integers(0, 99),
)
def test_removing_annotations_gives_the_pair_back(source, target, seed):
    pair = augment(Pair(" ".join(source), " ".join(target)), shares(1, 1, seed))
    annotated = annotate(pair, GLOSSARY, shares(0, 0, seed, terms=0.7))
    start, separator, end = TERM_TOKENS
    plain = re.sub(f"{start}([^{separator}]*){separator}[^{end}]*{end}", r"\1", annotated.source)
    assert Pair(plain, annotated.target) == pair
    counts = {annotated.source.count(token) for token in TERM_TOKENS}
    assert len(counts) == 1
    assert tokens_of(annotated.source) == tokens_of(pair.source)


def test_the_share_of_annotated_pairs_is_kept():
    pairs = [Pair(f"folder {number}", f"{number} Ordner") for number in range(4000)]
    settings = shares(0, 0, 3, terms=0.25)
    annotated = [annotate(pair, GLOSSARY, settings) for pair in pairs]
    share = sum(map(ne, pairs, annotated)) / len(pairs)
    assert share == pytest.approx(0.25, abs=0.03)
