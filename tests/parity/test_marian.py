"""Parity with Hugging Face's MarianMT: logits, gradients and greedy search.

Thousands of published translators are MarianMT models. It is the paper's post-norm model with one
matrix for all words and sinusoids in halves. The models here are small and random: nothing is
downloaded.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812  (its usual name)
from transformers import MarianConfig, MarianMTModel

from dragoman.decoding.engine import length_limit
from dragoman.decoding.greedy import Greedy
from dragoman.model.build import build_from_recipe
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import DecodingRecipe, Recipe
from support.small_models import VOCABULARY

WIDTH, HEADS, ENCODER_LAYERS, DECODER_LAYERS, INNER = 32, 4, 3, 2, 48
PADDING, END, BEGIN = 0, 1, 2

# Values and gradients are of the order of one, and float32 keeps seven digits: sums in another
# order leave 1e-6 here (measured). A wrong equation is off by 1e-3 and more.
TOLERANCE = {"atol": 1e-5, "rtol": 0.0}


def our_model(feed_forward: str) -> Transformer:
    model = build_from_recipe(
        Recipe.model_validate(
            {
                "tokenizer": {"vocabulary_size": VOCABULARY},
                "model": {
                    "width": WIDTH,
                    "heads": HEADS,
                    "encoder_layers": ENCODER_LAYERS,
                    "decoder_layers": DECODER_LAYERS,
                    "feed_forward_width": INNER,
                    "feed_forward": feed_forward,
                    "position": {"name": "sinusoidal", "layout": "halves"},
                    "norm": "post",
                    "tied_embeddings": "all",
                    "dropout": 0.0,
                },
            }
        )
    )
    # Biases start at zero and norms as the identity: noise, so that nothing agrees by
    # being left out.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def their_model(ours: Transformer, activation: str) -> MarianMTModel:
    """Build their model with our weights; every one of their weights is replaced."""
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            encoder_layers=ENCODER_LAYERS,
            decoder_layers=DECODER_LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=INNER,
            decoder_ffn_dim=INNER,
            activation_function=activation,
            scale_embedding=True,
            dropout=0.0,
            max_position_embeddings=64,
            pad_token_id=PADDING,
            eos_token_id=END,
            decoder_start_token_id=BEGIN,
            # By default the last place allowed is made an end, whatever the model says.
            forced_eos_token_id=None,
            attn_implementation="eager",
        )
    ).eval()
    learned = {name: weight for name, weight in theirs.named_parameters() if weight.requires_grad}
    with torch.no_grad():
        for parameter in learned.values():
            parameter.fill_(float("nan"))
        for name, parameter in ours.named_parameters():
            learned[their_name(name)].copy_(parameter)
    for name, parameter in learned.items():
        assert not parameter.isnan().any(), f"nothing of ours was copied to their {name}"
    assert not theirs.final_logits_bias.any()
    return theirs


def their_name(name: str) -> str:
    """Return their name of one of our parameters."""
    for ours, theirs in {
        "source_embedding": "shared",
        "self_attention.heads": "self_attn",
        "cross_attention.heads": "encoder_attn",
        "query": "q_proj",
        "key": "k_proj",
        "value": "v_proj",
        "output": "out_proj",
        "self_residual.norm": "self_attn_layer_norm",
        "cross_residual.norm": "encoder_attn_layer_norm",
        "feed_forward.residual.norm": "final_layer_norm",
        "feed_forward.network.expand": "fc1",
        "feed_forward.network.contract": "fc2",
    }.items():
        name = name.replace(ours, theirs)
    return f"model.{name}"


def padded_source(lengths: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Random sentences and their mask. No word is the padding token."""
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    source = torch.randint(PADDING + 1, VOCABULARY, is_real.shape)
    return source.masked_fill(~is_real, PADDING), is_real


@pytest.mark.parametrize("activation", ["relu", "swish"])
def test_logits_and_gradients_are_those_of_marian(activation: str) -> None:
    ours = our_model(activation)
    theirs = their_model(ours, activation)
    source, is_real = padded_source((7, 4, 1))
    # Their embedding keeps every gradient from the padding's row, so the target goes without it.
    target, wanted = torch.randint(PADDING + 1, VOCABULARY, (2, 3, 6))

    logits = ours(source, is_real, target)
    expected = theirs(
        input_ids=source, attention_mask=is_real.long(), decoder_input_ids=target
    ).logits
    torch.testing.assert_close(logits, expected, **TOLERANCE)

    for scores in (logits, expected):
        F.cross_entropy(scores.flatten(0, 1), wanted.flatten()).backward()
    for name, parameter in ours.named_parameters():
        gradient = theirs.get_parameter(their_name(name)).grad
        torch.testing.assert_close(
            parameter.grad, gradient, **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}"
        )
        # Two zeros would agree. The bias of a key has no gradient: it adds the same number to all
        # scores of a query, which the softmax takes away again.
        if not name.endswith("key.bias"):
            assert gradient.abs().max() > 1e-4, name


def memorise(model: Transformer, source: torch.Tensor, is_real: torch.Tensor) -> None:
    """Train on random targets of different lengths: an untrained model repeats one token."""
    length = len(source) + 4
    wanted = torch.randint(END + 1, VOCABULARY, (len(source), length))
    for row in range(len(source)):
        wanted[row, row + 2 :] = END
    target = torch.cat([torch.full((len(source), 1), BEGIN), wanted[:, :-1]], dim=1)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = F.cross_entropy(model(source, is_real, target).flatten(0, 1), wanted.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@pytest.mark.slow
def test_greedy_search_finds_the_same_tokens() -> None:
    ours = our_model("swish")
    source, is_real = padded_source((9, 7, 6, 5, 4, 3, 2, 1))
    memorise(ours, source, is_real)
    theirs = their_model(ours, "swish")
    max_extra_tokens = 4

    search = Greedy(DecodingRecipe(max_extra_tokens=max_extra_tokens), BEGIN, END)
    translations = [sentence for [sentence] in search.run(ours, source, is_real)]
    expected = theirs.generate(
        source,
        attention_mask=is_real.long(),
        num_beams=1,
        do_sample=False,
        max_new_tokens=length_limit(source.shape[1] - 1, search.settings),
    )

    assert expected[:, 0].tolist() == [BEGIN] * len(source)
    lengths = (is_real.sum(dim=1) - 1).tolist()
    limits = [length_limit(length, search.settings) for length in lengths]
    for sentence, row, limit in zip(translations, expected[:, 1:].tolist(), limits, strict=True):
        # Ours stops at a length of the sentence's own, theirs at one for the batch.
        whole = row[: row.index(END) + 1] if END in row else row
        tokens = [*sentence.tokens, END] if sentence.is_finished else list(sentence.tokens)
        assert tokens == whole[:limit]
    # Nothing of this is empty, and no two sentences are the same.
    assert len({sentence.tokens for sentence in translations}) == len(translations)
