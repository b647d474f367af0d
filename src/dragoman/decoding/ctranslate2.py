"""How does CTranslate2 translate?

It is fed tokens by name and gives names back. It is asked for all sentences at once that share a
length limit, and sorts and batches them itself. Workers with one thread each do more on a CPU than
one worker with many threads. Nothing here imports torch.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ctranslate2

from dragoman.decoding.engine import Answers, Engine, Hypothesis, length_limit
from dragoman.errors import ArtifactError
from dragoman.recipe import DecodingRecipe

_PLACES = 1024
"""Source tokens of a batch."""


class CTranslate2(Engine):
    """A folder that CTranslate2 can read; `threads` of 0 means one for each core."""

    name = "ctranslate2"

    def __init__(self, folder: Path, device: str = "cpu", *, threads: int = 0) -> None:
        has_affinity = hasattr(os, "sched_getaffinity")  # Not on every system.
        cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
        try:
            self.translator = ctranslate2.Translator(
                str(folder),
                device=device,
                inter_threads=(threads or cores) if device == "cpu" else 1,
                intra_threads=1,
                max_queued_batches=-1,  # Who begins should never have to wait.
            )
        except (RuntimeError, ValueError) as error:
            raise ArtifactError(f"CTranslate2 cannot load {str(folder)!r}: {error}") from None
        self.source_names = _vocabulary(folder, "source")
        self.target_names = _vocabulary(folder, "target")
        self.target_ids = {name: number for number, name in enumerate(self.target_names)}

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingRecipe,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        with_alignment: bool = False,
    ) -> Callable[[], Answers]:
        """Hand the sentences to the workers; they go on while nobody waits."""
        alike: dict[int, list[int]] = defaultdict(list)
        for row, source in enumerate(sources):
            alike[length_limit(len(source), settings)].append(row)
        options = _options(settings, with_alignment)
        pending: list[tuple[int, int, Any]] = []
        # The longest first, so that no worker is left alone with them at the end.
        for limit in sorted(alike, reverse=True):
            rows = alike[limit]
            results = self.translator.translate_batch(
                [self._named(sources[row], self.source_names) for row in rows],
                [self._named(prefixes[row], self.target_names) for row in rows]
                if prefixes
                else None,
                min_decoding_length=min(settings.minimum_length, limit),
                max_decoding_length=limit,
                asynchronous=True,
                **options,
            )
            pending.extend((row, limit, each) for row, each in zip(rows, results, strict=True))

        def wait() -> Answers:
            answers: Answers = [[] for _ in sources]
            for row, limit, result in pending:
                answers[row] = self._read(result.result(), limit, with_alignment)
            return answers

        return wait

    @staticmethod
    def _named(ids: Sequence[int], names: list[str]) -> list[str]:
        return list(map(names.__getitem__, ids))

    def _read(self, result: Any, limit: int, with_alignment: bool) -> list[Hypothesis]:
        id_of, scores = self.target_ids.__getitem__, result.scores
        attention = result.attention if with_alignment else []
        found = []
        for place, names in enumerate(result.hypotheses):
            looked = attention[place] if with_alignment else []
            # The source's own end, which is no word, has been left out.
            places = [max(range(len(row)), key=row.__getitem__) for row in looked]
            tokens = tuple(map(id_of, names))
            found.append(Hypothesis(tokens, scores[place], len(names) < limit, tuple(places)))
        return found


def _options(settings: DecodingRecipe, with_alignment: bool) -> dict[str, Any]:
    """Say in the words of CTranslate2 how to search."""
    is_beam = settings.search == "beam"
    # In a batch, a beam mixes up what the first tokens of its sentences look at.
    is_alone = settings.reproducible or (is_beam and with_alignment)
    return {
        "beam_size": settings.beam if is_beam else 1,
        "patience": settings.patience,
        "num_hypotheses": settings.hypotheses if is_beam else 1,
        "length_penalty": settings.length_penalty,
        "repetition_penalty": settings.repetition_penalty,
        "no_repeat_ngram_size": settings.no_repeat,
        "max_input_length": 0,
        "max_batch_size": 1 if is_alone else _PLACES,
        "batch_type": "examples" if is_alone else "tokens",
        "return_scores": True,
        "return_attention": with_alignment,
    }


def _vocabulary(folder: Path, side: str) -> list[str]:
    """Read the names of the tokens, in the order of their ids."""
    for name in (f"{side}_vocabulary.json", "shared_vocabulary.json"):
        if (folder / name).exists():
            return list(json.loads((folder / name).read_text(encoding="utf-8")))
    raise ArtifactError(f"{str(folder)!r} has no vocabulary of the {side}")
