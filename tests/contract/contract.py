"""What does every model promise, whatever parts it is made of?

Each function takes a model in evaluation mode and checks one promise. Promises of exactness are
checked to the bit, because both runs have the same shapes and so the same order of sums; where
shapes differ, sums are grouped differently and the last bits of float32 may differ too.

Inputs come from a seed of their own, so a check says the same wherever it is called.
"""

from __future__ import annotations

import copy
from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)
from torch.utils._pytree import tree_leaves

from dragoman.model.attention import Attention
from dragoman.model.build import build_model
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.model.initialisation import initialise
from dragoman.model.parts import Reach
from dragoman.model.transformer import Transformer
from dragoman.recipe import ModelRecipe, Recipe
from small_models import VOCABULARY, Sentences, sentences

ROUNDING = 1e-5
"""Between two orders of summation. Logits are of size 1 to 10, where float32 is exact to 1e-6;
over all combinations of parts the largest difference that we have measured was 2.3e-6."""

BFLOAT16_ERROR = 0.05
"""Relative, of all logits together. One rounding to 8 bits is an error of 0.2 %; the largest that
we have measured after four layers was 2.1 %. A wrong formula would be off by 100 %."""

CLEAR = 1e-4
"""How much better than the next one the best score must be, relative to its size."""


class UndecidedError(Exception):
    """Every batch that was tried has a hard choice between two scores that are nearly equal."""


def some_sentences(seed: int = 0) -> Sentences:
    """A padded batch that depends on nothing but the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return sentences()


def clear_sentences(model: EncoderDecoder) -> Sentences:
    """A batch for which no hard choice of the model hangs on the last bits of a score.

    The argmax of nearly equal scores flips with the order of summation, and then the whole output
    is another one, rightly. So models that choose are compared between shapes only on batches
    where every choice is clear. Words do not repeat there: without positions, a word that stands
    twice ties with itself.
    """
    if not _choosing(model):
        return some_sentences()
    for seed in range(50):
        batch = _without_repetition(some_sentences(seed), seed)
        if _smallest_lead(model, batch) > CLEAR:
            return batch
    raise UndecidedError


def _choosing(model: nn.Module) -> list[Reach]:
    return [each for each in model.modules() if isinstance(each, Reach) and not each.is_softmax]


def _without_repetition(batch: Sentences, seed: int) -> Sentences:
    def draw(like: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        rows = [torch.randperm(VOCABULARY, generator=generator) for _ in like]
        return torch.stack(rows)[:, : like.shape[1]]

    return batch._replace(source=draw(batch.source), target=draw(batch.target))


def _smallest_lead(model: EncoderDecoder, batch: Sentences) -> float:
    """How far the best visible score is ahead of the next, where this is least."""
    leads: list[float] = []

    def listen(_: nn.Module, given: tuple[Tensor, Tensor], __: Tensor) -> None:
        scores, mask = given
        visible = F.pad(scores.masked_fill(~mask, -torch.inf), (0, 1), value=-torch.inf)
        best, second = visible.topk(2, dim=-1).values.unbind(-1)
        leads.append(((best - second) / (1 + best.abs())).min().item())

    hooks = [reach.register_forward_hook(listen) for reach in _choosing(model)]
    with torch.no_grad():
        model(*batch)
    for hook in hooks:
        hook.remove()
    return min(leads)


def loss_of(logits: Tensor, target: Tensor) -> Tensor:
    """The training loss: each place is to say the next token; the last one begins again."""
    return F.cross_entropy(logits.float().flatten(0, 1), target.roll(-1, dims=1).flatten())


def assert_close(found: Tensor, expected: Tensor) -> None:
    """Equal up to the order of summation."""
    torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING)


@torch.no_grad()
def check_shapes(model: Transformer, settings: ModelRecipe) -> None:
    """Every output has the size that the settings say."""
    source, is_real, target = some_sentences()
    (batch, source_length), target_length = source.shape, target.shape[1]
    memory = model.encode(source, is_real)
    is_same_height = settings.cross_attention == "same_height"
    assert len(memory.heights) == (settings.encoder_layers if is_same_height else 1)
    for states in memory.heights:
        assert states.shape == (batch, source_length, settings.width)
    logits, cache = model.decode(target, memory)
    assert logits.shape == (batch, target_length, VOCABULARY)
    assert cache.length == target_length
    assert len(cache.layers) == settings.decoder_layers
    for layer in cache.layers:
        for kept, length in ((layer.target, target_length), (layer.source, source_length)):
            assert kept.keys.shape == kept.values.shape
            assert kept.keys.shape[:3] == (batch, settings.head_count, length)


def check_gradients_are_finite(model: EncoderDecoder) -> None:
    """The loss is finite, and every weight learns something finite from it."""
    _gradients(model, some_sentences())


def _gradients(model: EncoderDecoder, batch: Sentences) -> list[Tensor]:
    loss = loss_of(model(*batch), batch.target)
    assert loss.isfinite(), f"the loss is {loss.item()}"
    names, weights = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, weights, allow_unused=True)
    for name, gradient in zip(names, gradients, strict=True):
        assert gradient is not None, f"{name} does nothing"
        assert gradient.isfinite().all(), f"the gradient of {name} is not finite"
    return list(gradients)


@torch.no_grad()
def check_padding_is_ignored(model: EncoderDecoder) -> None:
    """What stands behind the end of a source changes no bit of the output."""
    source, is_real, target = some_sentences()
    other = (source + 1) % VOCABULARY
    logits = model(source, is_real, target)
    assert torch.equal(model(torch.where(is_real, source, other), is_real, target), logits)
    # The real words do change it, or the line above would say nothing.
    assert not torch.equal(model(torch.where(is_real, other, source), is_real, target), logits)


@torch.no_grad()
def check_no_peeking(model: EncoderDecoder) -> None:
    """A target token changes no bit of what was said before it, and something from it on."""
    source, is_real, target = some_sentences()
    places = target.shape[1]
    # One row for each place: in row t, token t is another one.
    same_source, same_real = source[:1].expand(places, -1), is_real[:1].expand(places, -1)
    before = target[:1].repeat(places, 1)
    after = (before + torch.eye(places, dtype=torch.long)) % VOCABULARY
    expected, found = model(same_source, same_real, before), model(same_source, same_real, after)
    assert expected.isfinite().all()  # What is not a number is not equal to itself either.
    for place in range(places):
        assert torch.equal(found[place, :place], expected[place, :place]), f"peeks at {place}"
        assert not torch.equal(found[place, place:], expected[place, place:]), f"deaf to {place}"


@torch.no_grad()
def check_cache(model: EncoderDecoder) -> None:
    """Step by step with the cache is the same as all at once, in any pieces and any order."""
    check_pieces(model, [1] * 6, [1, 3, 2], [4, 2])
    source, is_real, target = clear_sentences(model)
    memory = model.encode(source, is_real)
    # As a beam does: one sentence is taken twice, and none is where it was.
    rows = torch.tensor([2, 0, 0, 1])
    first, rest = target[:, :3], target[rows, 3:]
    _, cache = model.decode(first, memory)
    going_on, _ = model.decode(rest, memory.reorder(rows), cache.reorder(rows, rows))
    assert_close(going_on, model(source[rows], is_real[rows], target[rows])[:, 3:])
    # Nothing of that changed the cache: it can be gone on from again.
    assert cache.length == 3
    again, _ = model.decode(target[:, 3:], memory, cache)
    assert_close(again, model(source, is_real, target)[:, 3:])


@torch.no_grad()
def check_pieces(model: EncoderDecoder, *splits: list[int]) -> None:
    """Going on with the cache, piece by piece of these sizes, is the same as all at once."""
    source, is_real, target = clear_sentences(model)
    memory = model.encode(source, is_real)
    whole, _ = model.decode(target, memory)
    for sizes in splits:
        cache, said = None, []
        for piece in target.split(sizes, dim=1):
            logits, cache = model.decode(piece, memory, cache)
            said.append(logits)
        assert_close(torch.cat(said, dim=1), whole)


@torch.no_grad()
def check_batch_is_one_by_one(model: EncoderDecoder) -> None:
    """A sentence has the same scores alone as in company that is longer."""
    source, is_real, target = clear_sentences(model)
    together = model(source, is_real, target)
    for row, length in enumerate(is_real.sum(dim=1).tolist()):
        words = source[row : row + 1, :length]
        alone = model(words, torch.ones_like(words, dtype=torch.bool), target[row : row + 1])
        assert_close(alone, together[row : row + 1])


@torch.no_grad()
def check_fused_is_plain(model: EncoderDecoder) -> None:
    """The fused kernel, wherever it is taken, gives what the definition gives."""
    batch = clear_sentences(model)
    expected = model(*batch)
    plain = copy.deepcopy(model)
    for module in plain.modules():
        if isinstance(module, Attention):
            module.is_fusable = False
    assert_close(plain(*batch), expected)


def check_bfloat16(model: EncoderDecoder) -> None:
    """In bfloat16 all stays in bfloat16, and finite."""
    batch = some_sentences()
    half = copy.deepcopy(model).to(torch.bfloat16)
    assert {each.dtype for each in _gradients(half, batch)} == {torch.bfloat16}
    with torch.no_grad():
        memory = half.encode(batch.source, batch.is_real)
        logits, cache = half.decode(batch.target, memory)
    kept = [each for each in tree_leaves((memory, cache)) if isinstance(each, Tensor)]
    numbers = [each for each in kept if each.dtype != torch.bool]
    assert {each.dtype for each in (*numbers, logits)} == {torch.bfloat16}


@torch.no_grad()
def check_bfloat16_is_near(model: EncoderDecoder) -> None:
    """In bfloat16 the model says nearly what it says in float32, if it chooses nothing.

    Not a promise of every combination: unscaled scores of several layers make the softmax nearly
    a choice, and a choice may fall otherwise in 8 bits.
    """
    if _choosing(model):
        return
    batch = some_sentences()
    expected, found = model(*batch), copy.deepcopy(model).to(torch.bfloat16)(*batch)
    error = (found.float() - expected).square().mean() / expected.square().mean()
    assert error.sqrt() < BFLOAT16_ERROR


def check_no_buffers(model: EncoderDecoder) -> None:
    """A buffer would be lost between the meta device and `initialise`."""
    assert list(model.buffers()) == []


def check_training(model: EncoderDecoder) -> None:
    """Some steps lower the loss by a tenth and more."""
    model = copy.deepcopy(model).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batch = some_sentences()
    losses = []
    for _ in range(8):
        loss = loss_of(model(*batch), batch.target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


PROMISES = (
    check_gradients_are_finite,
    check_padding_is_ignored,
    check_no_peeking,
    check_cache,
    check_batch_is_one_by_one,
    check_fused_is_plain,
    check_bfloat16,
    check_bfloat16_is_near,
    check_no_buffers,
    check_training,
)
"""What every model keeps that is made of parts which can do it: Transformers and their rivals."""


def check_first_weights(model: EncoderDecoder, recipe: Recipe) -> None:
    """Built on the meta device, materialised and initialised, a model is the one built at once."""
    with torch.device("meta"):
        empty = build_model(recipe.model, VOCABULARY, VOCABULARY)
    assert all(weight.is_meta for weight in empty.parameters())
    empty.to_empty(device="cpu")
    with torch.no_grad():
        for weight in empty.parameters():
            weight.fill_(torch.nan)  # Fresh memory may hold zeros, as a bias should.
    initialise(empty, recipe.seed)
    expected, found = model.state_dict(), empty.state_dict()
    assert found.keys() == expected.keys()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name
    batch = some_sentences()
    assert torch.equal(empty.eval()(*batch), model(*batch))


def check_all(model: Transformer, settings: ModelRecipe) -> None:
    """Every promise that every combination keeps."""
    check_shapes(model, settings)
    check_gradients_are_finite(model)
    check_padding_is_ignored(model)
    check_no_peeking(model)
    check_bfloat16(model)
    # Some combinations tie by construction: bare hard heads that see nothing but a position have
    # keys of one direction. The first best key is then a matter of rounding, and no promise.
    with suppress(UndecidedError):
        check_cache(model)
        check_batch_is_one_by_one(model)
        check_fused_is_plain(model)
