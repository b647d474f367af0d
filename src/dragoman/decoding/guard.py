"""Which tokens may not come next?

    minimum length    no end before it
    no repeat         no n-gram is said twice
    penalty           ℓ ← ℓ/ρ where ℓ > 0, else ρℓ, for tokens that were said  (Keskar et al., 2019)
    prefix            at its places, its token and no other

Guards change the scores before the softmax, so what is left shares the whole probability.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dragoman.recipe import DecodingRecipe
from dragoman.shapes import Float, Int, Tensor

_NONE = -1


class Guard:
    """The guards of one batch; `prefixes` has one for each sentence, or none at all."""

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
        padded = [[*each, *[_NONE] * (longest - len(each))] for each in prefixes]
        self.prefixes = torch.tensor(padded, device=device) if longest else None

    def __call__(
        self,
        logits: Float[Tensor, "N V"],
        tokens: Int[Tensor, "N T"],
        sentences: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        """Change the scores of what follows these tokens."""
        place = tokens.shape[1]
        if self.settings.repetition_penalty > 1 and place:
            said = logits.gather(1, tokens)
            rate = self.settings.repetition_penalty
            logits = logits.scatter(1, tokens, torch.where(said > 0, said / rate, said * rate))
        if 0 < self.settings.no_repeat <= place:
            logits = self._without_repeats(logits, tokens)
        if place < self.settings.minimum_length:
            logits = logits.index_fill(
                1, torch.tensor([self.end], device=logits.device), -torch.inf
            )
        if self.prefixes is not None and place < self.prefixes.shape[1]:
            logits = self._forced(logits, self.prefixes[sentences, place])
        return logits

    def _without_repeats(
        self, logits: Float[Tensor, "N V"], tokens: Int[Tensor, "N T"]
    ) -> Float[Tensor, "N V"]:
        """Forbid every token that has once followed what the hypothesis now ends with."""
        size = self.settings.no_repeat
        windows = tokens.unfold(1, size, 1)
        now = tokens[:, tokens.shape[1] - size + 1 :]
        is_again = (windows[..., :-1] == now.unsqueeze(1)).all(dim=-1)
        followers = windows[..., -1]
        # Where nothing repeats, a token is forbidden that does not exist, one behind the last.
        outside = torch.full_like(followers, logits.shape[1])
        wider = torch.cat([logits, logits[:, :1]], dim=1)
        return wider.scatter(1, torch.where(is_again, followers, outside), -torch.inf)[:, :-1]

    @staticmethod
    def _forced(logits: Float[Tensor, "N V"], asked: Int[Tensor, " N"]) -> Float[Tensor, "N V"]:
        """Leave the asked token alone, also where another guard has forbidden it."""
        wanted = torch.nn.functional.one_hot(asked.clamp(min=0), logits.shape[1]).bool()
        only = torch.zeros_like(logits).masked_fill(~wanted, -torch.inf)
        return torch.where((asked != _NONE).unsqueeze(1), only, logits)
