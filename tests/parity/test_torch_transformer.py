"""Parity with `torch.nn.Transformer`, forward and backward.

Their encoder and decoder have neither embeddings nor positions, so ours goes without positions and
theirs is fed and read through the same matrix E: √width · E[tokens] in, states · Eᵀ out.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.build import build_from_recipe
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import Recipe
from support.small_models import VOCABULARY, Sentences, sentences

WIDTH, HEADS, ENCODER_LAYERS, DECODER_LAYERS, INNER = 32, 4, 3, 2, 48

# Values and gradients are of the order of one, and float32 keeps seven digits: sums in another
# order leave 4e-7 here (measured). A wrong equation is off by 1e-3 and more.
TOLERANCE = {"atol": 1e-5, "rtol": 0.0}


def our_model(norm: str, feed_forward: str) -> Transformer:
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
                    "position": "none",
                    "norm": norm,
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
    return model


def their_model(norm: str, activation: str) -> nn.Transformer:
    sizes = {"dim_feedforward": INNER, "dropout": 0.0, "activation": activation}
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, batch_first=True, norm_first=norm == "pre", **sizes
    )
    model = nn.Transformer(
        WIDTH,
        HEADS,
        num_decoder_layers=DECODER_LAYERS,
        batch_first=True,
        norm_first=norm == "pre",
        # Built by hand only because nested tensors warn that they cannot be had with pre-norm.
        custom_encoder=nn.TransformerEncoder(
            layer, ENCODER_LAYERS, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False
        ),
        **sizes,
    )
    if norm == "post":
        # Theirs norms once more behind the last layer, which the paper does not.
        model.encoder.norm = None
        model.decoder.norm = None
    return model


def their_name(name: str) -> tuple[str, slice]:
    """Return their name of one of our parameters, and the rows of it."""
    norm_of_feed_forward = "norm2" if name.startswith("encoder") else "norm3"
    for ours, theirs in {
        "self_attention.heads": "self_attn",
        "cross_attention.heads": "multihead_attn",
        "output": "out_proj",
        "self_residual.norm": "norm1",
        "cross_residual.norm": "norm2",
        "feed_forward.residual.norm": norm_of_feed_forward,
        "feed_forward.network.expand": "linear1",
        "feed_forward.network.contract": "linear2",
    }.items():
        name = name.replace(ours, theirs)
    for part, projection in enumerate(("query", "key", "value")):
        if f".{projection}." in name:
            packed = name.replace(f"{projection}.", "in_proj_")
            return packed, slice(part * WIDTH, (part + 1) * WIDTH)
    return name, slice(None)


def copy_weights(ours: Transformer, theirs: nn.Transformer) -> None:
    """Copy all weights but the embedding; every one of their weights is replaced."""
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.fill_(float("nan"))
        for name, parameter in ours.named_parameters():
            if name != "source_embedding.weight":
                their, rows = their_name(name)
                theirs.get_parameter(their)[rows] = parameter
    for name, parameter in theirs.named_parameters():
        assert not parameter.isnan().any(), f"nothing of ours was copied to their {name}"


def their_logits(model: nn.Transformer, embedding: Tensor, batch: Sentences) -> Tensor:
    length = batch.target.shape[1]
    states = model(
        WIDTH**0.5 * F.embedding(batch.source, embedding),
        WIDTH**0.5 * F.embedding(batch.target, embedding),
        # Their masks are True where one may not look.
        tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
        src_key_padding_mask=~batch.is_real,
        memory_key_padding_mask=~batch.is_real,
    )
    return states @ embedding.T


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_logits_and_gradients_are_those_of_torch(norm: str, activation: str) -> None:
    ours, theirs = our_model(norm, activation), their_model(norm, activation)
    copy_weights(ours, theirs)
    embedding = ours.source_embedding.weight.detach().clone().requires_grad_()
    batch = sentences()
    wanted = torch.randint(VOCABULARY, batch.target.shape)

    logits = ours(*batch)
    expected = their_logits(theirs, embedding, batch)
    torch.testing.assert_close(logits, expected, **TOLERANCE)

    for scores in (logits, expected):
        F.cross_entropy(scores.flatten(0, 1), wanted.flatten()).backward()
    for name, parameter in ours.named_parameters():
        if name == "source_embedding.weight":
            gradient = embedding.grad
        else:
            their, rows = their_name(name)
            gradient = theirs.get_parameter(their).grad[rows]
        torch.testing.assert_close(
            parameter.grad, gradient, **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}"
        )
        # Two zeros would agree. The bias of a key has no gradient: it adds the same number to all
        # scores of a query, which the softmax takes away again.
        if not name.endswith("key.bias"):
            assert gradient.abs().max() > 1e-4, name
