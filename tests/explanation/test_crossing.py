"""A model trained on German numbers attends from tens to tens and from ones to ones.

    twenty - three   →   drei und zwanzig

The model is trained here, on the numbers of the demo grammar. Its vocabulary is so small that most
numbers are split between ones and tens; with the vocabulary of the preset `demo`, many numbers are
one token, in which nothing can cross. The test uses numbers that the model has never seen. The
alignment is that of its one cross-attention, which has one head.

Not every model crosses: the encoder may copy a digit to another position, and the decoder reads it
there. Of the numbers that were translated correctly, 12 of 18, 13 of 13 and 18 of 18 crossed with
the seeds 1, 2 and 3. The test uses the seed 3.
"""

import pytest

from dragoman import Translator, explain
from dragoman.corpus import demo
from dragoman.workflow import training
from support import digits
from support.explained import numbers, page_data

TENS, HYPHEN, ONES = range(3)
"""Units of the source; the target has them in the opposite order."""
MODEL = {
    "width": 64,
    "heads": 1,
    "feed_forward_width": 128,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "norm": "pre",
    "dropout": 0.0,
}
TRAINING = {
    "steps": 500,
    "tokens_per_update": 1024,
    "micro_batch": 1024,
    "learning_rate": 0.003,
    "warmup_steps": 100,
    "ema_decay": 0.98,
    "average_checkpoints": 1,
    "validate_every": 500,
    "save_every": 500,
    "log_every": 100,
}


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    cardinals = [demo.cardinal(number) for number in range(1000)]
    train, validation = (
        [
            (item.source, item.target)
            for item in (pair.item() for pair in cardinals if demo.split_of(pair) == part)
        ]
        for part in ("train", "validation")
    )
    digits.write_prepared(folder / "prepared", train * 2, validation, kind="sentencepiece")
    kind = {"kind": "sentencepiece"}
    recipe = digits.write_recipe(folder, tokenizer=kind, model=MODEL, training=TRAINING, seed=3)
    training.train(recipe)
    return Translator.load(folder / "run", engine="pytorch")


def units_of(pieces, units):
    """The unit to which most letters of each piece belong."""
    letters = [unit for unit, text in enumerate(units) for _ in text]
    piece_units = []
    for piece in pieces:
        length = len(piece.replace("▁", ""))
        own, letters = letters[:length], letters[length:]
        piece_units.append(max(set(own), key=own.count))
    return piece_units


def unit_weights(explanation, item, weights):
    """How much ones and tens of the target attend to ones and tens of the source."""
    source = units_of(explanation.source_tokens[:-1], item.source_units)
    target = units_of([token.token for token in explanation.tokens[:-1]], item.target_units)

    def weight(target_unit, source_unit):
        rows = [position for position, unit in enumerate(target) if unit == target_unit]
        columns = [position for position, unit in enumerate(source) if unit == source_unit]
        return float(weights[rows][:, columns].sum(axis=1).mean()) if rows else None

    # In the target, ones are first and tens are last.
    return {
        (name, source_name): weight(unit, source_unit)
        for name, unit in (("ones", 0), ("tens", 2))
        for source_name, source_unit in (("ones", ONES), ("tens", TENS))
    }


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_three_crosses(translator):
    """The number is in the test part of the grammar, on which no model is trained."""
    pair = demo.cardinal(23)
    assert demo.split_of(pair) == "test"
    item = pair.item()
    explanation = explain(translator, item.source)
    assert explanation.translation == "dreiundzwanzig"
    # The weights as the page has them.
    shown = page_data(explanation)["alignments"][-1]
    weights = numbers(shown, explanation.alignment.shape)
    shares = unit_weights(explanation, item, weights)
    print(explanation.source_tokens, [token.token for token in explanation.tokens], shares)
    assert shares["ones", "ones"] > 2 * shares["ones", "tens"], "drei attends to three"
    assert shares["tens", "tens"] > 2 * shares["tens", "ones"], "zwanzig attends to twenty"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_unseen_numbers_cross(translator):
    crossed = []
    for number in range(21, 100):
        pair = demo.cardinal(number)
        if number % 10 == 0 or demo.split_of(pair) == "train":
            continue
        item = pair.item()
        explanation = explain(translator, item.source)
        shares = unit_weights(explanation, item, explanation.alignment)
        if explanation.translation == item.target and None not in shares.values():
            ones = shares["ones", "ones"] > shares["ones", "tens"]
            crossed.append(ones and shares["tens", "tens"] > shares["tens", "ones"])
    print(f"{sum(crossed)} of {len(crossed)} unseen numbers cross")
    assert len(crossed) >= 10
    # All 18 crossed when this was written; a quarter would cross by chance.
    assert sum(crossed) >= 0.75 * len(crossed)
