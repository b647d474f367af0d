"""The base class of the sections of a recipe, and the types of numbers in them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(gt=0)]
Amount = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A frozen group of settings that rejects unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
