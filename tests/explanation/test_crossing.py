"""Does a model that has learned to count in German show that tens and ones change places?

    twenty - three   →   drei und zwanzig

Trained here, on the numbers of the demo grammar, with so small a vocabulary that most of them are
cut between ones and tens; the preset `demo` has room for many as one token, in which nothing can
cross. Asked are numbers it has never seen. Of its one cross-attention the mean over all heads is
taken, which is the alignment that the page and `dragoman translate --json` show.
"""

import pytest

import digits
from dragoman import Translator, explain
from dragoman.corpus import demo
from dragoman.workflow import training
from explanation.explained import numbers, page_data

TENS, HYPHEN, ONES = range(3)
"""Units of the source; those of the target stand the other way round."""
MODEL = {
    "width": 64,
    "head_count": 4,
    "feed_forward_width": 128,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "norm": "pre",
    "dropout": 0.0,
}
LEARNING = {
    "steps": 500,
    "tokens_per_update": 1024,
    "micro_batch": 1024,
    "learning_rate": 0.005,
    "warmup": 100,
    "moving_average": 0.98,
    "average": 1,
    "validate_every": 500,
    "save_every": 500,
    "log_every": 100,
}


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    every = [demo.cardinal(number) for number in range(1000)]
    learned = [each.item() for each in every if demo.part_of(each) == "train"]
    unseen = [each.item() for each in every if demo.part_of(each) == "development"]
    pairs = [[(each.source, each.target) for each in some] for some in (learned, unseen)]
    digits.write_prepared(folder / "prepared", pairs[0] * 2, pairs[1], kind="sentencepiece")
    kind = {"kind": "sentencepiece"}
    recipe = digits.write_recipe(folder, tokenizer=kind, model=MODEL, training=LEARNING)
    for _ in training.train(recipe):
        pass
    return Translator.load(folder / "run", engine="pytorch")


def units_of(pieces, units):
    """The unit to which most letters of each piece belong."""
    owners = [unit for unit, text in enumerate(units) for _ in text]
    found = []
    for piece in pieces:
        length = len(piece.replace("▁", ""))
        own, owners = owners[:length], owners[length:]
        found.append(max(set(own), key=own.count))
    return found


def looks(explanation, item, weights):
    """How much ones and tens of the target look at ones and tens of the source."""
    source = units_of(explanation.source[:-1], item.source_units)
    target = units_of([each.token for each in explanation.words[:-1]], item.target_units)

    def weight(asking, asked):
        rows = [place for place, unit in enumerate(target) if unit == asking]
        columns = [place for place, unit in enumerate(source) if unit == asked]
        return float(weights[rows][:, columns].sum(axis=1).mean()) if rows else None

    # In the target, ones stand first and tens last.
    return {
        (name, other): weight(unit, asked)
        for name, unit in (("ones", 0), ("tens", 2))
        for other, asked in (("ones", ONES), ("tens", TENS))
    }


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_three_crosses(translator):
    """It is in the part of the grammar that nobody trains on."""
    pair = demo.cardinal(23)
    assert demo.part_of(pair) == "test"
    item = pair.item()
    explanation = explain(translator, item.source)
    assert explanation.translation == "dreiundzwanzig"
    # As the page has it.
    shown = page_data(explanation)["alignments"][-1]
    weights = numbers(shown, explanation.alignment.shape)
    found = looks(explanation, item, weights)
    print(explanation.source, [each.token for each in explanation.words], found)
    assert found["ones", "ones"] > 2 * found["ones", "tens"], "drei looks at three"
    assert found["tens", "tens"] > 2 * found["tens", "ones"], "zwanzig looks at twenty"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_unseen_numbers_cross(translator):
    crossed = []
    for number in range(21, 100):
        pair = demo.cardinal(number)
        if number % 10 == 0 or demo.part_of(pair) == "train":
            continue
        item = pair.item()
        explanation = explain(translator, item.source)
        found = looks(explanation, item, explanation.alignment)
        if explanation.translation == item.target and None not in found.values():
            ones = found["ones", "ones"] > found["ones", "tens"]
            crossed.append(ones and found["tens", "tens"] > found["tens", "ones"])
    print(f"{sum(crossed)} of {len(crossed)} unseen numbers cross")
    assert len(crossed) >= 10
    # Of 18, 17 did when this was written; chance alone would make a quarter of them cross.
    assert sum(crossed) >= 0.75 * len(crossed)
