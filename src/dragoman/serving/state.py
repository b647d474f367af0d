"""The durable state of the server: keys, quotas, glossaries, documents, suggestions."""

from __future__ import annotations

from dragoman.serving.stores.documents import Documents
from dragoman.serving.stores.glossaries import Glossaries
from dragoman.serving.stores.keys import Keys
from dragoman.serving.stores.suggestions import Suggestions


class State(Keys, Glossaries, Documents, Suggestions):
    """One SQLite file in one folder; several processes of one machine may share it.

    Every method is synchronous. A reader never waits. A writer waits for the disk and for other
    writers: from a coroutine, call it with `asyncio.to_thread`.

    Errors that concern a client are `ServiceError`.
    """
