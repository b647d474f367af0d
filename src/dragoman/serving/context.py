"""What every API of the server uses: settings, translation, state and access."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dragoman.serving.document_jobs import DocumentJobs

if TYPE_CHECKING:
    from dragoman.serving.access import Access
    from dragoman.serving.interface import ServerSettings
    from dragoman.serving.metrics import Metrics
    from dragoman.serving.service import Service
    from dragoman.serving.state import State


@dataclass(frozen=True, slots=True)
class Context:
    """Built once in `app.build_app`; each module in `apis/` gets it in its function `routes`."""

    settings: ServerSettings
    service: Service
    state: State
    access: Access
    metrics: Metrics
    documents: DocumentJobs = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "documents", DocumentJobs(self))
