"""The same model in bare PyTorch, without a toolkit around it.

    python bench/bare.py SIZE KIND BATCHES VOCABULARY COUNT

The reference of `training.py`, which starts it; it imports nothing of Dragoman. SIZE is tiny or
base. KIND is `bare`, a Transformer with every optimization that pays on a CPU (matrix products in
bfloat16, attention by plain matrix products, dropout from random bytes, a loss in chunks over real
tokens in one buffer, an allocator that keeps its blocks, Adam), or `torch`, `nn.Transformer` as its
documentation uses it, or `torch-kept`, the same with the allocator settings. BATCHES is an .npz
file. For each line on its input it trains on the next COUNT batches and prints wall-clock and CPU
seconds.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from timing import now, since

SIZES = {
    "tiny": {"layers": 4, "width": 128, "inner": 256, "heads": 4, "dropout": 0.3, "is_pre": True},
    "base": {"layers": 6, "width": 512, "inner": 2048, "heads": 8, "dropout": 0.1, "is_pre": False},
}
PADDING, SMOOTHING, CHUNK, LONGEST = 0, 0.1, 256, 512


class ByteDropout(torch.autograd.Function):
    """Dropout that draws one random byte per feature."""

    @staticmethod
    def forward(ctx, x, levels):
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        bytes_ = draws.view(torch.uint8)[: x.numel()].view(x.shape)
        scale = torch.ge(bytes_, levels, out=torch.empty_like(x)).mul_(256 / (256 - levels))
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


class ChunkedLoss(torch.autograd.Function):
    """Label-smoothed cross-entropy over chunks of rows."""

    @staticmethod
    def forward(ctx, states, weight, expected):
        share = SMOOTHING / len(weight)
        words, total = weight.sum(0), states.sum(0)
        loss = -share * (total @ words)
        to_states, to_weight = torch.empty_like(states), torch.zeros_like(weight)
        buffer = torch.empty(min(CHUNK, len(states)), len(weight))
        for start in range(0, len(states), CHUNK):
            rows = slice(start, start + CHUNK)
            targets = expected[rows, None]
            logits = torch.mm(states[rows], weight.t(), out=buffer[: len(targets)])
            truth = logits.gather(1, targets)
            largest = logits.amax(1, keepdim=True)
            norm = logits.sub_(largest).exp_().sum(1, keepdim=True)
            loss += (largest + norm.log() - (1 - SMOOTHING) * truth).sum()
            logits.div_(norm).scatter_add_(1, targets, torch.full_like(truth, SMOOTHING - 1))
            torch.mm(logits, weight, out=to_states[rows])
            to_weight += logits.t() @ states[rows]
        to_states -= share * words
        to_weight -= share * total
        ctx.save_for_backward(to_states, to_weight)
        return loss

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], gradient * ctx.saved_tensors[1], None


class Attention(nn.Module):
    """Multi-head attention by plain matrix products."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.inner = nn.Linear(width, 3 * width)
        self.outer = nn.Linear(width, width)

    def forward(self, x, memory, mask):
        batch, length, width = x.shape
        size = width // self.heads
        if memory is None:
            cut = self.inner(x).view(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
            queries, keys, values = cut.unbind(0)
        else:
            weight, bias = self.inner.weight, self.inner.bias
            queries = F.linear(x, weight[:width], bias[:width])
            queries = queries.view(batch, length, self.heads, size).transpose(1, 2)
            cut = F.linear(memory, weight[width:], bias[width:])
            cut = cut.view(batch, memory.shape[1], 2, self.heads, size).permute(2, 0, 3, 1, 4)
            keys, values = cut.unbind(0)
        weights = torch.softmax((queries * size**-0.5) @ keys.transpose(-1, -2) + mask, -1)
        mixed = (weights @ values).transpose(1, 2).reshape(batch, length, width)
        return self.outer(mixed)


class Layer(nn.Module):
    """An encoder or decoder layer."""

    def __init__(self, size, *, has_cross):
        super().__init__()
        width = size["width"]
        self.is_pre = size["is_pre"]
        self.levels = round(256 * size["dropout"])
        self.own = Attention(width, size["heads"])
        self.cross = Attention(width, size["heads"]) if has_cross else None
        self.widen, self.narrow = nn.Linear(width, size["inner"]), nn.Linear(size["inner"], width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if has_cross else 2))

    def add(self, x, norm, sublayer):
        if self.is_pre:
            return x + ByteDropout.apply(sublayer(norm(x)), self.levels)
        return norm(x + ByteDropout.apply(sublayer(x), self.levels))

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.add(x, self.norms[0], lambda y: self.own(y, None, mask))
        if self.cross is not None:
            x = self.add(x, self.norms[1], lambda y: self.cross(y, memory, memory_mask))
        return self.add(x, self.norms[-1], lambda y: self.narrow(F.relu(self.widen(y))))


def sinusoids(width):
    """Sinusoidal position vectors."""
    position = torch.arange(LONGEST)[:, None].float()
    angle = position / 10000 ** (2 * torch.arange(width // 2).float() / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Bare(nn.Module):
    """The Transformer with all optimizations."""

    def __init__(self, size, vocabulary):
        super().__init__()
        self.width, layers = size["width"], size["layers"]
        self.levels = round(256 * size["dropout"])
        self.words = nn.Embedding(vocabulary, self.width)
        nn.init.normal_(self.words.weight, 0, self.width**-0.5)
        self.register_buffer("positions", sinusoids(self.width))
        self.encoder = nn.ModuleList(Layer(size, has_cross=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(size, has_cross=True) for _ in range(layers))
        end = nn.LayerNorm if size["is_pre"] else nn.Identity
        self.ends = nn.ModuleList((end(self.width), end(self.width)))

    def embed(self, tokens):
        x = self.words(tokens) * self.width**0.5 + self.positions[: tokens.shape[1]]
        return ByteDropout.apply(x, self.levels)

    def forward(self, source, target, expected):
        hidden = torch.zeros(source.shape).masked_fill_(source == PADDING, float("-inf"))
        memory_mask = hidden[:, None, None]
        length = target.shape[1]
        causal = torch.full((length, length), float("-inf")).triu_(1)
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, memory_mask)
        memory, x = self.ends[0](memory), self.embed(target)
        for layer in self.decoder:
            x = layer(x, causal, memory, memory_mask)
        is_real = expected != PADDING
        states = self.ends[1](x)[is_real]
        return ChunkedLoss.apply(states, self.words.weight, expected[is_real]) / len(states)


class Torch(nn.Module):
    """`nn.Transformer` as its documentation uses it."""

    def __init__(self, size, vocabulary):
        super().__init__()
        self.width, self.dropout = size["width"], nn.Dropout(size["dropout"])
        self.words = nn.Embedding(vocabulary, self.width)
        nn.init.normal_(self.words.weight, 0, self.width**-0.5)
        self.register_buffer("positions", sinusoids(self.width))
        self.transformer = nn.Transformer(
            self.width,
            size["heads"],
            size["layers"],
            size["layers"],
            size["inner"],
            size["dropout"],
            batch_first=True,
            norm_first=size["is_pre"],
        )

    def embed(self, tokens):
        return self.dropout(
            self.words(tokens) * self.width**0.5 + self.positions[: tokens.shape[1]]
        )

    def forward(self, source, target, expected):
        is_padding = source == PADDING
        length = target.shape[1]
        states = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu_(1),
            tgt_is_causal=True,
            src_key_padding_mask=is_padding,
            tgt_key_padding_mask=target == PADDING,
            memory_key_padding_mask=is_padding,
        )
        logits = F.linear(states, self.words.weight).flatten(0, 1)
        return F.cross_entropy(
            logits, expected.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING
        )


def keep_memory() -> None:
    """Let the C allocator keep freed blocks."""
    mallopt = ctypes.CDLL(None).mallopt
    for option, value in ((-3, 2**31 - 1), (-1, 2**31 - 1), (-2, 1 << 28), (-8, 2)):
        mallopt(option, value)


def main() -> None:
    """Train on request and print the time."""
    size, kind, path = sys.argv[1:4]
    torch.manual_seed(1)
    if kind != "torch":
        keep_memory()
    if kind == "bare":
        torch.set_float32_matmul_precision("medium")
    file = np.load(path)
    batches = [
        [torch.from_numpy(file[f"{side}{number}"]) for side in ("source", "target", "expected")]
        for number in range(len(file.files) // 3)
    ]
    model = (Bare if kind == "bare" else Torch)(SIZES[size], int(sys.argv[4])).train()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, betas=(0.9, 0.98), fused=True)
    count = int(sys.argv[5])
    for number, _ in enumerate(sys.stdin):
        start = now()
        for batch in batches[number * count : (number + 1) * count]:
            loss = model(*batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            float(loss.detach())
        print(*since(start), flush=True)


if __name__ == "__main__":
    main()
