"""The section `decoding` of a recipe."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from dragoman.recipe.section import Amount, Count, Section


class DecodingRecipe(Section):
    """How a translation is searched for; the default for every use of the model."""

    search: Literal["beam", "greedy", "sample"] = Field("beam", description="Search algorithm")
    beam_size: Count = Field(5, description="Beam size")
    num_hypotheses: Count = Field(1, description="Translations returned per sentence")
    length_normalization: Literal["power", "gnmt"] = Field(
        "power", description="Length normalization (power = length^penalty, gnmt = as in GNMT)"
    )
    length_penalty: Amount = Field(1.0, description="Exponent of length normalization (0 = off)")
    coverage_penalty: Amount = Field(
        0.0, description="Weight of the coverage penalty of GNMT, beam search only (0 = off)"
    )
    patience: Annotated[float, Field(gt=0)] = Field(
        1.0, description="Beam patience: finish after beam_size × patience hypotheses"
    )
    temperature: Annotated[float, Field(gt=0)] = Field(1.0, description="Sampling temperature")
    top_k: Annotated[int, Field(ge=0)] = Field(
        0, description="Sample from the k most likely tokens (0 = all)"
    )
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="Sample from the most likely tokens up to this total probability (1 = all)"
    )
    min_length: Annotated[int, Field(ge=0)] = Field(0, description="Minimum target tokens")
    max_extra_tokens: Annotated[int, Field(ge=0)] = Field(
        50,
        description="Maximum target tokens beyond the source tokens (rounded up to 64, 128, ...)",
    )
    no_repeat_ngram_size: Annotated[int, Field(ge=0)] = Field(
        0, description="Never repeat an n-gram of this size (0 = off)"
    )
    repetition_penalty: Annotated[float, Field(ge=1)] = Field(
        1.0, description="Penalty on tokens already produced (1 = off)"
    )
    max_source_tokens: Count = Field(
        128, description="Maximum source tokens; longer text is split into sentences"
    )
    retry: bool = Field(
        True, description="Translate degenerate output again, with repetition limits"
    )
    reproducible: bool = Field(
        False, description="One sentence per batch, so that results do not depend on the batch"
    )


class DecodingChanges(DecodingRecipe):
    """Settings that replace those of a model: only the ones that are written."""

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}
