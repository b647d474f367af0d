"""Rules that change the logits before the softmax.

    minimum length       no end token before it
    no repeated n-gram   no n-gram occurs twice
    repetition penalty   ℓ ← ℓ/ρ if ℓ > 0, else ρℓ, for tokens that occurred   Keskar et al., 2019
    prefix               at its positions, only its token is possible

Because the rules act before the softmax, the remaining tokens share the whole probability.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dragoman.recipe.schema import DecodingRecipe
from dragoman.shapes import Float, Int, Tensor

_NO_TOKEN = -1


class LogitsProcessor:
    """The rules for one batch; `prefixes` has one prefix for each sentence, or is empty."""

    def __init__(
        self,
        settings: DecodingRecipe,
        end: int,
        prefixes: Sequence[Sequence[int]],
        device: torch.device,
    ) -> None:
        self.settings = settings
        self.end = end
        longest = max(map(len, prefixes), default=0)
        padded = [[*prefix, *[_NO_TOKEN] * (longest - len(prefix))] for prefix in prefixes]
        self.prefixes = torch.tensor(padded, device=device) if longest else None

    def __call__(
        self,
        logits: Float[Tensor, "N V"],
        tokens: Int[Tensor, "N T"],
        sentences: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        """Change the logits of the token that follows these tokens."""
        position = tokens.shape[1]
        if self.settings.repetition_penalty > 1 and position:
            repeated = logits.gather(1, tokens)
            rate = self.settings.repetition_penalty
            penalized = torch.where(repeated > 0, repeated / rate, repeated * rate)
            logits = logits.scatter(1, tokens, penalized)
        if 0 < self.settings.no_repeat_ngram_size <= position:
            logits = self._forbid_repeats(logits, tokens)
        if position < self.settings.min_length:
            end = torch.tensor([self.end], device=logits.device)
            logits = logits.index_fill(1, end, -torch.inf)
        if self.prefixes is not None and position < self.prefixes.shape[1]:
            logits = self._force(logits, self.prefixes[sentences, position])
        return logits

    def _forbid_repeats(
        self, logits: Float[Tensor, "N V"], tokens: Int[Tensor, "N T"]
    ) -> Float[Tensor, "N V"]:
        """Forbid every token that would complete an n-gram of the hypothesis again."""
        size = self.settings.no_repeat_ngram_size
        windows = tokens.unfold(1, size, 1)
        ending = tokens[:, tokens.shape[1] - size + 1 :]
        is_repeated = (windows[..., :-1] == ending.unsqueeze(1)).all(dim=-1)
        followers = windows[..., -1]
        # Where nothing repeats, forbid a token that does not exist: one more column, cut off below.
        outside = torch.full_like(followers, logits.shape[1])
        wider = torch.cat([logits, logits[:, :1]], dim=1)
        forbidden = torch.where(is_repeated, followers, outside)
        return wider.scatter(1, forbidden, -torch.inf)[:, :-1]

    @staticmethod
    def _force(logits: Float[Tensor, "N V"], prefix: Int[Tensor, " N"]) -> Float[Tensor, "N V"]:
        """Allow only the prefix token, even if another rule has forbidden it."""
        is_prefix = torch.nn.functional.one_hot(prefix.clamp(min=0), logits.shape[1]).bool()
        forced = torch.zeros_like(logits).masked_fill(~is_prefix, -torch.inf)
        return torch.where((prefix != _NO_TOKEN).unsqueeze(1), forced, logits)
