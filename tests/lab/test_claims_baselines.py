"""Criteria of the claims about translation models, and the training runs behind them."""

import gzip
import json
import math
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dragoman.corpus import demo
from dragoman.errors import DataError, DivergedError
from dragoman.lab import baselines, tatoeba, translation_runs
from dragoman.lab.baselines import (
    CONVOLUTIONAL,
    LARGE_CONVOLUTIONAL,
    LARGE_RECURRENT,
    LARGE_TRANSFORMER,
    NO_ATTENTION,
    RECURRENT,
    TRANSFORMER,
    Budget,
)
from dragoman.lab.claims import (
    c01_bottleneck,
    c02_recency,
    c16_baseline_table,
    c17_data_size,
    c18_subword_vocabulary,
    c31_head_count,
)
from dragoman.lab.experiment import load_experiment
from dragoman.lab.gallery import draw
from dragoman.model.cost import measure
from dragoman.recipe.files import load_recipe
from support.judgments import judged

SUPPORTED, PARTLY, NOT = "supported", "partly supported", "not supported"


# C1


def copied(without_attention, with_attention, shortest=0.95):
    return {
        "lengths": [4, 16, 32],
        "copying": {
            NO_ATTENTION: [[shortest, 0.9, end] for end in without_attention],
            RECURRENT: [[1.0, 1.0, end] for end in with_attention],
            TRANSFORMER: [[1.0, 1.0, 1.0]],
        },
    }


def translated(short, long, spread=0.5, late_gain=0.5):
    """BLEU without attention on short and on long sentences; with attention it is 30."""

    def seeds(score):
        return [max(0.0, score + shift) for shift in (-spread, 0.0, spread)]

    bins = [
        {"words": words, NO_ATTENTION: seeds(score), RECURRENT: [30.0] * 3, TRANSFORMER: [32.0] * 3}
        for words, score in ((8, short), (18, long))
    ]
    # The seed that is best on short sentences is worst on long ones.
    bins[1][NO_ATTENTION].reverse()
    models = {
        name: {"seeds": [{"bleu": bleu, "curve": [(300, bleu - gain), (400, bleu)]}] * 3}
        for name, bleu, gain in (
            (NO_ATTENTION, 15.0, late_gain),
            (RECURRENT, 20.0, 0.4),
            (TRANSFORMER, 20.0, 0.3),
        )
    }
    return {"translating": bins, "models": models}


FALLS, STAYS = copied([0.5, 0.52, 0.48], [0.97]), copied([0.9], [0.99])
INCONCLUSIVE = "inconclusive"


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (FALLS, SUPPORTED),
        (STAYS, NOT),
        (copied([0.5], [0.6]), NOT),  # Attention helps too little.
        (copied([0.0, 0.95, 0.95], [1.0]), NOT),  # One seed of three is not enough.
        (copied([0.2, 0.2, 0.2], [1.0], shortest=0.6), NOT),  # Short ones are not learned either.
        (FALLS | translated(28.0, 15.0), SUPPORTED),
        (FALLS | translated(28.0, 15.0, spread=6.0), PARTLY),  # The seeds differ too much.
        (FALLS | translated(28.0, 27.5), PARTLY),
        (FALLS | translated(18.0, 18.0), PARTLY),  # Equally bad on short sentences.
        (FALLS | translated(12.0, 6.0), INCONCLUSIVE),  # Too bad on short ones to decide.
        (FALLS | translated(0.0, 0.0), INCONCLUSIVE),
        (STAYS | translated(9.0, 3.0), INCONCLUSIVE),
        (FALLS | translated(28.0, 15.0, late_gain=1.5), INCONCLUSIVE),  # It was catching up.
        (STAYS | translated(28.0, 15.0), PARTLY),
        (STAYS | translated(28.0, 31.0), NOT),
    ],
)
def test_bottleneck_criterion(numbers, expected):
    assert judged("C1", numbers) == expected


# C2


def remembered(first, middle, last, ratios, transformer=0.0):
    row = [first] * 3 + [middle] * 6 + [last] * 3
    flat = [0.9 - transformer] * 3 + [0.9] * 9
    rows = {NO_ATTENTION: [row, row], TRANSFORMER: [flat, flat]}
    return {
        "orders": {
            name: {"forwards": shares, "backwards": shares} for name, shares in rows.items()
        },
        "before": [[0.5] * 9 + [2.0] * 3],
        "after": [[1.0] * 9 + [ratio] * 3 for ratio in ratios],
    }


SURE, UNSURE, NONE = (1.5, 1.5), (0.5, 2.5), (1.0, 1.0)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (remembered(0.6, 0.7, 0.8, SURE), SUPPORTED),
        (remembered(0.6, 0.7, 0.8, UNSURE), PARTLY),
        (remembered(0.6, 0.7, 0.8, NONE), PARTLY),
        (remembered(0.7, 0.7, 0.8, SURE), PARTLY),  # Only the last ones stand out.
        (remembered(0.8, 0.7, 0.6, SURE), PARTLY),
        (remembered(0.8, 0.8, 0.8, NONE), NOT),
        (remembered(0.7, 0.6, 0.8, NONE, transformer=0.15), NOT),  # The Transformer drops as much.
    ],
)
def test_recency_criterion(numbers, expected):
    assert judged("C2", numbers) == expected


def test_replacing_any_symbol_moves_the_state():
    """Before training, the movement is larger for later symbols."""
    task = c02_recency.copy_task(10, c02_recency._LENGTH, c02_recency._LENGTH)
    model = c02_recency.build(task, 1, **c02_recency._MODELS[NO_ATTENTION])
    movements = c02_recency._state_movements(model, task, 1)
    assert len(movements) == c02_recency._LENGTH
    assert 0 < movements[0] < movements[-1]


# C16


def seeds_of(bleu, cost=1.0, spread=0.2, chrf=None, early=None):
    """Three seeds of a network; `early` is its validation BLEU after three quarters."""
    return [
        {
            "bleu": bleu + shift,
            "chrf": (chrf or 20 + bleu) + shift,
            "flops": cost,
            "minutes": 1.0,
            "parameters": 400_000,
            "curve": [(100, bleu / 2), (300, early or bleu - 0.5), (400, bleu)],
        }
        for shift in (-spread, 0.0, spread)
    ]


def table(
    recurrent=30.0,
    convolutional=30.0,
    large=36.0,
    large_recurrent=34.0,
    spread=0.2,
    flops=1.0,
    **changes,
):
    rows = {
        TRANSFORMER: seeds_of(33.0, flops, spread),
        RECURRENT: seeds_of(recurrent, 1.0, spread, **changes),
        CONVOLUTIONAL: seeds_of(convolutional, 1.0, spread),
        LARGE_TRANSFORMER: seeds_of(large, 3.0, spread),
        LARGE_RECURRENT: seeds_of(large_recurrent, 3.0, spread),
        LARGE_CONVOLUTIONAL: seeds_of(30.0, 3.0, spread),
    }
    # Seeds are paired: without this, equal spreads would cancel.
    rows[TRANSFORMER].reverse()
    rows[LARGE_RECURRENT].reverse()
    rows[LARGE_CONVOLUTIONAL].reverse()
    return {name: {"rates": [(1.0, 30.0)], "seeds": seeds} for name, seeds in rows.items()}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (table(), SUPPORTED),
        (table(flops=1.04), SUPPORTED),
        (table(flops=1.2), PARTLY),  # Only the larger one wins.
        (table(large=33.0), PARTLY),
        (table(recurrent=35.0), PARTLY),
        (table(large_recurrent=37.0), PARTLY),
        (table(chrf=60.0), PARTLY),  # By BLEU the RNN is worse, by chrF it is better.
        (table(spread=3.0), NOT),
        (table(recurrent=35.0, convolutional=35.0, large=20.0), NOT),
        (table(early=20.0), INCONCLUSIVE),  # The RNN was catching up.
        (table(recurrent=35.0, early=20.0), PARTLY),  # It was ahead, and gained more.
    ],
)
def test_baseline_table_criterion(numbers, expected):
    assert judged("C16", numbers) == expected


def test_the_summary_of_c16_says_if_only_the_larger_transformer_won():
    experiment = load_experiment("C16")
    beaten = table(recurrent=35.0, convolutional=35.0, large=39.0, large_recurrent=40.0)
    beaten[LARGE_CONVOLUTIONAL] = {"rates": [], "seeds": seeds_of(40.0, 3.0)}
    judgment = experiment.judge(beaten)
    assert judged("C16", beaten) == PARTLY
    assert judgment.summary == c16_baseline_table._ONLY_SIZE
    assert experiment.judge(table(large=33.0)).summary != judgment.summary


# C17


def grown(recurrent, convolutional, spread=0.2, **changes):
    def rows(scores, **changes):
        return [seeds_of(scores[0], spread=spread), seeds_of(scores[1], spread=spread, **changes)]

    models = {
        TRANSFORMER: rows([5.0, 30.0]),
        RECURRENT: rows(recurrent, **changes),
        CONVOLUTIONAL: rows(convolutional),
    }
    # Seeds are paired: without this, equal spreads would cancel.
    models[TRANSFORMER][0].reverse()
    return {"pairs": [1000, 16000], "models": models}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (grown([8.0, 25.0], [4.0, 25.0]), SUPPORTED),
        # The Transformer was ahead on the smallest text.
        (grown([4.0, 25.0], [4.0, 25.0]), PARTLY),
        (grown([5.1, 25.0], [4.0, 25.0]), PARTLY),  # The RNN was ahead, but not clearly.
        (grown([8.0, 25.0], [4.0, 30.0]), PARTLY),
        (grown([8.0, 33.5], [4.0, 30.0]), NOT),
        (grown([8.0, 25.0], [4.0, 25.0], spread=5.0), NOT),
        (grown([8.0, 25.0], [4.0, 25.0], early=20.0), INCONCLUSIVE),  # It was catching up.
        (grown([8.0, 25.0], [26.0, 25.0]), INCONCLUSIVE),  # With more text the CNN got worse.
    ],
)
def test_data_size_criterion(numbers, expected):
    assert judged("C17", numbers) == expected


def test_the_texts_of_the_sizes_are_parts_of_each_other(monkeypatch, tmp_path):
    write_tatoeba(tmp_path, 3_000)
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    monkeypatch.setattr(c17_data_size, "_UPDATES", {100: 10, 900: 40})
    shared = c17_data_size._full()
    small, large = (one.text(1) for one in shared.values())
    assert small.train == large.train[:100]
    assert [one.budget.updates for one in shared.values()] == [10, 40]
    assert [one.trial_updates for one in shared.values()] == [2, 10]


# Tatoeba


def write_tatoeba(data, sentences):
    """A file as Tatoeba's: each sentence twice, and every tenth translation belongs to two."""
    folder = data / "tatoeba"
    folder.mkdir(parents=True)
    lines = [
        line
        for number in range(sentences)
        for line in (
            f"sentence {number}\tSatz {number - (number % 10 == 1)}\tby X\n",
            f"sentence {number}\tanderer Satz {number}\tby Y\n",
        )
    ]
    (folder / "deu.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))


def test_no_held_out_sentence_of_tatoeba_is_in_the_training_text(monkeypatch, tmp_path):
    write_tatoeba(tmp_path, 3_000)
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    text = tatoeba.tatoeba()
    assert (len(text.validation), len(text.test)) == (500, 1_500)
    sources, targets = zip(*text.train, strict=True)
    for source, target in (*text.validation, *text.test):
        assert source not in sources
        assert target not in targets
    assert len({source for source, _ in (*text.validation, *text.test)}) == 2_000
    assert text == tatoeba.tatoeba()


def test_joined_lines_have_the_same_sentences_at_every_length(monkeypatch, tmp_path):
    write_tatoeba(tmp_path, 3_000)
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    monkeypatch.setattr(tatoeba, "FREQUENT_WORDS", (9_000, 9_000))
    text = tatoeba.joined_tatoeba()
    rows = tatoeba.joined_test_rows()
    assert list(rows) == [1, 2, 3, 4]
    assert rows[4].stop == len(text.test)
    for side in (0, 1):
        contents = {" ".join(text.test[row][side] for row in some) for some in rows.values()}
        assert len(contents) == 1
    counts = Counter(source.count("sentence") for source, _ in text.train)
    assert set(counts) == {1, 2, 3, 4}
    assert sum(lines * count for count, lines in counts.items()) > 4_000
    sentences = [lines * count for count, lines in counts.items()]
    assert max(sentences) < 1.3 * min(sentences)


def test_joined_sentences_have_frequent_words_only(monkeypatch, tmp_path):
    write_tatoeba(tmp_path, 3_000)
    with gzip.open(tmp_path / "tatoeba" / "deu.txt.gz", "at") as stream:
        stream.write("Rare sentence 7\tSatz 7\tby Z\nSentence 8\tseltener Satz 8\tby Z\n")
        stream.writelines(f"Sentence!\tSatz!\tby {number}\n" for number in range(1_000))
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    monkeypatch.setattr(tatoeba, "FREQUENT_WORDS", (2, 3))
    pairs = list(tatoeba._read_pairs())
    assert set(tatoeba._select_simple(pairs)) == {("Sentence!", "Satz!")}


def test_a_missing_tatoeba_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"DRAGOMAN_DATA.*tatoeba/deu\.txt\.gz"):
        tatoeba.tatoeba()


# C18


def tokenized(unknown=0.0, tokens=15.0, bleu=30.0, chrf=55.0, bleu_p=0.001, chrf_p=0.001):
    def row(share, length, bleu, chrf):
        counts = {"unknown": share, "pairs_with_unknown": share, "tokens": length}
        p_values = {"bleu_p_value": bleu_p, "chrf_p_value": chrf_p}
        rare = {"rare_words": 10, "rare_recall": 0.1}
        return counts | p_values | rare | {"bleu": bleu, "chrf": chrf}

    return {
        "words": row(0.05, 12.0, 25.0, 50.0),
        "sentencepiece": row(unknown, tokens, bleu, chrf),
        "characters": row(0.0, 60.0, 20.0, 40.0),
    }


@pytest.mark.parametrize(
    ("numbers", "expected", "summary"),
    [
        (tokenized(), SUPPORTED, "are better"),
        (tokenized(bleu=22.0), PARTLY, "depends on how quality is measured"),
        (tokenized(chrf=45.0), PARTLY, "depends on how quality is measured"),
        (tokenized(bleu_p=0.2), PARTLY, "depends on how quality is measured"),
        (tokenized(bleu=22.0, chrf=45.0), PARTLY, "not clearly better"),
        (tokenized(bleu_p=0.2, chrf_p=0.2), PARTLY, "not clearly better"),
        (tokenized(unknown=0.01), NOT, "did not both"),
        (tokenized(tokens=50.0), NOT, "did not both"),
    ],
)
def test_subword_vocabulary_criterion(numbers, expected, summary):
    assert judged("C18", numbers) == expected
    assert summary in load_experiment("C18").judge(numbers).summary


def test_rare_words_are_recalled():
    """A word counts as often as the reference has it; a frequent word does not count."""
    train = (("a", "haus haus haus haus haus haus"), ("a", "hund"))
    test = (("a", "haus hund hund katze"), ("a", "katze"))
    text = translation_runs.ParallelText("small", train, (), test)
    recall = c18_subword_vocabulary._recall_rare_words
    assert recall(text, ["hund katze hund haus", "katze"]) == {"rare_words": 4, "rare_recall": 1.0}
    assert recall(text, ["hund hund hund", "haus"]) == {"rare_words": 4, "rare_recall": 0.5}
    assert recall(text, ["haus", ""])["rare_recall"] == 0


def test_unknown_words_are_counted():
    """A word counts once, no matter how many of its parts are unknown."""
    text = translation_runs.ParallelText(
        "small", (), (), (("one two", "drei zwei"), ("one", "zwölf"))
    )
    vocabulary = ["one", "zwei", "drei"]
    words = c18_subword_vocabulary._count_tokens(text, *[_tokenizer("words", vocabulary)] * 2)
    assert words["unknown"] == pytest.approx(2 / 6)
    assert words["pairs_with_unknown"] == 1
    assert words["tokens"] == pytest.approx(6 / 4)
    characters = c18_subword_vocabulary._count_tokens(
        text, *[_tokenizer("characters", vocabulary)] * 2
    )
    assert characters["unknown"] == pytest.approx(2 / 6)  # t of two, ö and l and f of zwölf
    assert characters["tokens"] == pytest.approx((7 + 9 + 3 + 5) / 4)


def _tokenizer(kind, texts):
    from dragoman.tokenizer.folder import tokenizer_class

    return tokenizer_class(kind).train(texts, 100, [])


# C31


def divided(some, eight, spread=0.2, one_early=None, some_chrf=None, **changes):
    """One head has 30 BLEU and 50 chrF; `changes` are those of eight heads."""
    rows = {
        "1": seeds_of(30.0, spread=spread, early=one_early),
        "4": seeds_of(some, spread=spread, chrf=some_chrf),
        "8": seeds_of(eight, spread=spread, **changes),
    }
    rows["1"].reverse()  # Seeds are paired: without this, equal spreads would cancel.
    return {heads: {"rates": [(0.5, 30.0)], "seeds": seeds} for heads, seeds in rows.items()}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (divided(32.0, 33.0), SUPPORTED),
        (divided(30.0, 33.0), SUPPORTED),  # Four are not judged if eight are better.
        (divided(30.0, 33.0, chrf=48.0), PARTLY),  # Better by BLEU only.
        (divided(30.0, 30.0, chrf=55.0), PARTLY),  # Better by chrF only.
        (divided(33.0, 30.0), PARTLY),
        (divided(33.0, 30.0, some_chrf=48.0), NOT),  # Four are judged by both scores.
        (divided(30.5, 30.5, spread=0.5), NOT),
        (divided(33.0, 33.0, spread=3.0), NOT),
        (divided(28.0, 27.0), NOT),
        (divided(30.0, 29.0, early=25.0), INCONCLUSIVE),  # Eight heads were catching up.
        (divided(33.0, 29.0, early=25.0), INCONCLUSIVE),
        (divided(30.0, 29.0, early=27.5), NOT),  # They gained 1.0 more: not enough.
        (divided(33.0, 30.0, one_early=20.0), INCONCLUSIVE),  # One head was, with four.
        (divided(30.0, 33.0, early=25.0), SUPPORTED),  # They were ahead, and gained more.
    ],
)
def test_head_count_criterion(numbers, expected):
    assert judged("C31", numbers) == expected


def test_each_number_of_heads_has_its_own_rate(monkeypatch, tmp_path):
    """The rate is chosen with the first seed; the figure is drawn from what is measured."""
    trained = []

    def fake(text, settings, seed):
        values = dict(one.split("=") for one in settings)
        rate, heads = float(values["training.learning_rate"]), int(values["model.heads"])
        trained.append((heads, rate, seed))
        (numbers,) = seeds_of(30.0 - 1000 * abs(rate - 0.008 * min(2, heads)), spread=0.0)[:1]
        return SimpleNamespace(validation_bleu=numbers["bleu"], numbers=lambda: numbers)

    monkeypatch.setattr(baselines, "train_translator", fake)
    shared = baselines.Comparison(lambda _: None, MINIMAL, seeds=2, trial_updates=2)
    monkeypatch.setattr(c31_head_count, "_comparison", lambda _: shared)
    experiment = load_experiment("C31")
    numbers = experiment.measure("full", 7)
    assert [one for one in trained if one[2] == 7001] == [
        (1, 0.008, 7001),
        (4, 0.016, 7001),
        (8, 0.016, 7001),
    ]
    explanation = experiment.judge(numbers).explanation
    assert re.findall("learning rate (.*?),", explanation) == ["0.008", "0.016", "0.016"]
    draw(experiment, numbers, tmp_path / "c31.svg")


def test_the_number_of_heads_changes_neither_size_nor_cost():
    budget = c31_head_count._comparison("full").budget
    costs = [
        measure(
            load_recipe("tiny", [*budget.settings(TRANSFORMER), f"model.heads={heads}"]), 16, 16
        )
        for heads in c31_head_count._HEADS
    ]
    assert len({(cost.parameters, cost.flops) for cost in costs}) == 1


def test_the_short_trainings_of_c16_are_those_of_c31():
    """With four heads, so that `lab run` trains them once."""
    c16 = baselines.comparison("full")
    trial = replace(c16.budget, updates=c16.trial_updates)
    shared = c31_head_count._comparison("full")
    assert shared.budget.settings(TRANSFORMER, 0.5) == trial.settings(TRANSFORMER, 0.5)
    recipes = [
        load_recipe("tiny", [*shared.budget.settings(TRANSFORMER), *changes])
        for changes in ((), ("model.heads=4",))
    ]
    assert recipes[0] == recipes[1]


# Baselines


SMALL = (TRANSFORMER, RECURRENT, CONVOLUTIONAL)
LARGE = (LARGE_TRANSFORMER, LARGE_RECURRENT, LARGE_CONVOLUTIONAL)


@pytest.mark.slow
@pytest.mark.parametrize(("vocabulary", "names"), [(2000, SMALL), (4000, SMALL), (4000, LARGE)])
def test_baselines_have_equal_sizes_and_costs(vocabulary, names):
    """With the vocabularies that the claims use."""
    budget = Budget(updates=10, tokens=100, vocabulary=vocabulary, dropout=0.0)
    transformer, *others = (
        measure(load_recipe("tiny", budget.settings(name)), 16, 16) for name in names
    )
    assert transformer.parameters == pytest.approx(2.4e6 if names is LARGE else 0.4e6, rel=0.3)
    for name, other in zip(names[1:], others, strict=True):
        assert other.parameters == pytest.approx(transformer.parameters, rel=0.1), name
        assert transformer.flops <= c16_baseline_table._MAX_COST * other.flops, name


def test_the_quick_comparison_needs_no_files_and_the_full_one_names_them(monkeypatch, tmp_path):
    assert len(baselines.comparison("quick").text(1).test) == 200
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"DRAGOMAN_DATA.*multi30k/tok"):
        baselines.comparison("full").text(1)


def test_a_study_searches_the_rate_and_trains_all_seeds(monkeypatch):
    """The rate is chosen with the first seed, by BLEU on the validation text."""
    trained = []

    def fake(text, settings, seed):
        values = dict(one.split("=") for one in settings)
        rate, updates = float(values["training.learning_rate"]), int(values["training.steps"])
        trained.append((rate, updates, seed))
        return SimpleNamespace(validation_bleu=30 - 1000 * abs(rate - 0.008), bleu=rate + seed)

    monkeypatch.setattr(baselines, "train_translator", fake)
    shared = baselines.Comparison(lambda _: None, MINIMAL, seeds=3, trial_updates=1)
    studied = baselines.study(shared, TRANSFORMER, 7)
    first, second, third = 7000, 7001, 7002
    assert trained == [
        *((0.016, 1, first), (0.008, 1, first), (0.004, 1, first)),
        *((0.008, 2, first), (0.008, 2, second), (0.008, 2, third)),
    ]
    assert [rate for rate, _ in studied.rates] == [0.25, 0.5, 1.0]
    assert [result.bleu for result in studied.results] == [
        0.008 + first,
        0.008 + second,
        0.008 + third,
    ]


@pytest.mark.parametrize(
    ("best_in_short", "tried_in_full"),
    [(0.0072, [0.5]), (0.0063, [0.5, 0.25]), (0.0111, [0.5])],
)
def test_full_trainings_decide_between_two_close_rates_of_c16(
    monkeypatch, best_in_short, tried_in_full
):
    """Rates 0.008 and 0.004 differ by more than 1 BLEU, less, and more after short trainings."""
    trained = []

    def fake(text, settings, seed):
        values = dict(one.split("=") for one in settings)
        rate, updates = float(values["training.learning_rate"]), int(values["training.steps"])
        trained.append((rate / 0.016, updates, seed))
        score = 30 - 1000 * abs(rate - (best_in_short if updates == 1 else 0.004))
        return SimpleNamespace(validation_bleu=score, numbers=lambda: {"bleu": score + seed})

    monkeypatch.setattr(baselines, "train_translator", fake)
    monkeypatch.setattr(c16_baseline_table, "train_translator", fake)
    shared = baselines.Comparison(lambda _: None, MINIMAL, seeds=3, trial_updates=1)
    numbers = c16_baseline_table.train_network(shared, TRANSFORMER, 7)
    best = tried_in_full[-1]
    assert [one for one in trained if one[1] == 2] == [
        *((factor, 2, 7000) for factor in tried_in_full),
        *((best, 2, 7001), (best, 2, 7002)),
    ]
    assert [factor for factor, _ in numbers["full_rates"]] == tried_in_full
    score = dict(numbers["full_rates"])[best]
    assert numbers["seeds"] == [{"bleu": score + seed} for seed in (7000, 7001, 7002)]
    assert len(numbers["rates"]) == 3


def test_a_rate_that_diverges_loses(monkeypatch):
    """In C16: 0.016 diverges in the short training, 0.008 in the full one; 0.004 remains."""

    def fake(text, settings, seed):
        values = dict(one.split("=") for one in settings)
        rate, updates = float(values["training.learning_rate"]), int(values["training.steps"])
        if rate > (0.008 if updates == 1 else 0.004):
            raise DivergedError("the loss is not finite")
        score = 20 + 100 * rate
        return SimpleNamespace(validation_bleu=score, numbers=lambda: {"bleu": score})

    monkeypatch.setattr(baselines, "train_translator", fake)
    monkeypatch.setattr(c16_baseline_table, "train_translator", fake)
    shared = baselines.Comparison(lambda _: None, MINIMAL, seeds=3, trial_updates=1)
    numbers = c16_baseline_table.train_network(shared, TRANSFORMER, 7)
    assert numbers["rates"] == [(0.25, 20.4), (0.5, 20.8), (1.0, 0.0)]
    assert numbers["full_rates"] == [(0.5, 0.0), (0.25, 20.4)]
    assert numbers["seeds"] == [{"bleu": 20.4}] * 3


def test_a_network_that_diverges_at_every_rate_is_an_error(monkeypatch):
    def fake(text, settings, seed):
        raise DivergedError("the loss is not finite")

    monkeypatch.setattr(c16_baseline_table, "train_translator", fake)
    shared = baselines.Comparison(lambda _: None, MINIMAL, seeds=3)
    with pytest.raises(DivergedError):
        c16_baseline_table.train_network(shared, TRANSFORMER, 7)


@pytest.mark.parametrize("best", [0.125, 0.5, 1.0, 4.0])
def test_the_best_rate_has_a_worse_one_on_both_sides(best):
    tried = baselines.search_rate(lambda factor: -abs(math.log2(factor / best)))
    assert max(tried, key=tried.get) == best
    assert {best / 2, best * 2} <= set(tried)


def test_only_one_process_trains_a_run(tmp_path):
    run = tmp_path / "run-1"
    with (
        translation_runs._lock(run),
        pytest.raises(DataError, match=r"is training .*run-1.*DRAGOMAN_LAB"),
        translation_runs._lock(run),
    ):
        pass
    with translation_runs._lock(run):
        pass


def test_a_smaller_text_is_a_prefix_of_a_larger_one():
    text = translation_runs.demo_text(50, 10, 1)
    assert text.first_pairs(20).train == text.train[:20]
    assert text.first_pairs(20).test == text.test
    assert text.first_pairs(20).folder != text.folder
    with pytest.raises(DataError, match="50"):
        text.first_pairs(51)


# End to end, with a minimal budget


@pytest.fixture
def captions(tmp_path, monkeypatch):
    """Text of the demo's grammar instead of the real one, and a folder for the runs."""
    folder = tmp_path / "data" / "multi30k" / "tok"
    folder.mkdir(parents=True)
    for part, stem in translation_runs._MULTI30K.items():
        items = list(demo.items(1, 300 if part == "train" else 20, part))
        for language, side in (("en", "source"), ("de", "target")):
            lines = "".join(f"{getattr(item, side)}\n" for item in items)
            path = folder / f"{stem}.lc.norm.tok.{language}.gz"
            path.write_bytes(gzip.compress(lines.encode()))
    folder = tmp_path / "data" / "tatoeba"
    folder.mkdir()
    lines = "".join(f"{item.source}\t{item.target}\n" for item in demo.items(1, 500, "train"))
    (folder / "deu.txt.gz").write_bytes(gzip.compress(lines.encode()))
    for name, count in (("_VALIDATION", 20), ("_TEST", 20)):
        monkeypatch.setattr(tatoeba, name, count)
    for name, count in (("_JOINED_VALIDATION", 6), ("_JOINED_TEST", 6)):
        monkeypatch.setattr(tatoeba, name, count)
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DRAGOMAN_LAB", str(tmp_path / "runs"))


# Daft leaves the pipes of its processes to the garbage collector.
DAFT = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
MINIMAL = Budget(updates=2, tokens=256, vocabulary=400, dropout=0.1, beam_size=1, validations=1)


def small_comparison(_):
    return baselines.Comparison(lambda _: translation_runs.multi30k(), MINIMAL)


def small_texts():
    return {
        pairs: baselines.Comparison(
            lambda _, pairs=pairs: tatoeba.tatoeba().first_pairs(pairs), MINIMAL
        )
        for pairs in (100, 300)
    }


@DAFT
@pytest.mark.usefixtures("captions")
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("C1",), marks=pytest.mark.slow),
        pytest.param(("C16", "C1", "C17", "C18"), marks=pytest.mark.long),
    ],
)
def test_the_full_size_runs_from_files_to_a_figure(tmp_path, monkeypatch, names):
    monkeypatch.setattr(c16_baseline_table, "comparison", small_comparison)
    monkeypatch.setattr(c01_bottleneck, "_copy", lambda *_: FALLS["copying"])
    monkeypatch.setattr(c01_bottleneck, "_LENGTHS", tuple(FALLS["lengths"]))
    monkeypatch.setattr(c01_bottleneck, "_BUDGET", MINIMAL)
    monkeypatch.setattr(c01_bottleneck, "_TRIAL_UPDATES", 0)  # No search for the rate.
    monkeypatch.setattr(c01_bottleneck, "_SEEDS", 1)
    monkeypatch.setattr(c17_data_size, "_full", small_texts)
    monkeypatch.setattr(c18_subword_vocabulary, "_FULL", MINIMAL)
    trained = 0
    for name in names:
        experiment = load_experiment(name)
        numbers = json.loads(json.dumps(experiment.measure("full", 1)))
        assert experiment.judge(numbers).verdict in (SUPPORTED, PARTLY, NOT, INCONCLUSIVE)
        draw(experiment, numbers, tmp_path / f"{name}.svg")
        runs = len(list((tmp_path / "runs").glob("*/run-*/evaluation.json")))
        # C16 trains six networks, C1 three, C17 three on two texts, C18 one with three tokenizers.
        assert runs - trained == {"C16": 6, "C1": 3, "C17": 6, "C18": 3}[name]
        trained = runs


@pytest.mark.slow
@DAFT
@pytest.mark.usefixtures("captions")
def test_a_finished_run_is_reused(monkeypatch):
    text = translation_runs.demo_text(200, 20, 1)
    settings = replace(MINIMAL, beam_size=2).settings(RECURRENT)
    first = translation_runs.train_translator(text, settings, 1)
    assert first.updates == 2
    assert len(first.translations) == 20
    assert first.low <= first.high
    assert [step for step, _ in first.curve] == [2]
    scores = dict(first.penalty_scores)
    assert list(scores) == list(translation_runs.LENGTH_PENALTIES)
    assert scores[first.length_penalty] == max(scores.values())

    def never(*_):
        raise AssertionError("the run was finished already")

    monkeypatch.setattr(translation_runs, "train", never)
    monkeypatch.setattr(translation_runs, "prepare", never)
    again = translation_runs.train_translator(text, settings, 1)
    assert json.dumps(again.numbers()) == json.dumps(first.numbers())
    with pytest.raises(AssertionError):
        translation_runs.train_translator(text, settings, 2)
