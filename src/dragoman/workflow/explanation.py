"""Explain the translation of one sentence by a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.errors import DataError
from dragoman.explanation.explain import explain_sentence
from dragoman.explanation.explanation import Explanation
from dragoman.inference.translator import Translator


def explain(
    run_or_translator: Translator | str | Path,
    sentence: str,
    settings: Sequence[str] = (),
    *,
    language: str = "",
    trust_parts: bool = False,
) -> Explanation:
    """Translate a sentence, and show how the model computed the translation.

    Args:
        run_or_translator: a run, or a translator that was loaded with `engine="pytorch"`.
        sentence: the text to translate.
        settings: decoding settings to change, such as `decoding.beam_size=3`.
        language: target language (multilingual models).
        trust_parts: allow the run to import parts that are not in this package.
    """
    if isinstance(run_or_translator, Translator):
        if settings:
            raise DataError(
                "the settings of a loaded translator cannot be changed here; pass the folder of "
                "the run instead of the translator"
            )
        return explain_sentence(run_or_translator, sentence, language)
    with Translator.load(
        run_or_translator, settings, engine="pytorch", trust_parts=trust_parts
    ) as translator:
        return explain_sentence(translator, sentence, language)
