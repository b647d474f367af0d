"""How is a sentence explained?

It is translated by the search that translates it always, watched step by step; then source and
translation go through the model once more, all places at once, while every attention is recorded.
The text is the one that `dragoman translate` gives, also where it searches twice.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from dragoman.data.batch import collate
from dragoman.decoding.beam import Beam
from dragoman.decoding.engine import Hypothesis
from dragoman.decoding.guard import Guard
from dragoman.decoding.pytorch import PyTorch
from dragoman.doubt import doubts, guarded
from dragoman.errors import ArtifactError, DataError
from dragoman.explanation.explanation import (
    Beginning,
    Ended,
    Explanation,
    Look,
    Product,
    SearchStory,
    Word,
)
from dragoman.explanation.heads import judge
from dragoman.explanation.replay import Replay, replay
from dragoman.model.parts import Reach, Similarity
from dragoman.model.record import Map, record
from dragoman.recipe import DecodingRecipe
from dragoman.tokenizer.interface import BEGIN, END, Tokenizer
from dragoman.translator import Translator

ALTERNATIVES = 4
"""Other tokens that are shown for each place."""
LABELS = {BEGIN: "⟨begin⟩", END: "⟨end⟩"}
_SAME = 1e-4
"""A score is a dot product if it differs from it by no more, as a share of the largest: sums of
float32 in another order do."""

_PLACED = "; how far apart the two stand has its part in it"


def explain(
    model: Translator | str | Path,
    sentence: str,
    settings: Sequence[str] = (),
    *,
    language: str = "",
) -> Explanation:
    """Translate a sentence with a run, and tell all about it.

    Settings change those of the run, as `decoding.beam=3`; a translator has its own.
    """
    if isinstance(model, str | Path):
        translator = Translator.load(model, settings, engine="pytorch")
    elif settings:
        raise DataError("a translator has its settings; name the run to change them")
    else:
        translator = model
    engine, inner = _inside(translator)
    ids = translator.ids(sentence, language)
    _check(ids, translator)
    return _Explaining(translator, engine, inner, ids).explanation(sentence)


def _inside(translator: Translator) -> tuple[PyTorch, nn.Module]:
    """The engine, and the one model in it."""
    engine = translator.engine
    if not isinstance(engine, PyTorch):
        raise ArtifactError(
            f"{engine.name} does not show what happens inside a model; load the run itself with "
            "Translator.load(RUN, engine='pytorch')"
        )
    if not isinstance(engine.model, nn.Module):
        raise ArtifactError(
            "several runs that translate as one have no one attention to show; name one of them"
        )
    return engine, engine.model


def _check(ids: Sequence[int], translator: Translator) -> None:
    most = translator.settings.longest
    if not ids:
        raise DataError("the sentence has nothing to translate; expected some text")
    if len(ids) > most:
        raise DataError(
            f"the sentence has {len(ids)} tokens, but the model reads {most} at once; such a text "
            "is translated in pieces: explain one of its sentences"
        )


class _Found(NamedTuple):
    """What a search found, and how."""

    answer: Hypothesis
    settings: DecodingRecipe
    story: Replay | None


class _Explaining:
    """One sentence on its way through a model."""

    def __init__(
        self, translator: Translator, engine: PyTorch, model: nn.Module, ids: list[int]
    ) -> None:
        self.translator = translator
        self.engine = engine
        self.model: Any = model
        self.ids = ids
        batch = collate([ids], [[]])
        self.source, self.is_real = (torch.from_numpy(each).to(engine.device) for each in batch[:2])

    def explanation(self, sentence: str) -> Explanation:
        translator, (found, notes) = self.translator, self._translate()
        answer = found.answer
        # What reads the last token says the end: for that there may be no place left.
        written = [*answer.tokens, END] if answer.is_ended else list(answer.tokens)
        read = [BEGIN, *written[:-1]]
        target = torch.tensor([read], device=self.engine.device)
        with record(self.model) as maps, torch.no_grad():
            memory = self.model.encode(self.source, self.is_real)
            logits, _ = self.model.decode(target, memory, None)
        looks = tuple(_look(self.model, each) for each in maps)
        (text,) = translator.target.decode([answer.tokens])
        return Explanation(
            sentence=sentence.strip(),
            translation=text.replace("\n", " ").strip(),
            score=answer.score,
            languages=(translator.recipe.languages.source, translator.recipe.languages.target),
            model=_described(translator, self.model),
            source=tuple(_labels(translator.source, [*self.ids, END])),
            read=tuple(_labels(translator.target, read)),
            words=tuple(self._words(logits[0].float(), written, found.settings)),
            looks=looks,
            search=self._story(found),
            notes=tuple(notes),
            alignments=tuple(each.weights.mean(axis=0) for each in looks if each.kind == "cross"),
        )

    def _translate(self) -> tuple[_Found, list[str]]:
        """Search; where the answer looks wrong, search again under guard, as a translator does."""
        settings = self.translator.settings
        found = self._search(settings)
        wrong = doubts(self.ids, found.answer)
        if not wrong:
            return found, []
        looks_wrong = f"The translation looks wrong ({' and '.join(wrong)})."
        if not settings.retry:
            return found, [looks_wrong]
        second = self._search(guarded(settings))
        if doubts(self.ids, second.answer):
            return found, [f"{looks_wrong} A second search, under guard, did not mend it."]
        return second, [
            f"A first search gave a translation that looks wrong ({' and '.join(wrong)}). "
            "Shown is a second one, under guard against repetition."
        ]

    def _search(self, settings: DecodingRecipe) -> _Found:
        if settings.search == "sample":
            ((answer, *_),) = self.engine.search(settings).run(
                self.model, self.source, self.is_real
            )
            return _Found(answer, settings, None)
        if settings.search == "greedy":  # It is a beam of one.
            alone = {"search": "beam", "beam": 1, "hypotheses": 1, "patience": 1.0}
            search = Beam(settings.model_copy(update=alone))
        else:
            search = Beam(settings)
        steps = list(search.steps(self.model, self.source, self.is_real))
        return _Found(steps[-1].done[0][0], settings, replay(search, steps))

    def _words(self, logits: Any, written: list[int], settings: DecodingRecipe) -> list[Word]:
        """What each place wrote, and what it might have written."""
        guard = Guard(settings, END, (), logits.device)
        alone = torch.zeros(1, dtype=torch.long, device=logits.device)
        words = []
        for place, token in enumerate(written):
            before = torch.tensor([written[:place]], dtype=torch.long, device=logits.device)
            chances = guard(logits[place : place + 1], before, alone)[0].softmax(dim=-1)
            likely = chances.topk(min(ALTERNATIVES + 1, len(chances)))
            pairs = zip(likely.indices.tolist(), likely.values.tolist(), strict=True)
            others = [(each, chance) for each, chance in pairs if each != token and chance > 0]
            names = _labels(self.translator.target, [token, *(each for each, _ in others)])
            shown = zip(names[1:], (chance for _, chance in others), strict=True)
            words.append(Word(names[0], float(chances[token]), tuple(shown)[:ALTERNATIVES]))
        return words

    def _story(self, found: _Found) -> SearchStory:
        settings, story = found.settings, found.story
        facts = (settings.length_form, settings.length_penalty)
        if story is None:
            return SearchStory(settings.search, 0, *facts)

        def text(tokens: Sequence[int]) -> str:
            (told,) = self.translator.target.decode([[each for each in tokens if each != END]])
            return told.replace("\n", " ").strip()

        def last(tokens: Sequence[int]) -> str:
            return _labels(self.translator.target, tokens[-1:])[0]

        steps = tuple(
            tuple(
                Beginning(each.parent, last(each.tokens), text(each.tokens), each.score, each.fate)
                for each in step
            )
            for step in story.steps
        )
        finalists = tuple(
            Ended(text(each.tokens), len(each.tokens), each.total, each.score)
            for each in story.finalists
        )
        return SearchStory(settings.search, story.width, *facts, steps, finalists)


def _labels(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    pieces = tokenizer.pieces(ids)
    return [LABELS.get(number, piece) for number, piece in zip(ids, pieces, strict=True)]


def _look(model: nn.Module, seen: Map) -> Look:
    """What was recorded of the one sentence, as numbers."""
    attention = model.get_submodule(seen.name)
    similarity, reach = getattr(attention, "similarity", None), getattr(attention, "reach", None)
    weights, scores = (each[0].float().cpu().numpy() for each in (seen.weights, seen.scores))
    mask = seen.mask[0, 0].expand(weights.shape[1:]).cpu().numpy()
    product, is_placed = _product(similarity, seen)
    return Look(
        kind=seen.kind,
        layer=seen.layer,
        weights=weights,
        scores=scores,
        mask=mask,
        similarity=_said_of(similarity) + (_PLACED if is_placed else ""),
        reach=_said_of(reach),
        is_softmax=isinstance(reach, Reach) and reach.is_softmax,
        product=product,
        heads=tuple(judge(seen.kind, head, mask) for head in weights),
    )


def _product(similarity: Any, seen: Map) -> tuple[Product | None, bool]:
    """The vectors whose dot product the scores are, if they are; and whether a place adds to it."""
    if not isinstance(similarity, Similarity):
        return None, False
    product = similarity.as_dot_product(seen.queries, seen.keys)
    if product is None:
        return None, False
    again = product.scale * (product.queries @ product.keys.transpose(-1, -2))
    if (again - seen.scores).abs().max() > _SAME * max(1.0, float(seen.scores.abs().max())):
        return None, True  # Only a position that acts on scores can have changed them.
    queries, keys = (each[0].float().cpu().numpy() for each in product[:2])
    return Product(queries, keys, product.scale), False


def _said_of(part: Any) -> str:
    """What the file of a part says it is, in its first sentence, without its sources."""
    told = (sys.modules[type(part).__module__].__doc__ or type(part).__name__).strip()
    return told.partition("\n\n")[0].partition("  (")[0].replace("\n", " ").rstrip(".")


def _described(translator: Translator, model: nn.Module) -> str:
    recipe = translator.recipe.model
    count = sum(each.numel() for each in model.parameters())
    return f"{recipe.architecture}, {count:,} parameters, weights {translator.model_hash[:12]}"
