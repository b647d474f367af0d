"""Explain one translation: probabilities, attention and search.

The sentence is translated by the usual search, which is recorded step by step. Then source and
translation go through the model once more, all positions at once, and every attention module is
recorded. The text is the one that `dragoman translate` gives, including its second search for
translations that look wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from dragoman.data.batch import collate
from dragoman.decoding.beam import Beam
from dragoman.decoding.engine import Hypothesis
from dragoman.decoding.engines.pytorch import PyTorch
from dragoman.decoding.logits_processor import LogitsProcessor
from dragoman.errors import ArtifactError, DataError
from dragoman.explanation.explanation import (
    AttentionView,
    DotProduct,
    Explanation,
    FinishedHypothesis,
    OutputToken,
    PartialHypothesis,
    SearchTrace,
)
from dragoman.explanation.heads import describe_heads
from dragoman.explanation.html_page import END_LABEL
from dragoman.explanation.replay import BeamTrace, replay
from dragoman.inference.lines import clean_output
from dragoman.inference.quality import detect_degeneration, with_repetition_limits
from dragoman.inference.translator import Translator
from dragoman.model.parts import AttentionKind, Similarity
from dragoman.model.record import AttentionRecord, record
from dragoman.recipe.schema import DecodingRecipe
from dragoman.tokenizer.interface import BEGIN, END, Tokenizer

ALTERNATIVES = 4
"""Number of other tokens that are shown at each position."""
LABELS = {BEGIN: "⟨begin⟩", END: END_LABEL}
_TOLERANCE = 1e-4
"""Relative difference up to which a score counts as the dot product: float32 sums in another order
differ by less."""

_POSITION_NOTE = "; the distance of the two tokens also changes it"


def explain_sentence(translator: Translator, sentence: str, language: str = "") -> Explanation:
    """Translate a sentence with a loaded model and explain the translation."""
    engine, model = _single_model(translator)
    ids = translator.ids(sentence, language)
    _check_length(ids, translator)
    return _Explainer(translator, engine, model, sentence, ids).explain()


def _single_model(translator: Translator) -> tuple[PyTorch, nn.Module]:
    """The engine and the one model in it."""
    engine = translator.engine
    if not isinstance(engine, PyTorch):
        raise ArtifactError(
            f"the engine {engine.name} does not give access to the inside of a model; load the run "
            "itself with Translator.load(RUN, engine='pytorch')"
        )
    if not isinstance(engine.model, nn.Module):
        raise ArtifactError(
            "an ensemble of several runs has no single attention to show; name one of the runs"
        )
    return engine, engine.model


def _check_length(ids: Sequence[int], translator: Translator) -> None:
    limit = translator.settings.max_source_tokens
    if not ids:
        raise DataError("the sentence is empty: there is nothing to translate; expected some text")
    if len(ids) > limit:
        raise DataError(
            f"the sentence has {len(ids)} tokens, but the model reads at most {limit} at once "
            "(decoding.max_source_tokens). Such a text is translated in parts: explain one of its "
            "sentences"
        )


class _SearchResult(NamedTuple):
    """The best hypothesis, the settings that found it, and the recorded search."""

    best: Hypothesis
    settings: DecodingRecipe
    trace: BeamTrace | None
    """None for sampling."""


class _Explainer:
    """Translates and explains one sentence."""

    def __init__(
        self,
        translator: Translator,
        engine: PyTorch,
        model: nn.Module,
        sentence: str,
        ids: list[int],
    ) -> None:
        self.translator = translator
        self.engine = engine
        self.model: Any = model
        self.sentence = sentence
        self.ids = ids
        source, is_real, *_ = collate([ids], [[]])
        self.source = torch.from_numpy(source).to(engine.device)
        self.is_real = torch.from_numpy(is_real).to(engine.device)

    def explain(self) -> Explanation:
        translator, (result, notes) = self.translator, self._translate()
        best = result.best
        # A finished translation ends with the end token, which the decoder writes but never reads.
        output = [*best.tokens, END] if best.is_finished else list(best.tokens)
        decoder_input = [BEGIN, *output[:-1]]
        target = torch.tensor([decoder_input], device=self.engine.device)
        with record(self.model) as maps, torch.no_grad():
            memory = self.model.encode(self.source, self.is_real)
            logits, _ = self.model.decode(target, memory, None)
        views = tuple(_view(self.model, attention_map) for attention_map in maps)
        return Explanation(
            sentence=self.sentence.strip(),
            translation=self._text(best.tokens),
            score=best.score,
            languages=(translator.recipe.languages.source, translator.recipe.languages.target),
            model=_model_summary(translator, self.model),
            source_tokens=tuple(_labels(translator.source, [*self.ids, END])),
            decoder_input=tuple(_labels(translator.target, decoder_input)),
            tokens=tuple(self._output_tokens(logits[0].float(), output, result.settings)),
            attention=views,
            search=self._search_trace(result),
            notes=tuple(notes),
            alignments=tuple(view.weights.mean(axis=0) for view in views if view.role == "cross"),
        )

    def _translate(self) -> tuple[_SearchResult, list[str]]:
        """Search, and search again with repetition limits if the translation looks wrong."""
        settings = self.translator.settings
        first = self._search(settings)
        problems = detect_degeneration(self.ids, first.best)
        if not problems:
            return first, []
        warning = f"The translation looks wrong ({' and '.join(problems)})."
        if not settings.retry:
            return first, [warning]
        second = self._search(with_repetition_limits(settings))
        if detect_degeneration(self.ids, second.best):
            return first, [f"{warning} A second search with repetition limits did not help."]
        return second, [
            f"The first search gave a translation that looks wrong ({' and '.join(problems)}). "
            "This page shows the second search, which limits repetition."
        ]

    def _search(self, settings: DecodingRecipe) -> _SearchResult:
        if settings.search == "sample":
            ((best, *_),) = self.engine.search(settings).run(self.model, self.source, self.is_real)
            return _SearchResult(best, settings, None)
        if settings.search == "greedy":  # It is a beam of size 1.
            single = {"search": "beam", "beam_size": 1, "num_hypotheses": 1, "patience": 1.0}
            search = Beam(settings.model_copy(update=single | {"coverage_penalty": 0.0}))
        else:
            search = Beam(settings)
        steps = list(search.steps(self.model, self.source, self.is_real))
        return _SearchResult(steps[-1].done[0][0], settings, replay(search, steps))

    def _output_tokens(
        self, logits: Any, output: list[int], settings: DecodingRecipe
    ) -> list[OutputToken]:
        """The output token at each position, and the alternatives to it."""
        process = LogitsProcessor(settings, END, (), logits.device)
        only_row = torch.zeros(1, dtype=torch.long, device=logits.device)
        tokens = []
        for position, token in enumerate(output):
            prefix = torch.tensor([output[:position]], dtype=torch.long, device=logits.device)
            processed = process(logits[position : position + 1], prefix, only_row)
            probabilities = processed[0].softmax(dim=-1)
            top = probabilities.topk(min(ALTERNATIVES + 1, len(probabilities)))
            alternatives = [
                (number, probability)
                for number, probability in zip(
                    top.indices.tolist(), top.values.tolist(), strict=True
                )
                if number != token and probability > 0
            ][:ALTERNATIVES]
            label, *labels = _labels(
                self.translator.target, [token, *(number for number, _ in alternatives)]
            )
            shown = zip(labels, (probability for _, probability in alternatives), strict=True)
            tokens.append(OutputToken(label, float(probabilities[token]), tuple(shown)))
        return tokens

    def _search_trace(self, result: _SearchResult) -> SearchTrace:
        settings, trace = result.settings, result.trace
        normalization = (
            settings.length_normalization,
            settings.length_penalty,
            settings.coverage_penalty,
        )
        if trace is None:
            return SearchTrace(settings.search, 0, *normalization)
        steps = tuple(
            tuple(
                PartialHypothesis(
                    candidate.parent,
                    _labels(self.translator.target, candidate.tokens[-1:])[0],
                    self._text(candidate.tokens),
                    candidate.score,
                    candidate.outcome,
                )
                for candidate in candidates
            )
            for candidates in trace.steps
        )
        finished = tuple(
            FinishedHypothesis(
                self._text(hypothesis.tokens),
                len(hypothesis.tokens),
                hypothesis.total,
                hypothesis.score,
            )
            for hypothesis in trace.finished
        )
        return SearchTrace(settings.search, trace.beam_size, *normalization, steps, finished)

    def _text(self, tokens: Sequence[int]) -> str:
        (text,) = self.translator.target.decode([[token for token in tokens if token != END]])
        return clean_output(text, self.sentence)


def _labels(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    pieces = tokenizer.pieces(ids)
    return [LABELS.get(number, piece) for number, piece in zip(ids, pieces, strict=True)]


def _view(model: nn.Module, recorded: AttentionRecord) -> AttentionView:
    """Convert the record of one attention module to NumPy."""
    attention = model.get_submodule(recorded.name)
    similarity = getattr(attention, "similarity", None)
    attention_kind = getattr(attention, "attention_kind", None)
    weights = recorded.weights[0].float().cpu().numpy()
    scores = recorded.scores[0].float().cpu().numpy()
    mask = recorded.mask[0, 0].expand(weights.shape[1:]).cpu().numpy()
    product, has_position = _dot_product(similarity, recorded)
    return AttentionView(
        role=recorded.role,
        layer=recorded.layer,
        weights=weights,
        scores=scores,
        mask=mask,
        similarity=_part_summary(similarity) + (_POSITION_NOTE if has_position else ""),
        attention_kind=_part_summary(attention_kind),
        is_softmax=isinstance(attention_kind, AttentionKind) and attention_kind.is_softmax,
        product=product,
        heads=describe_heads(recorded.role, weights, mask),
    )


def _dot_product(similarity: Any, recorded: AttentionRecord) -> tuple[DotProduct | None, bool]:
    """The vectors whose dot product is the score, if any; and whether a position changes it."""
    if not isinstance(similarity, Similarity):
        return None, False
    product = similarity.as_dot_product(recorded.queries, recorded.keys)
    if product is None:
        return None, False
    recomputed = product.scale * (product.queries @ product.keys.transpose(-1, -2))
    difference = (recomputed - recorded.scores).abs().max()
    if difference > _TOLERANCE * max(1.0, float(recorded.scores.abs().max())):
        return None, True  # Only a position that acts on scores can have changed them.
    queries, keys = (vectors[0].float().cpu().numpy() for vectors in product[:2])
    return DotProduct(queries, keys, product.scale), False


def _part_summary(part: Any) -> str:
    """Return the first sentence of the part's module docstring, without citation, and its equation.

    The equation is the first indented line, if there is one.
    """
    docstring = (sys.modules[type(part).__module__].__doc__ or type(part).__name__).strip()
    title = docstring.partition("\n\n")[0].partition("  (")[0].replace("\n", " ").rstrip(".")
    equations = [line.strip() for line in docstring.splitlines() if line.startswith("    ")]
    return ", ".join([title, *equations[:1]])


def _model_summary(translator: Translator, model: nn.Module) -> str:
    recipe = translator.recipe.model
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"{recipe.architecture}, {count:,} parameters, weights {translator.model_hash[:12]}"
