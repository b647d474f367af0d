"""How wrong is the model?

    loss = Σ over target tokens of  (1 − ε) · −log p(token) + ε/V · Σᵥ −log p(v)

Cross-entropy against the truth smoothed by ε (Szegedy et al., 2016; Vaswani et al., 2017). It is a
sum, not a mean: micro-batches are added up, and divided by their tokens once.

The matrix of all logits is the largest thing in training. `plain_loss` makes it, and is the
definition; `chunked_loss` never does: it takes some rows at a time, and finds the gradient while
it has them. With R-Drop (Liang et al., 2021; not in the lectures) every sentence is read twice,
and the two dropouts are asked to agree:  loss₁ + loss₂ + α/2 · (KL(p₁‖p₂) + KL(p₂‖p₁)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.shapes import Bool, Float, Int, Tensor

CHUNK = 256
"""Rows of logits at a time: enough to keep the cores busy, few enough to stay near them."""


class MicroBatch(NamedTuple):
    """What the model reads, and what it should say."""

    source: Int[Tensor, "B S"]
    source_is_real: Bool[Tensor, "B S"]
    target: Int[Tensor, "B T"]
    expected: Int[Tensor, "B T"]
    target_is_real: Bool[Tensor, "B T"]


class Objective(nn.Module):
    """The model together with its loss: what is wrapped, compiled, and made smaller.

    Loss and output matrix stand in one `forward`, so that a wrapper which shards the weights has
    them whole at the moment they are needed. To a search it looks like the model.
    """

    def __init__(self, model: EncoderDecoder, label_smoothing: float, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop

    def forward(self, batch: MicroBatch) -> Float[Tensor, ""]:
        """Sum the loss over all real target tokens."""
        if self.r_drop and self.training:
            return self._with_r_drop(batch)
        states, weight = self.model.factors(batch.source, batch.source_is_real, batch.target)
        is_real = batch.target_is_real
        return chunked_loss(states[is_real], weight, batch.expected[is_real], self.label_smoothing)

    def _with_r_drop(self, batch: MicroBatch) -> Float[Tensor, ""]:
        twice = MicroBatch(*(torch.cat([each, each]) for each in batch))
        states, weight = self.model.factors(twice.source, twice.source_is_real, twice.target)
        read, expected = states[twice.target_is_real], batch.expected[batch.target_is_real]
        return chunked_agreement(read, weight, expected, self.label_smoothing, self.r_drop)

    def encode(self, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]) -> Any:
        """Read the source."""
        return self.model.encode(source, is_real)

    def decode(
        self, target: Int[Tensor, "B T"], memory: Any, cache: Any = None
    ) -> tuple[Float[Tensor, "B T V"], Any]:
        """Score what may follow."""
        return self.model.decode(target, memory, cache)


def plain_loss(
    states: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    expected: Int[Tensor, " N"],
    label_smoothing: float,
) -> Float[Tensor, ""]:
    """Make all logits, and sum the loss of their rows."""
    logits = F.linear(states, weight).float()
    return F.cross_entropy(logits, expected, reduction="sum", label_smoothing=label_smoothing)


def chunked_loss(
    states: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    expected: Int[Tensor, " N"],
    label_smoothing: float,
    chunk: int = CHUNK,
) -> Float[Tensor, ""]:
    """Sum the same loss without ever holding more than `chunk` rows of logits."""
    loss: Tensor = _ChunkedLoss.apply(states, weight, expected, label_smoothing, chunk)  # type: ignore[no-untyped-call]
    return loss


class _ChunkedLoss(torch.autograd.Function):
    """The gradient of a row of logits is softmax − truth; so it is known when the row is.

    What smoothing adds to every word is the same for all: it is taken out of the matrix, as
    −ε/V · Σᵥ zᵥ = −ε/V · h · Σᵥ wᵥ, and needs no walk over the vocabulary.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, expected: Tensor, smoothing: float, chunk: int
    ) -> Tensor:
        share = smoothing / weight.shape[0]
        wants_gradient = any(ctx.needs_input_grad)
        features, matrix = _in_working_type(states, weight)
        words, total = weight.float().sum(dim=0), states.float().sum(dim=0)
        # Not a product of matrices, which autocast would round, and all that is added to it.
        loss = -share * (total * words).sum()
        to_states = torch.empty_like(features)
        to_weight = torch.zeros_like(weight, dtype=torch.float32)
        room = features.new_empty(min(chunk, len(states)), len(weight), dtype=torch.float32)
        for start in range(0, len(states), chunk):
            rows = slice(start, start + chunk)
            told = expected[rows].unsqueeze(1)
            logits = room[: len(told)]
            _multiply(features[rows], matrix, logits)
            truth = logits.gather(1, told)
            largest = logits.amax(dim=1, keepdim=True)
            norm = logits.sub_(largest).exp_().sum(dim=1, keepdim=True)
            loss += (largest + norm.log() - (1 - smoothing) * truth).sum()
            if wants_gradient:
                logits.div_(norm)
                logits.scatter_add_(1, told, torch.full_like(truth, smoothing - 1))
                gradient = logits.to(features.dtype)
                torch.mm(gradient, matrix, out=to_states[rows])
                to_weight += gradient.t() @ features[rows]
        to_states -= (share * words).to(features.dtype)
        to_weight -= share * total
        ctx.states_type, ctx.weight_type = states.dtype, weight.dtype
        ctx.save_for_backward(to_states, to_weight)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        to_states, to_weight = ctx.saved_tensors
        for_weight = (gradient * to_weight).to(ctx.weight_type)
        return gradient * to_states.to(ctx.states_type), for_weight, None, None, None


def plain_agreement(
    states: Float[Tensor, "2N E"],
    weight: Float[Tensor, "V E"],
    expected: Int[Tensor, " N"],
    label_smoothing: float,
    r_drop: float,
) -> Float[Tensor, ""]:
    """Make all logits of both readings, one below the other; sum their losses and what parts them.

    Half of it, so that a token weighs as much as without R-Drop.
    """
    logits = F.linear(states, weight).float()
    first, second = logits.log_softmax(dim=-1).chunk(2)
    apart = F.kl_div(first, second, reduction="sum", log_target=True) + F.kl_div(
        second, first, reduction="sum", log_target=True
    )
    both = F.cross_entropy(
        logits, expected.repeat(2), reduction="sum", label_smoothing=label_smoothing
    )
    return (both + r_drop / 2 * apart) / 2


def chunked_agreement(
    states: Float[Tensor, "2N E"],
    weight: Float[Tensor, "V E"],
    expected: Int[Tensor, " N"],
    label_smoothing: float,
    r_drop: float,
    chunk: int = CHUNK // 2,
) -> Float[Tensor, ""]:
    """Sum the same loss without ever holding more than `chunk` rows of each reading."""
    loss: Tensor = _ChunkedAgreement.apply(  # type: ignore[no-untyped-call]
        states, weight, expected, label_smoothing, r_drop, chunk
    )
    return loss


class _ChunkedAgreement(torch.autograd.Function):
    """With d = log p − log q, what parts two rows is Σ (p − q) · d, the same from either side.

    Its gradient by the logits of p is  p · (d − Σ p·d) + p − q,  and that of q the same with their
    places changed. Smoothing is taken out of the matrix as in `_ChunkedLoss`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        expected: Tensor,
        smoothing: float,
        r_drop: float,
        chunk: int,
    ) -> Tensor:
        share = smoothing / len(weight)
        features, matrix = _in_working_type(states, weight)
        words, total = weight.float().sum(dim=0), states.float().sum(dim=0)
        loss = -share * (total * words).sum()
        to_states = torch.empty_like(features)
        to_weight = torch.zeros_like(weight, dtype=torch.float32)
        count, half = len(expected), r_drop / 2
        rooms = features.new_empty(4, min(chunk, count), len(weight), dtype=torch.float32)
        for start in range(0, count, chunk):
            told = expected[start : start + chunk].unsqueeze(1)
            readings = [slice(at, at + len(told)) for at in (start, start + count)]
            spare, scratch, *logs = (room[: len(told)] for room in rooms)
            for rows, scores in zip(readings, logs, strict=True):
                _multiply(features[rows], matrix, scores)
                truth = scores.gather(1, told)
                largest = scores.amax(dim=1, keepdim=True)
                torch.sub(scores, largest, out=scratch)
                log_sum = largest + scratch.exp_().sum(dim=1, keepdim=True).log()
                loss += (log_sum - (1 - smoothing) * truth).sum()
                scores.sub_(log_sum)
            apart = torch.sub(logs[0], logs[1], out=scratch)
            first, second = (scores.exp_() for scores in logs)
            means = [torch.linalg.vecdot(each, apart).unsqueeze(1) for each in (first, second)]
            loss += half * (means[0] - means[1]).sum()
            # Of all that is in a gradient, half the weight of R-Drop is taken out, and put back
            # where it is a small matrix:  p + α/2 · (p·(d − Σ p·d) + p − q).
            own = (1 + half) / half
            pull = torch.add(apart, own - means[0], out=spare)
            gradients = (
                pull.mul_(first).sub_(second),
                torch.sub(own + means[1], apart, out=apart).mul_(second).sub_(first),
            )
            for rows, each in zip(readings, gradients, strict=True):
                each.scatter_add_(1, told, torch.full_like(truth, (smoothing - 1) / half))
                gradient = each.to(features.dtype)
                torch.mm(gradient, matrix, out=to_states[rows])
                to_weight += gradient.t() @ features[rows]
        to_states *= half
        to_weight *= half
        to_states -= (share * words).to(features.dtype)
        to_weight -= share * total
        ctx.states_type, ctx.weight_type = states.dtype, weight.dtype
        ctx.save_for_backward(to_states, to_weight)
        return loss / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        to_states, to_weight = ctx.saved_tensors
        for_weight = (gradient / 2 * to_weight).to(ctx.weight_type)
        return gradient / 2 * to_states.to(ctx.states_type), for_weight, None, None, None, None


def _in_working_type(states: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of the logits, in the type in which autocast multiplies, if it is on."""
    device = states.device.type
    is_mixed = torch.is_autocast_enabled(device)
    low = torch.get_autocast_dtype(device) if is_mixed else states.dtype
    return states.to(low), weight.to(low)


def _multiply(features: Tensor, matrix: Tensor, room: Tensor) -> None:
    """Write logits into memory that is there: new memory costs more than the sums."""
    if features.dtype == torch.float32:
        torch.mm(features, matrix.t(), out=room)
    else:
        room.copy_(F.linear(features, matrix))
