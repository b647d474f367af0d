"""Do the claims about rivals judge as they say, and train as everybody does?"""

import gzip
import json

import pytest

from dragoman.corpus import demo
from dragoman.errors import DataError
from dragoman.lab import rivals, translating
from dragoman.lab.claim import c01_bottleneck, c02_recency, c16_table, c17_data, c18_vocabulary
from dragoman.lab.experiment import find
from dragoman.lab.gallery import draw
from dragoman.lab.rivals import CONVOLUTIONAL, FORGETFUL, LARGE, RECURRENT, TRANSFORMER, Budget
from dragoman.model.cost import measure
from dragoman.recipe_file import load_recipe

HOLDS, IN_PART, NOT = "holds", "holds in part", "does not hold here"


def verdict(name, numbers):
    return find(name).judge(json.loads(json.dumps(numbers))).verdict


# C1


def copied(forgetful, attentive):
    return {
        "lengths": [4, 8, 12, 16],
        "copying": {
            FORGETFUL: [[0.95, 0.9, 0.9, end] for end in forgetful],
            RECURRENT: [[1.0, 1.0, 1.0, end] for end in attentive],
            TRANSFORMER: [[1.0, 1.0, 1.0, 1.0]],
        },
    }


def translated(short, long, luck=0.001):
    bins = [
        {"words": words, FORGETFUL: score, RECURRENT: 30.0, TRANSFORMER: 32.0, "luck": luck}
        | {"margins": {FORGETFUL: 1.0, RECURRENT: 1.0, TRANSFORMER: 1.0}}
        for words, score in ((8, short), (18, long))
    ]
    return {"translating": bins}


FALLS, STAYS = copied([0.5, 0.52, 0.48], [0.97]), copied([0.9], [0.99])


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (FALLS, HOLDS),
        (STAYS, NOT),
        (copied([0.5], [0.6]), NOT),  # Attention repairs too little.
        (copied([0.0, 0.95, 0.95], [1.0]), NOT),  # One seed of three is no finding.
        (FALLS | translated(28.0, 15.0), HOLDS),
        (FALLS | translated(15.0, 15.0), IN_PART),  # As bad in short sentences.
        (FALLS | translated(28.0, 15.0, luck=0.2), IN_PART),
        (FALLS | translated(16.0, 15.0), IN_PART),  # Within the margin.
        (FALLS | translated(0.0, 0.0), IN_PART),
        (STAYS | translated(28.0, 15.0), IN_PART),
        (STAYS | translated(28.0, 31.0), NOT),
    ],
)
def test_the_bottleneck_is_judged_by_its_criterion(numbers, expected):
    assert verdict("C1", numbers) == expected


# C2


def remembered(first, middle, last, trace, transformer=0.0):
    row = [first] * 3 + [middle] * 6 + [last] * 3
    even = [0.9 - transformer] * 3 + [0.9] * 9
    rows = {FORGETFUL: [row, row], TRANSFORMER: [even, even]}
    return {
        "orders": {name: {"forwards": each, "backwards": each} for name, each in rows.items()},
        "before": [[0.5] * 9 + [2.0] * 3],
        "after": [[1.0] * 9 + [each] * 3 for each in trace],
    }


SURE, UNSURE, NONE = (1.5, 1.5), (0.5, 2.5), (1.0, 1.0)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (remembered(0.6, 0.7, 0.8, SURE), HOLDS),
        (remembered(0.6, 0.7, 0.8, UNSURE), IN_PART),
        (remembered(0.6, 0.7, 0.8, NONE), IN_PART),
        (remembered(0.7, 0.7, 0.8, SURE), IN_PART),  # Only the last ones stand out.
        (remembered(0.8, 0.7, 0.6, SURE), IN_PART),
        (remembered(0.8, 0.8, 0.8, NONE), NOT),
        (remembered(0.7, 0.6, 0.8, NONE, transformer=0.15), NOT),  # It suffers as much.
    ],
)
def test_recency_is_judged_by_its_criterion(numbers, expected):
    assert verdict("C2", numbers) == expected


def test_a_state_is_moved_by_every_symbol_that_was_read():
    """The trace that C2 looks at is none for nothing, and falls with age before learning."""
    task = c02_recency.copying(10, c02_recency._LENGTH, c02_recency._LENGTH)
    model = c02_recency.build(task, 1, **c02_recency._PUPILS[FORGETFUL])
    traces = c02_recency._traces(model, task, 1)
    assert len(traces) == c02_recency._LENGTH
    assert 0 < traces[0] < traces[-1]


# C16


def table(recurrent=30.0, convolutional=30.0, large=36.0, luck=0.001, flops=1.0):
    def row(bleu, cost, chance):
        curve = [(1, bleu / 2), (2, bleu)]
        told = {"bleu": bleu, "low": bleu - 1, "high": bleu + 1, "flops": cost, "luck": chance}
        return told | {"parameters": 10, "curve": curve}

    return {
        TRANSFORMER: row(33.0, flops, 1.0),
        RECURRENT: row(recurrent, 1.0, luck),
        CONVOLUTIONAL: row(convolutional, 1.0, luck),
        LARGE: row(large, 3.0, luck),
    }


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (table(), HOLDS),
        (table(flops=1.04), HOLDS),
        (table(flops=1.2), IN_PART),  # Only the larger one wins.
        (table(large=33.0), IN_PART),
        (table(recurrent=35.0), IN_PART),
        (table(luck=0.3), NOT),
        (table(recurrent=35.0, convolutional=35.0, large=20.0), NOT),
    ],
)
def test_the_table_is_judged_by_its_criterion(numbers, expected):
    assert verdict("C16", numbers) == expected


# C17


def grown(recurrent, convolutional, margin=1.0):
    def rows(scores):
        return [{"bleu": each, "low": each - margin, "high": each + margin} for each in scores]

    models = {TRANSFORMER: rows([5.0, 30.0]), RECURRENT: rows(recurrent)}
    return {"pairs": [1000, 16000], "models": models | {CONVOLUTIONAL: rows(convolutional)}}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (grown([8.0, 25.0], [4.0, 25.0]), HOLDS),
        (grown([4.0, 25.0], [4.0, 25.0]), IN_PART),  # It was ahead from the beginning.
        (grown([8.0, 25.0], [4.0, 30.0]), IN_PART),
        (grown([8.0, 33.0], [4.0, 30.0]), NOT),
        (grown([8.0, 25.0], [4.0, 25.0], margin=10.0), NOT),
    ],
)
def test_the_need_of_data_is_judged_by_its_criterion(numbers, expected):
    assert verdict("C17", numbers) == expected


# C18


def cut(unknown=0.0, tokens=15.0, bleu=30.0, luck=0.001):
    def row(share, length, score):
        told = {"unknown": share, "touched": share, "tokens": length}
        return told | {"bleu": score, "luck": luck}

    return {
        "words": row(0.05, 12.0, 25.0),
        "sentencepiece": row(unknown, tokens, bleu),
        "characters": row(0.0, 60.0, 20.0),
    }


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (cut(), HOLDS),
        (cut(luck=0.2), IN_PART),
        (cut(bleu=22.0), IN_PART),
        (cut(unknown=0.01), NOT),
        (cut(tokens=50.0), NOT),
    ],
)
def test_unknown_words_are_judged_by_their_criterion(numbers, expected):
    assert verdict("C18", numbers) == expected


def test_unknown_words_are_counted_in_text():
    """A word counts once, however much of it is unknown; BPE spells what it never saw."""
    text = translating.Text("own", (), (), (("one two", "drei zwei"), ("one", "zwölf")))
    seen = ["one", "zwei", "drei"]
    words = c18_vocabulary._counted(text, *[_learned("words", seen)] * 2)
    assert words["unknown"] == pytest.approx(2 / 6)
    assert words["touched"] == 1
    assert words["tokens"] == pytest.approx(6 / 4)
    characters = c18_vocabulary._counted(text, *[_learned("characters", seen)] * 2)
    assert characters["unknown"] == pytest.approx(2 / 6)  # t of two, ö and l and f of zwölf
    assert characters["tokens"] == pytest.approx((7 + 9 + 3 + 5) / 4)


def _learned(kind, texts):
    from dragoman.tokenizer.folder import tokenizer_class

    return tokenizer_class(kind).train(texts, 100, [])


# Rivals


@pytest.mark.parametrize("vocabulary", [2000, 4000])
def test_rivals_have_like_sizes_and_costs(vocabulary):
    budget = Budget(updates=10, tokens=100, vocabulary=vocabulary, dropout=0.0)
    rooms = {
        name: measure(load_recipe("tiny", budget.settings(name)), 16, 16)
        for name in rivals.NETWORKS
    }
    own = rooms[TRANSFORMER]
    for name in (RECURRENT, CONVOLUTIONAL):
        assert rooms[name].parameters == pytest.approx(own.parameters, rel=0.1), name
        assert own.flops <= c16_table._COST * rooms[name].flops, name
    assert rooms[LARGE].parameters > 2 * own.parameters


def test_the_quick_bout_needs_no_files_and_the_full_one_says_which(monkeypatch, tmp_path):
    assert len(rivals.bout("quick").text(1).test) == 200
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"DRAGOMAN_DATA.*multi30k/tok"):
        rivals.bout("full").text(1)


def test_a_smaller_text_is_the_beginning_of_a_larger_one():
    text = translating.demo_text(50, 10, 1)
    assert text.beginning(20).train == text.train[:20]
    assert text.beginning(20).test == text.test
    assert text.beginning(20).folder != text.folder
    with pytest.raises(DataError, match="50"):
        text.beginning(51)


# Whole, with next to nothing to learn by


@pytest.fixture
def captions(tmp_path, monkeypatch):
    """The demo's grammar in the place of Multi30k, and a folder for the runs."""
    folder = tmp_path / "data" / "multi30k" / "tok"
    folder.mkdir(parents=True)
    for part, stem in translating._MULTI30K.items():
        items = list(demo.items(1, 300 if part == "train" else 40, part))
        for language, side in (("en", "source"), ("de", "target")):
            lines = "".join(f"{getattr(item, side)}\n" for item in items)
            path = folder / f"{stem}.lc.norm.tok.{language}.gz"
            path.write_bytes(gzip.compress(lines.encode()))
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DRAGOMAN_LAB", str(tmp_path / "runs"))


# Daft leaves the pipes of its processes to the collector of garbage.
DAFT = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
LEAST = Budget(updates=2, tokens=256, vocabulary=400, dropout=0.1, beam=2, validations=1)


def small_bout(_):
    return rivals.Bout(lambda _: translating.multi30k(), LEAST)


@pytest.mark.slow
@DAFT
@pytest.mark.usefixtures("captions")
def test_the_full_size_goes_from_files_to_a_figure_and_shares_its_runs(tmp_path, monkeypatch):
    for claim in (c01_bottleneck, c16_table):
        monkeypatch.setattr(claim, "bout", small_bout)
    monkeypatch.setattr(c01_bottleneck, "_copied", lambda *_: FALLS["copying"])
    monkeypatch.setattr(c01_bottleneck, "_EDGES", (3,))
    for claim in (c17_data, c18_vocabulary):
        monkeypatch.setattr(claim, "_FULL", LEAST)
    monkeypatch.setitem(c17_data._SIZES, "full", (100, 300))
    for name in ("C16", "C1", "C17", "C18"):
        experiment = find(name)
        numbers = json.loads(json.dumps(experiment.measure("full", 1)))
        assert experiment.judge(numbers).verdict in (HOLDS, IN_PART, NOT)
        draw(experiment, numbers, tmp_path / f"{name}.svg")
        runs = len(list((tmp_path / "runs").glob("*/run-*/found.json")))
        # Four of C16, then one without attention, then three of each text, then two tokenizers.
        assert runs == {"C16": 4, "C1": 5, "C17": 8, "C18": 10}[name]


@pytest.mark.slow
@DAFT
@pytest.mark.usefixtures("captions")
def test_a_finished_run_is_read_and_says_the_same(monkeypatch):
    text = translating.demo_text(200, 20, 1)
    settings = LEAST.settings(RECURRENT)
    made = translating.make(text, settings, 1)
    assert made.updates == 2
    assert len(made.translations) == 20
    assert made.low <= made.high
    assert [step for step, _ in made.curve] == [2]

    def never(*_):
        raise AssertionError("it was there already")

    monkeypatch.setattr(translating, "train", never)
    monkeypatch.setattr(translating, "prepare", never)
    again = translating.make(text, settings, 1)
    assert json.dumps(again.figures()) == json.dumps(made.figures())
    with pytest.raises(AssertionError):
        translating.make(text, settings, 2)
