"""Contract tests of the recurrent and the convolutional network.

The checks are those of every Transformer, plus checks of their own sizes and weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

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
from dragoman.recipe.schema import DecodingRecipe
from support import contract
from support.sets import first_quick
from support.small_models import BASELINES, EVERY_PART, VOCABULARY, small_model, small_recipe

ATTENDING, PLAIN, WINDOWS = (
    BASELINES[name] for name in ("recurrent with attention", "recurrent", "convolutional")
)
LOCAL = {"name": "local", "window": 1}
CASES: dict[str, dict[str, Any]] = {
    **BASELINES,
    "gru": ATTENDING | {"recurrent": {"cell": "gru"}},
    "gru without attention": PLAIN | {"recurrent": {"cell": "gru", "attention": False}},
    "one direction": PLAIN | {"recurrent": {"bidirectional": False, "attention": False}},
    "one layer": ATTENDING | {"encoder_layers": 1, "decoder_layers": 1},
    "deep encoder": PLAIN | {"encoder_layers": 3, "decoder_layers": 1},
    "deep decoder": PLAIN | {"encoder_layers": 1, "decoder_layers": 3},
    "additive": ATTENDING | {"similarity": "additive"},
    "hard": ATTENDING | {"attention_kind": "hard"},
    "local": ATTENDING | {"attention_kind": LOCAL},
    "untied": ATTENDING | {"tied_embeddings": "none", "output_bias": True},
    "kernel 1": WINDOWS | {"convolutional": {"kernel_size": 1}},
    "kernel 4": WINDOWS | {"convolutional": {"kernel_size": 4}},
    "learned": WINDOWS | {"position": "learned"},
    "no position": WINDOWS | {"position": "none"},
    "additive windows": WINDOWS | {"similarity": "additive", "tied_embeddings": "output"},
    "local windows": WINDOWS | {"attention_kind": LOCAL},
    "deep windows": WINDOWS | {"encoder_layers": 1, "decoder_layers": 3},
}


@pytest.fixture(params=first_quick(CASES.values(), 4), ids=list(CASES))
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


@pytest.fixture
def model(settings: dict[str, Any]) -> EncoderDecoder:
    return small_model(**settings)


@pytest.mark.parametrize("promise", contract.marked_promises())
def test_promises(promise: Callable[[EncoderDecoder], None], model: EncoderDecoder) -> None:
    promise(model)


def test_rows_that_share_a_source(model: EncoderDecoder) -> None:
    """As in a beam: at the first step and at later steps."""
    source, is_real, target = contract.clear_sentences(model)
    memory = model.encode(source, is_real)
    expected = model(
        *(tensor.repeat_interleave(2, dim=0) for tensor in (source, is_real)), twice(target)
    )
    logits, _ = model.decode(twice(target), memory)
    contract.assert_close(logits, expected)
    _, cache = model.decode(twice(target)[:, :2], memory)
    staying = torch.tensor([2, 0])
    rows = torch.tensor([5, 4, 0, 1])
    later, _ = model.decode(
        twice(target)[rows, 2:], memory.reorder(staying), cache.reorder(rows, staying)
    )
    contract.assert_close(later, expected[rows, 2:])


def twice(target: Tensor) -> Tensor:
    """Return two different targets for each source."""
    return torch.stack([target, (target + 1) % VOCABULARY], dim=1).flatten(0, 1)


def test_the_meta_device_and_initialize_give_the_same_weights(
    settings: dict[str, Any], model: EncoderDecoder
) -> None:
    contract.check_first_weights(model, small_recipe(**settings))


def test_factors_are_those_of_the_logits(model: EncoderDecoder) -> None:
    batch = contract.random_sentences()
    states, weight = model.logit_factors(*batch)
    contract.assert_close(states @ weight.T, model(*batch))


@pytest.mark.parametrize("name", BASELINES)
def test_dropout_acts_in_training_only(name: str) -> None:
    model, without = small_model(**BASELINES[name], dropout=0.5), small_model(**BASELINES[name])
    # The initial weights of a convolution depend on the dropout rate.
    without.load_state_dict(model.state_dict())
    batch = contract.random_sentences()
    with torch.no_grad():
        assert torch.equal(model(*batch), without(*batch))
        model.train()
        assert not torch.equal(model(*batch), model(*batch))


@pytest.mark.parametrize("name", first_quick(["recurrent with attention", "convolutional"]))
@pytest.mark.parametrize(
    "case", [case for case in EVERY_PART if case[0] in ("similarity", "attention_kind")]
)
def test_every_similarity_and_attention_kind_works(name: str, case: tuple[str, str]) -> None:
    model = small_model(**BASELINES[name], **dict([case]))
    contract.check_gradients_are_finite(model)
    contract.check_padding_is_ignored(model)
    contract.check_cache(model)


# Structure and initial weights.


def test_the_recipe_selects_the_architecture() -> None:
    kinds = [type(small_model(**settings)) for settings in ({}, *BASELINES.values())]
    assert kinds == [Transformer, Recurrent, Recurrent, Convolutional]


def attentions(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, Attention)]


def test_which_modules_attend_to_the_source() -> None:
    assert attentions(small_model(**PLAIN)) == []
    assert attentions(small_model(**ATTENDING)) == ["decoder.look.attention"]
    expected = [f"decoder.layers.{index}.attention" for index in (0, 1)]
    assert attentions(small_model(**WINDOWS)) == expected


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_initial_weights_of_gates(cell: str, bidirectional: bool) -> None:
    """Each gate follows Glorot's rule for its own size; the forget gate of an LSTM starts open."""
    options = {"cell": cell, "bidirectional": bidirectional}
    state = small_model(architecture="recurrent", recurrent=options, width=64).state_dict()
    name = "encoder.layers.0.cell.{}_l0"
    gates, features = (4 if cell == "lstm" else 3), (32 if bidirectional else 64)
    weight, bias = state[name.format("weight_ih")], state[name.format("bias_ih")]
    assert weight.shape == (gates * features, 64)
    limit = (6 / (features + 64)) ** 0.5
    assert 0.95 * limit < weight.abs().max() <= limit
    forget = bias.view(gates, features)[1]
    assert bias.sum() == forget.sum() == (features if cell == "lstm" else 0)
    assert state[name.format("bias_hh")].abs().max() == 0


def test_the_initial_convolutions_keep_the_variance() -> None:
    settings = {"width": 256, "encoder_layers": 8, "position": "none", "tied_embeddings": "none"}
    model = small_model(**WINDOWS, **settings)
    source = torch.randint(VOCABULARY, (8, 50))
    with torch.no_grad():
        memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    # Words enter with a standard deviation of 0.1. Without the factor for the gate it would fall to
    # less than a fifth of that in eight blocks.
    assert 0.07 < memory.keys.std() < 0.3


def test_initial_attention_is_not_concentrated_on_one_key() -> None:
    """Attention to one position only, before training, makes gradients explode."""
    settings = {"width": 128, "encoder_layers": 6, "decoder_layers": 6, "similarity": "dot"}
    model = small_model(**WINDOWS | settings)
    source = torch.randint(VOCABULARY, (8, 20))
    with record(model) as records:
        logits = model(source, torch.ones_like(source, dtype=torch.bool), source)
    assert max(entry.weights.max().item() for entry in records) < 0.5
    F.cross_entropy(logits.flatten(0, 1), source.flatten()).backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    # It was more than ten thousand with inputs ten times as large.
    assert nn.utils.get_total_norm(gradients) < 10


def test_without_attention_only_the_last_states_matter() -> None:
    model = small_model(**PLAIN)
    source, is_real, target = contract.random_sentences()
    memory = model.encode(source, is_real)
    blind = memory._replace(states=torch.full_like(memory.states, torch.nan))
    assert torch.equal(model.decode(target, blind)[0], model.decode(target, memory)[0])
    attending = small_model(**ATTENDING)
    memory = attending.encode(source, is_real)
    blind = memory._replace(states=torch.zeros_like(memory.states))
    assert not torch.equal(attending.decode(target, blind)[0], attending.decode(target, memory)[0])


def test_a_window_covers_its_neighbors_only() -> None:
    """With two blocks of three, two positions on each side."""
    model = small_model(**WINDOWS, position="none")
    source = torch.randint(VOCABULARY, (1, 9))
    is_real = torch.ones_like(source, dtype=torch.bool)
    other = source.clone()
    other[0, 4] = (other[0, 4] + 1) % VOCABULARY
    with torch.no_grad():
        before, after = (model.encode(words, is_real).keys[0] for words in (source, other))
    changed = (before != after).any(dim=1).tolist()
    assert changed == [False, False, True, True, True, True, True, False, False]


# In a search.


@pytest.mark.parametrize("name", BASELINES)
def test_a_beam_of_one_is_greedy(name: str) -> None:
    model = small_model(**BASELINES[name])
    source, is_real, _ = contract.random_sentences()
    one = DecodingRecipe(beam_size=1, max_extra_tokens=5, length_penalty=0)
    greedy = Greedy(one).run(model, source, is_real)
    for row, (nbest, expected) in enumerate(
        zip(Beam(one).run(model, source, is_real), greedy, strict=True)
    ):
        assert nbest[0].tokens == expected[0].tokens, row


@pytest.mark.parametrize("name", BASELINES)
def test_a_beam_scores_as_the_model_does(name: str) -> None:
    """The scores of a beam are those of the model for the whole translation."""
    model = small_model(**BASELINES[name])
    source, is_real, _ = contract.random_sentences()
    search = Beam(DecodingRecipe(beam_size=4, num_hypotheses=4, max_extra_tokens=5))
    for row, hypotheses in enumerate(search.run(model, source, is_real)):
        assert len(hypotheses) == 4
        for hypothesis in hypotheses:
            tokens = [*hypothesis.tokens, *([search.end] if hypothesis.is_finished else [])]
            target = torch.tensor([[search.begin, *tokens[:-1]]])
            with torch.no_grad():
                logits = model(source[row : row + 1], is_real[row : row + 1], target)
            scores = logits[0].log_softmax(dim=-1).gather(1, torch.tensor(tokens).unsqueeze(1))
            assert hypothesis.score == pytest.approx(float(scores.sum()) / len(tokens), abs=1e-5)


# Refused settings.


@pytest.mark.parametrize("position", ["rotary", "shaw"])
def test_positions_inside_self_attention_are_refused_without_it(position: str) -> None:
    with pytest.raises(RecipeError, match=f"{position} acts inside"):
        build_from_recipe(small_recipe(**WINDOWS, position=position))
    small_model(**ATTENDING, position=position)  # A recurrent network ignores positions.


def test_a_bidirectional_layer_needs_an_even_width() -> None:
    with pytest.raises(RecipeError, match=r"model\.width\s+found 15, expected an even"):
        small_recipe(**ATTENDING, width=15)
    small_model(architecture="recurrent", recurrent={"bidirectional": False}, width=15)


@pytest.mark.parametrize("name", BASELINES)
def test_two_vocabularies_cannot_be_tied(name: str) -> None:
    with pytest.raises(RecipeError, match=r"model\.tied_embeddings\s+all needs one vocabulary"):
        build_model(small_recipe(**BASELINES[name]).model, 13, 20)
    settings = small_recipe(**BASELINES[name], tied_embeddings="output").model
    assert build_model(settings, 13, 20).target_embedding is not None


@pytest.mark.parametrize("name", BASELINES)
def test_settings_of_the_transformer_have_no_effect(name: str) -> None:
    others = {"heads": 5, "head_kind": "wide", "norm": "pre", "feed_forward": "none"}
    positions = {"position_entry": "projected", "position_depth": "every_layer"}
    layers = {"cross_attention": "same_layer", "encoder_layers": 1, "decoder_layers": 2}
    actual = small_model(**BASELINES[name], **others, **positions, **layers).state_dict()
    expected = small_model(**BASELINES[name], encoder_layers=1, decoder_layers=2).state_dict()
    assert actual.keys() == expected.keys()
    assert all(torch.equal(actual[key], expected[key]) for key in expected)
