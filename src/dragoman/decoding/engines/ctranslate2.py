"""The CTranslate2 engine: fast translation on CPU and GPU, without PyTorch.

CTranslate2 takes and returns tokens by name: here by the names of the tokenizers' pieces, because
an imported model may have other ids. All sentences with the same length limit are handed
over at once; CTranslate2 sorts and batches them itself. On a CPU, several workers with one thread
each are faster than one worker with several threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ctranslate2

from dragoman.decoding.engine import Answers, Engine, Hypothesis, length_limit
from dragoman.errors import ArtifactError
from dragoman.recipe.schema import DecodingRecipe
from dragoman.storage.machine import available_cpus
from dragoman.tokenizer.interface import UNKNOWN, Tokenizer

_BATCH_TOKENS = 1024
"""Source tokens per batch."""


class CTranslate2(Engine):
    """An exported model, run by CTranslate2; `threads=0` uses all cores."""

    name = "ctranslate2"

    def __init__(
        self,
        folder: Path,
        tokenizers: tuple[Tokenizer, Tokenizer],
        device: str = "auto",
        *,
        threads: int = 0,
    ) -> None:
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        try:
            self.translator = ctranslate2.Translator(
                str(folder),
                device=device,
                inter_threads=(threads or available_cpus()) if device == "cpu" else 1,
                intra_threads=1,
                max_queued_batches=-1,  # Unlimited: `begin` must not block.
            )
        except (RuntimeError, ValueError) as error:
            advice = "" if device == "cpu" else "; to use the CPU, add --device cpu"
            raise ArtifactError(
                f"CTranslate2 cannot load {str(folder)!r} on the device {device!r}: {error}{advice}"
            ) from None
        self.source_names, self.target_names = (
            tokenizer.pieces(range(tokenizer.size)) for tokenizer in tokenizers
        )
        self.target_ids = {name: number for number, name in enumerate(self.target_names)}

    def close(self) -> None:
        """Free the model's memory."""
        self.translator.unload_model()

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Callable[[], Answers]:
        """Hand the sentences to the workers, which start at once."""
        rows_by_limit: dict[int, list[int]] = defaultdict(list)
        for row, source in enumerate(sources):
            rows_by_limit[length_limit(len(source), settings)].append(row)
        options = _options(settings, with_alignment)
        pending: list[tuple[int, int, Any]] = []
        # The longest first, so that the workers finish at about the same time.
        for limit in sorted(rows_by_limit, reverse=True):
            rows = rows_by_limit[limit]
            results = self.translator.translate_batch(
                [_names(sources[row], self.source_names) for row in rows],
                [_names(prefixes[row], self.target_names) for row in rows] if prefixes else None,
                min_decoding_length=min(settings.min_length, limit),
                max_decoding_length=limit,
                asynchronous=True,
                **options,
            )
            pending.extend((row, limit, result) for row, result in zip(rows, results, strict=True))

        def wait() -> Answers:
            answers: Answers = [[] for _ in sources]
            for row, limit, result in pending:
                answers[row] = self._hypotheses(result.result(), limit, with_alignment)
            return answers

        return wait

    def _hypotheses(self, result: Any, limit: int, with_alignment: bool) -> list[Hypothesis]:
        ids, scores = self.target_ids, result.scores
        hypotheses = []
        for rank, names in enumerate(result.hypotheses):
            # One row per target token; the source's end token is already left out.
            attention = result.attention[rank] if with_alignment else []
            alignment = [max(range(len(row)), key=row.__getitem__) for row in attention]
            # An imported model may have names that are no pieces, such as that of its padding.
            tokens = tuple(ids.get(name, UNKNOWN) for name in names)
            is_finished = len(names) < limit
            hypotheses.append(Hypothesis(tokens, scores[rank], is_finished, tuple(alignment)))
        return hypotheses


def _names(ids: Sequence[int], names: list[str]) -> list[str]:
    return list(map(names.__getitem__, ids))


def _options(settings: DecodingRecipe, with_alignment: bool) -> dict[str, Any]:
    """Translate the decoding settings to options of CTranslate2."""
    is_beam = settings.search == "beam"
    # In a batch, beam search mixes up the attention of the sentences' first tokens.
    needs_attention = with_alignment or settings.coverage_penalty > 0
    is_single = settings.reproducible or (is_beam and needs_attention)
    return {
        "beam_size": settings.beam_size if is_beam else 1,
        "patience": settings.patience,
        "num_hypotheses": settings.num_hypotheses if is_beam else 1,
        "length_penalty": settings.length_penalty,
        "coverage_penalty": settings.coverage_penalty if is_beam else 0,
        "repetition_penalty": settings.repetition_penalty,
        "no_repeat_ngram_size": settings.no_repeat_ngram_size,
        "max_input_length": 0,
        "max_batch_size": 1 if is_single else _BATCH_TOKENS,
        "batch_type": "examples" if is_single else "tokens",
        "return_scores": True,
        "return_attention": with_alignment,
    }
