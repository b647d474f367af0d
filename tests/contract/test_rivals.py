"""Do the networks that are no Transformers keep the same contract?

The checks are those of every Transformer; what is said of sizes is their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from contract import contract
from dragoman.decoding.beam import Beam
from dragoman.decoding.greedy import Greedy
from dragoman.errors import RecipeError
from dragoman.model.attention import Attention
from dragoman.model.build import build_from_recipe, build_model
from dragoman.model.convolutional import Convolutional
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.record import record
from dragoman.model.recurrent import Recurrent
from dragoman.model.transformer import Transformer
from dragoman.recipe import DecodingRecipe
from small_models import EVERY_PART, RIVALS, VOCABULARY, small_model, small_recipe

ATTENDING, PLAIN, WINDOWS = (
    RIVALS[name] for name in ("recurrent, attending", "recurrent", "convolutional")
)
LOCAL = {"name": "local", "window": 1}
CASES: dict[str, dict[str, Any]] = {
    **RIVALS,
    "gru": ATTENDING | {"recurrent": {"cell": "gru"}},
    "gru that does not attend": PLAIN | {"recurrent": {"cell": "gru", "attends": False}},
    "one way": PLAIN | {"recurrent": {"both_ways": False, "attends": False}},
    "one layer": ATTENDING | {"encoder_layers": 1, "decoder_layers": 1},
    "deep encoder": PLAIN | {"encoder_layers": 3, "decoder_layers": 1},
    "deep decoder": PLAIN | {"encoder_layers": 1, "decoder_layers": 3},
    "additive": ATTENDING | {"similarity": "additive"},
    "hard": ATTENDING | {"reach": "hard"},
    "local": ATTENDING | {"reach": LOCAL},
    "untied": ATTENDING | {"tied_embeddings": "none", "output_bias": True},
    "kernel 1": WINDOWS | {"convolutional": {"kernel": 1}},
    "kernel 4": WINDOWS | {"convolutional": {"kernel": 4}},
    "learned": WINDOWS | {"position": "learned"},
    "no position": WINDOWS | {"position": "none"},
    "additive windows": WINDOWS | {"similarity": "additive", "tied_embeddings": "output"},
    "local windows": WINDOWS | {"reach": LOCAL},
    "windows and windows": WINDOWS | {"encoder_layers": 1, "decoder_layers": 3},
}


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


@pytest.fixture
def model(settings: dict[str, Any]) -> EncoderDecoder:
    return small_model(**settings)


@pytest.mark.parametrize("promise", contract.PROMISES, ids=lambda each: each.__name__[6:])
def test_promises(promise: Callable[[EncoderDecoder], None], model: EncoderDecoder) -> None:
    promise(model)


def test_rows_that_share_a_source(model: EncoderDecoder) -> None:
    """As in a beam: the first step and those after it."""
    source, is_real, target = contract.clear_sentences(model)
    memory = model.encode(source, is_real)
    expected = model(
        *(each.repeat_interleave(2, dim=0) for each in (source, is_real)), twice(target)
    )
    found, _ = model.decode(twice(target), memory)
    contract.assert_close(found, expected)
    _, cache = model.decode(twice(target)[:, :2], memory)
    staying = torch.tensor([2, 0])
    rows = torch.tensor([5, 4, 0, 1])
    later, _ = model.decode(
        twice(target)[rows, 2:], memory.reorder(staying), cache.reorder(rows, staying)
    )
    contract.assert_close(later, expected[rows, 2:])


def twice(target: Tensor) -> Tensor:
    """Two targets for each source, one of them another."""
    return torch.stack([target, (target + 1) % VOCABULARY], dim=1).flatten(0, 1)


def test_the_meta_device_and_initialise_give_the_same_weights(
    settings: dict[str, Any], model: EncoderDecoder
) -> None:
    contract.check_first_weights(model, small_recipe(**settings))


def test_factors_are_those_of_the_logits(model: EncoderDecoder) -> None:
    batch = contract.some_sentences()
    states, weight = model.factors(*batch)
    contract.assert_close(states @ weight.T, model(*batch))


@pytest.mark.parametrize("name", RIVALS)
def test_dropout_acts_in_training_only(name: str) -> None:
    model, without = small_model(**RIVALS[name], dropout=0.5), small_model(**RIVALS[name])
    # The first weights of a convolution know of dropout.
    without.load_state_dict(model.state_dict())
    batch = contract.some_sentences()
    with torch.no_grad():
        assert torch.equal(model(*batch), without(*batch))
        model.train()
        assert not torch.equal(model(*batch), model(*batch))


@pytest.mark.parametrize("name", ["recurrent, attending", "convolutional"])
@pytest.mark.parametrize(
    "case", [case for case in EVERY_PART if case[0] in ("similarity", "reach")]
)
def test_every_similarity_and_reach_is_theirs_too(name: str, case: tuple[str, str]) -> None:
    model = small_model(**RIVALS[name], **dict([case]))
    contract.check_gradients_are_finite(model)
    contract.check_padding_is_ignored(model)
    contract.check_cache(model)


# What they are.


def test_the_recipe_chooses() -> None:
    kinds = [type(small_model(**settings)) for settings in ({}, *RIVALS.values())]
    assert kinds == [Transformer, Recurrent, Recurrent, Convolutional]


def attentions(model: nn.Module) -> list[str]:
    return [name for name, each in model.named_modules() if isinstance(each, Attention)]


def test_how_often_each_looks_at_the_source() -> None:
    assert attentions(small_model(**PLAIN)) == []
    assert attentions(small_model(**ATTENDING)) == ["decoder.look.attention"]
    expected = [f"decoder.layers.{height}.attention" for height in (0, 1)]
    assert attentions(small_model(**WINDOWS)) == expected


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("both_ways", [True, False])
def test_the_first_weights_of_gates(cell: str, both_ways: bool) -> None:
    """Each gate by Glorot's rule for its own size; an LSTM begins by remembering."""
    own = {"cell": cell, "both_ways": both_ways}
    state = small_model(architecture="recurrent", recurrent=own, width=64).state_dict()
    name = "encoder.layers.0.cell.{}_l0"
    gates, features = (4 if cell == "lstm" else 3), (32 if both_ways else 64)
    weight, bias = state[name.format("weight_ih")], state[name.format("bias_ih")]
    assert weight.shape == (gates * features, 64)
    limit = (6 / (features + 64)) ** 0.5
    assert 0.95 * limit < weight.abs().max() <= limit
    forget = bias.view(gates, features)[1]
    assert bias.sum() == forget.sum() == (features if cell == "lstm" else 0)
    assert state[name.format("bias_hh")].abs().max() == 0


def test_the_first_convolutions_keep_the_variance() -> None:
    settings = {"width": 256, "encoder_layers": 8, "position": "none", "tied_embeddings": "none"}
    model = small_model(**WINDOWS, **settings)
    source = torch.randint(VOCABULARY, (8, 50))
    with torch.no_grad():
        memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    # Words enter with a spread of 0.1. Without the gate's share in the rule, it would fall to less
    # than a fifth of that in eight blocks.
    assert 0.07 < memory.keys.std() < 0.3


def test_at_first_no_key_is_chosen() -> None:
    """Whoever looks at one place only, before anything was learned, has gradients that explode."""
    settings = {"width": 128, "encoder_layers": 6, "decoder_layers": 6, "similarity": "dot"}
    model = small_model(**WINDOWS | settings)
    source = torch.randint(VOCABULARY, (8, 20))
    with record(model) as maps:
        logits = model(source, torch.ones_like(source, dtype=torch.bool), source)
    assert max(each.weights.max().item() for each in maps) < 0.5
    F.cross_entropy(logits.flatten(0, 1), source.flatten()).backward()
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    # It was more than ten thousand when words entered ten times as large.
    assert nn.utils.get_total_norm(gradients) < 10


def test_without_attention_the_end_is_all_that_is_known() -> None:
    model = small_model(**PLAIN)
    source, is_real, target = contract.some_sentences()
    memory = model.encode(source, is_real)
    blind = memory._replace(states=torch.full_like(memory.states, torch.nan))
    assert torch.equal(model.decode(target, blind)[0], model.decode(target, memory)[0])
    looking = small_model(**ATTENDING)
    memory = looking.encode(source, is_real)
    blind = memory._replace(states=torch.zeros_like(memory.states))
    assert not torch.equal(looking.decode(target, blind)[0], looking.decode(target, memory)[0])


def test_a_window_sees_its_neighbours_and_no_further() -> None:
    """With two blocks of three, two places to each side."""
    model = small_model(**WINDOWS, position="none")
    source = torch.randint(VOCABULARY, (1, 9))
    is_real = torch.ones_like(source, dtype=torch.bool)
    other = source.clone()
    other[0, 4] = (other[0, 4] + 1) % VOCABULARY
    with torch.no_grad():
        before, after = (model.encode(each, is_real).keys[0] for each in (source, other))
    changed = (before != after).any(dim=1).tolist()
    assert changed == [False, False, True, True, True, True, True, False, False]


# In a search.


@pytest.mark.parametrize("name", RIVALS)
def test_a_beam_of_one_is_greedy(name: str) -> None:
    model = small_model(**RIVALS[name])
    source, is_real, _ = contract.some_sentences()
    one = DecodingRecipe(beam=1, extra_length=5, length_penalty=0)
    greedy = Greedy(one).run(model, source, is_real)
    for row, (found, expected) in enumerate(
        zip(Beam(one).run(model, source, is_real), greedy, strict=True)
    ):
        assert found[0].tokens == expected[0].tokens, row


@pytest.mark.parametrize("name", RIVALS)
def test_a_beam_scores_as_the_model_does(name: str) -> None:
    """What a beam says of its answers is what the model says of them, all at once."""
    model = small_model(**RIVALS[name])
    source, is_real, _ = contract.some_sentences()
    search = Beam(DecodingRecipe(beam=4, hypotheses=4, extra_length=5))
    for row, hypotheses in enumerate(search.run(model, source, is_real)):
        assert len(hypotheses) == 4
        for each in hypotheses:
            said = [*each.tokens, *([search.end] if each.is_ended else [])]
            target = torch.tensor([[search.begin, *said[:-1]]])
            with torch.no_grad():
                logits = model(source[row : row + 1], is_real[row : row + 1], target)
            scores = logits[0].log_softmax(dim=-1).gather(1, torch.tensor(said).unsqueeze(1))
            assert each.score == pytest.approx(float(scores.sum()) / len(said), abs=1e-5)


# What does not fit is refused.


@pytest.mark.parametrize("position", ["rotary", "shaw"])
def test_positions_inside_self_attention_need_some(position: str) -> None:
    with pytest.raises(RecipeError, match=f"{position} acts inside"):
        build_from_recipe(small_recipe(**WINDOWS, position=position))
    small_model(**ATTENDING, position=position)  # Who reads one by one is told no places.


def test_halves_need_an_even_width() -> None:
    with pytest.raises(RecipeError, match=r"model\.width\s+found 15, expected an even"):
        small_recipe(**ATTENDING, width=15)
    small_model(architecture="recurrent", recurrent={"both_ways": False}, width=15)


@pytest.mark.parametrize("name", RIVALS)
def test_two_vocabularies_cannot_be_tied(name: str) -> None:
    with pytest.raises(RecipeError, match=r"model\.tied_embeddings\s+all ties words of 13 and 20"):
        build_model(small_recipe(**RIVALS[name]).model, 13, 20)
    settings = small_recipe(**RIVALS[name], tied_embeddings="output").model
    assert build_model(settings, 13, 20).target_embedding is not None


@pytest.mark.parametrize("name", RIVALS)
def test_settings_of_the_transformer_are_none_of_theirs(name: str) -> None:
    others = {"head_count": 5, "heads": "wide", "norm": "pre", "feed_forward": "none"}
    places = {"position_entry": "projected", "position_depth": "every_layer"}
    heights = {"cross_attention": "same_height", "encoder_layers": 1, "decoder_layers": 2}
    found = small_model(**RIVALS[name], **others, **places, **heights).state_dict()
    expected = small_model(**RIVALS[name], encoder_layers=1, decoder_layers=2).state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)
