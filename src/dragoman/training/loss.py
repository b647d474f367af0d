"""The training loss: cross-entropy with label smoothing, and R-Drop.

    loss = Σ over target tokens of  (1 − ε) · −log p(token) + ε/V · Σᵥ −log p(v)

Label smoothing ε: Szegedy et al. (2016), Vaswani et al. (2017). The loss is a sum, not a mean:
gradients of micro-batches are summed and divided by the number of tokens once.

With R-Drop (Liang et al., 2021; not in the lectures) each sentence passes through the model twice
with different dropout, and the divergence of the two distributions p and q is added to the loss:

    (loss₁ + loss₂ + α/2 · (KL(p‖q) + KL(q‖p))) / 2

The logits of all tokens are the largest tensor of training. `plain_loss` computes all of them; it
is the definition. `chunked_loss` computes the same value and gradients from a few rows at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.model.cache import Cache, Memory
from dragoman.model.encoder_decoder import EncoderDecoder
from dragoman.shapes import Bool, Float, Int, Tensor

CHUNK = 256
"""Rows of logits per chunk: enough to use all cores, few enough to fit in the CPU cache."""


class MicroBatch(NamedTuple):
    """The input of the model, and the tokens that it should predict."""

    source: Int[Tensor, "B S"]
    source_is_real: Bool[Tensor, "B S"]
    target: Int[Tensor, "B T"]
    expected: Int[Tensor, "B T"]
    target_is_real: Bool[Tensor, "B T"]


class Objective(nn.Module):
    """The model together with its loss; DDP or FSDP wraps this module.

    The output matrix and the loss are used in one `forward`, so that FSDP has gathered the matrix
    when the loss needs it. `encode` and `decode` let a search use the objective like a model.
    """

    def __init__(self, model: EncoderDecoder, label_smoothing: float, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop

    def forward(self, batch: MicroBatch) -> Float[Tensor, ""]:
        """Return the sum of the loss over all real target tokens."""
        if self.r_drop and self.training:
            return self._loss_with_r_drop(batch)
        return self._loss(batch, self.label_smoothing)

    def validation_loss(self, batch: MicroBatch) -> Float[Tensor, ""]:
        """Return the sum of −log p over all real target tokens, without label smoothing."""
        return self._loss(batch, 0.0)

    def _loss(self, batch: MicroBatch, label_smoothing: float) -> Float[Tensor, ""]:
        states, weight = self.model.logit_factors(batch.source, batch.source_is_real, batch.target)
        is_real = batch.target_is_real
        return chunked_loss(states[is_real], weight, batch.expected[is_real], label_smoothing)

    def _loss_with_r_drop(self, batch: MicroBatch) -> Float[Tensor, ""]:
        twice = MicroBatch(*(torch.cat([tensor, tensor]) for tensor in batch))
        states, weight = self.model.logit_factors(twice.source, twice.source_is_real, twice.target)
        real_states = states[twice.target_is_real]
        expected = batch.expected[batch.target_is_real]
        return chunked_r_drop_loss(real_states, weight, expected, self.label_smoothing, self.r_drop)

    @property
    def max_positions(self) -> int | None:
        """The maximum sequence length of the model, in tokens; None if there is no limit."""
        return self.model.max_positions

    def encode(self, source: Int[Tensor, "B S"], is_real: Bool[Tensor, "B S"]) -> Memory:
        """Call `encode` of the model."""
        return self.model.encode(source, is_real)

    def decode(
        self, target: Int[Tensor, "N T"], memory: Memory, cache: Cache | None = None
    ) -> tuple[Float[Tensor, "N T V"], Cache]:
        """Call `decode` of the model."""
        return self.model.decode(target, memory, cache)


def plain_loss(
    states: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    expected: Int[Tensor, " N"],
    label_smoothing: float,
) -> Float[Tensor, ""]:
    """Compute all logits at once, and sum the loss over their rows."""
    logits = F.linear(states, weight).float()
    return F.cross_entropy(logits, expected, reduction="sum", label_smoothing=label_smoothing)


def chunked_loss(
    states: Float[Tensor, "N E"],
    weight: Float[Tensor, "V E"],
    expected: Int[Tensor, " N"],
    label_smoothing: float,
    chunk: int = CHUNK,
) -> Float[Tensor, ""]:
    """Return the same loss with at most `chunk` rows of logits in memory."""
    if not torch.is_grad_enabled():  # `needs_input_grad` does not consider `torch.no_grad`.
        states, weight = states.detach(), weight.detach()
    loss: Tensor = _ChunkedLoss.apply(states, weight, expected, label_smoothing, chunk)  # type: ignore[no-untyped-call]
    return loss


class _ChunkedLoss(torch.autograd.Function):
    """Computes the gradients in the forward pass, so that no logits are stored.

    The gradient of the loss with respect to a row of logits is softmax − target. The term of label
    smoothing is computed without logits: for a state h and the rows wᵥ of the weight, the logits
    are zᵥ = h · wᵥ, so  −ε/V · Σᵥ zᵥ = −ε/V · h · Σᵥ wᵥ.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, expected: Tensor, smoothing: float, chunk: int
    ) -> Tensor:
        share = smoothing / len(weight)  # ε/V
        needs_gradient = any(ctx.needs_input_grad)
        features, matrix = _in_working_dtype(states, weight)
        weight_sum, state_sum = weight.float().sum(dim=0), states.float().sum(dim=0)
        # Not a matrix product: autocast would compute it in 16 bits, and all later sums as well.
        loss = -share * (state_sum * weight_sum).sum()
        if needs_gradient:
            states_gradient = torch.empty_like(features)
            # A frozen weight, as with adapters, needs no gradient.
            weight_gradient = (
                torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
            )
        buffer = features.new_empty(min(chunk, len(states)), len(weight), dtype=torch.float32)
        for start in range(0, len(states), chunk):
            rows = slice(start, start + chunk)
            targets = expected[rows].unsqueeze(1)
            logits = buffer[: len(targets)]
            _multiply_into(logits, features[rows], matrix)
            target_logits = logits.gather(1, targets)
            largest = logits.amax(dim=1, keepdim=True)
            norm = logits.sub_(largest).exp_().sum(dim=1, keepdim=True)
            loss += (largest + norm.log() - (1 - smoothing) * target_logits).sum()
            if needs_gradient:
                logits.div_(norm)
                logits.scatter_add_(1, targets, torch.full_like(target_logits, smoothing - 1))
                gradient = logits.to(features.dtype)
                torch.mm(gradient, matrix, out=states_gradient[rows])
                if weight_gradient is not None:
                    weight_gradient += gradient.t() @ features[rows]
        if needs_gradient:
            states_gradient -= (share * weight_sum).to(features.dtype)
            if weight_gradient is not None:
                weight_gradient -= share * state_sum
            ctx.states_dtype, ctx.weight_dtype = states.dtype, weight.dtype
            ctx.save_for_backward(states_gradient, weight_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states_gradient, weight_gradient = ctx.saved_tensors
        for_weight = None
        if weight_gradient is not None:
            for_weight = (gradient * weight_gradient).to(ctx.weight_dtype)
        return gradient * states_gradient.to(ctx.states_dtype), for_weight, None, None, None


def plain_r_drop_loss(
    states: Float[Tensor, "2N E"],
    weight: Float[Tensor, "V E"],
    expected: Int[Tensor, " N"],
    label_smoothing: float,
    r_drop: float,
) -> Float[Tensor, ""]:
    """Compute all logits at once, and return the R-Drop loss.

    The first N states are from the first pass, the others from the second pass. The loss is halved,
    so that a token has the same weight as without R-Drop.
    """
    logits = F.linear(states, weight).float()
    first, second = logits.log_softmax(dim=-1).chunk(2)
    divergence = F.kl_div(first, second, reduction="sum", log_target=True) + F.kl_div(
        second, first, reduction="sum", log_target=True
    )
    cross_entropy = F.cross_entropy(
        logits, expected.repeat(2), reduction="sum", label_smoothing=label_smoothing
    )
    return (cross_entropy + r_drop / 2 * divergence) / 2


def chunked_r_drop_loss(
    states: Float[Tensor, "2N E"],
    weight: Float[Tensor, "V E"],
    expected: Int[Tensor, " N"],
    label_smoothing: float,
    r_drop: float,
    chunk: int = CHUNK // 2,
) -> Float[Tensor, ""]:
    """Return the same loss with at most `chunk` rows of each pass in memory."""
    loss: Tensor = _ChunkedRDropLoss.apply(  # type: ignore[no-untyped-call]
        states, weight, expected, label_smoothing, r_drop, chunk
    )
    return loss


class _ChunkedRDropLoss(torch.autograd.Function):
    """Computes the gradients in the forward pass, like `_ChunkedLoss`.

    With d = log p − log q, the divergence of two rows is  KL(p‖q) + KL(q‖p) = Σ (p − q) · d. Its
    gradient with respect to the logits of p is  p · (d − Σ p·d) + p − q.  The gradient with respect
    to the logits of q is the same with p and q exchanged.
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
        share = smoothing / len(weight)  # ε/V
        features, matrix = _in_working_dtype(states, weight)
        weight_sum, state_sum = weight.float().sum(dim=0), states.float().sum(dim=0)
        loss = -share * (state_sum * weight_sum).sum()
        states_gradient = torch.empty_like(features)
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32)
        count, half = len(expected), r_drop / 2
        buffers = features.new_empty(4, min(chunk, count), len(weight), dtype=torch.float32)
        for start in range(0, count, chunk):
            targets = expected[start : start + chunk].unsqueeze(1)
            passes = [slice(first, first + len(targets)) for first in (start, start + count)]
            spare, scratch, *log_probabilities = (buffer[: len(targets)] for buffer in buffers)
            for rows, scores in zip(passes, log_probabilities, strict=True):
                _multiply_into(scores, features[rows], matrix)
                target_scores = scores.gather(1, targets)
                largest = scores.amax(dim=1, keepdim=True)
                torch.sub(scores, largest, out=scratch)
                log_sum = largest + scratch.exp_().sum(dim=1, keepdim=True).log()
                loss += (log_sum - (1 - smoothing) * target_scores).sum()
                scores.sub_(log_sum)
            difference = torch.sub(log_probabilities[0], log_probabilities[1], out=scratch)
            p, q = (scores.exp_() for scores in log_probabilities)
            means = [torch.linalg.vecdot(values, difference).unsqueeze(1) for values in (p, q)]
            loss += half * (means[0] - means[1]).sum()
            # The gradient  p + α/2 · (p·(d − Σ p·d) + p − q)  is divided by α/2 here and multiplied
            # by it after the loop, where the matrices are small.
            scale = (1 + half) / half
            factor_p = torch.add(difference, scale - means[0], out=spare)
            gradients = (
                factor_p.mul_(p).sub_(q),
                torch.sub(scale + means[1], difference, out=difference).mul_(q).sub_(p),
            )
            for rows, logits_gradient in zip(passes, gradients, strict=True):
                logits_gradient.scatter_add_(
                    1, targets, torch.full_like(target_scores, (smoothing - 1) / half)
                )
                gradient = logits_gradient.to(features.dtype)
                torch.mm(gradient, matrix, out=states_gradient[rows])
                weight_gradient += gradient.t() @ features[rows]
        states_gradient *= half
        weight_gradient *= half
        states_gradient -= (share * weight_sum).to(features.dtype)
        weight_gradient -= share * state_sum
        ctx.states_dtype, ctx.weight_dtype = states.dtype, weight.dtype
        ctx.save_for_backward(states_gradient, weight_gradient)
        return loss / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states_gradient, weight_gradient = ctx.saved_tensors
        for_weight = (gradient / 2 * weight_gradient).to(ctx.weight_dtype)
        for_states = gradient / 2 * states_gradient.to(ctx.states_dtype)
        return for_states, for_weight, None, None, None, None


def _in_working_dtype(states: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return both factors of the logits, in the dtype of autocast if autocast is enabled."""
    device = states.device.type
    is_mixed = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_mixed else states.dtype
    return states.to(dtype), weight.to(dtype)


def _multiply_into(logits: Tensor, features: Tensor, matrix: Tensor) -> None:
    """Write logits into an existing buffer; allocating memory takes longer than the product."""
    if features.dtype == torch.float32:
        torch.mm(features, matrix.t(), out=logits)
    else:
        logits.copy_(F.linear(features, matrix))
