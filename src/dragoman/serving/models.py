"""The models of a server: one per language pair, pivots between them, and reloads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.errors import ArtifactError, DragomanError
from dragoman.serving.engines import EngineProcess, Fingerprint, ModelVersion, fingerprint
from dragoman.serving.interface import Pair, ServiceError
from dragoman.serving.queue import QueueMetrics
from dragoman.serving.worker import WorkerSettings
from dragoman.text.languages import match_code

_log = logging.getLogger(__name__)

_PREFERRED_PIVOT = "en"
_WATCH_SECONDS = 2.0
WORKER = "dragoman.serving.worker"


class Models:
    """Loaded models by language pair."""

    def __init__(
        self,
        workers: Sequence[WorkerSettings],
        *,
        batch_tokens: int,
        metrics: QueueMetrics | None = None,
        module: str = WORKER,
    ) -> None:
        self.workers = tuple(workers)
        self.versions: dict[tuple[str, str], ModelVersion] = {}
        self.on_reload: Callable[[bool], None] = lambda _: None
        """Gets whether a reload succeeded."""
        self.on_replaced: Callable[[ModelVersion], None] = lambda _: None
        self._batch_tokens = batch_tokens
        self._metrics = metrics
        self._module = module
        self._reloading = asyncio.Lock()
        self._retired: list[ModelVersion] = []

    async def start(self) -> None:
        """Load all models; two models of one pair are a mistake."""
        results = await asyncio.gather(*map(self._load, self.workers), return_exceptions=True)
        versions = [one for one in results if isinstance(one, ModelVersion)]
        errors = [one for one in results if isinstance(one, BaseException)]
        for version in versions:
            pair = (version.info.source, version.info.target)
            other = self.versions.setdefault(pair, version)
            if other is not version:
                names = f"{other.settings.run!r} and {version.settings.run!r}"
                errors.append(
                    ArtifactError(
                        f"{names} both translate from {pair[0]} to {pair[1]}; expected one model "
                        "per language pair. Start a second server for the other model"
                    )
                )
        if errors:
            for version in versions:
                await version.close()
            raise errors[0]

    async def _load(self, settings: WorkerSettings) -> ModelVersion:
        # A change while the model is loaded must be noticed afterwards.
        state = await _state_of(settings)
        process = await EngineProcess.start(settings, self._module)
        return self._version(settings, process, state)

    def _version(
        self, settings: WorkerSettings, process: EngineProcess, state: Fingerprint
    ) -> ModelVersion:
        version = ModelVersion(settings, process, self._batch_tokens, self._metrics, self._module)
        version.state = state
        version.on_changed = self._adopt
        return version

    def _adopt(self, old: ModelVersion, process: EngineProcess) -> None:
        """Use the model that an engine has found in its folder when it was started again."""
        pair = (old.info.source, old.info.target)
        # The state of the old version: the watcher loads the model again if this one is half new.
        new = self._version(old.settings, process, old.state)
        if self.versions.get(pair) is old:
            self._replace(pair, old, new)
        else:
            new.retire()

    def _replace(self, pair: tuple[str, str], old: ModelVersion, new: ModelVersion) -> None:
        self.versions[pair] = new
        self.on_replaced(old)
        old.retire()
        self._retired.append(old)
        _log.info("the model %s was reloaded: %s", new.info.name, new.info.version)

    async def reload(self, *, only_changed: bool = False) -> bool:
        """Load models again, and use the new ones from now on; return whether all could be loaded.

        A model that cannot be loaded keeps its old version.
        """
        is_right = True
        async with self._reloading:
            for pair, old in list(self.versions.items()):
                if only_changed and await _state_of(old.settings) == old.state:
                    continue
                is_ok = True
                try:
                    new = await self._load(old.settings)
                    source, target = new.info.source, new.info.target
                    if (source, target) != pair:
                        await new.close()
                        raise ArtifactError(f"the new model translates from {source} to {target}")
                except (DragomanError, OSError) as error:
                    _log.error("the model %s was not reloaded: %s", old.info.name, error)
                    # Not tried again before the next change.
                    old.state = await _state_of(old.settings)
                    is_ok = is_right = False
                else:
                    self._replace(pair, self.versions[pair], new)
                self.on_reload(is_ok)
            self._retired = [old for old in self._retired if not old.is_closed]
        return is_right

    async def watch(self) -> None:
        """Reload a model when its folder changes; a change must be stable for one round."""
        changed: dict[tuple[str, str], tuple[str, ...]] = {}
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            now = {
                pair: state
                for pair, version in list(self.versions.items())
                if (state := await _state_of(version.settings)) != version.state
            }
            if any(changed.get(pair) == state for pair, state in now.items()):
                await self.reload(only_changed=True)
                now = {}
            changed = now

    async def close(self) -> None:
        """End all engines."""
        versions = [*self.versions.values(), *self._retired]
        await asyncio.gather(*(version.close() for version in versions))

    def sources(self) -> list[str]:
        """Return the codes of all source languages."""
        return sorted({pair.source for pair in self.pairs()})

    def targets(self) -> list[str]:
        """Return the codes of all target languages."""
        return sorted({pair.target for pair in self.pairs()})

    def pairs(self) -> list[Pair]:
        """Return all pairs, with the pivot language of those that have no model of their own."""
        pairs = {pair: Pair(*pair) for pair in self.versions}
        firsts = sorted(self.versions, key=lambda pair: (pair[1] != _PREFERRED_PIVOT, pair))
        for source, pivot in firsts:
            for middle, target in sorted(self.versions):
                if middle == pivot and source != target:
                    pairs.setdefault((source, target), Pair(source, target, pivot))
        return sorted(pairs.values(), key=lambda pair: (pair.source, pair.target))

    def resolve(self, source: str, target: str) -> Pair:
        """Find the pair for two codes in any form."""
        pairs = self.pairs()
        source_code = match_code(source, [pair.source for pair in pairs])
        target_code = match_code(target, [pair.target for pair in pairs])
        codes = {code for pair in pairs for code in (pair.source, pair.target)}
        for wanted, code in ((source, source_code), (target, target_code)):
            if code is None and match_code(wanted, codes) is None:
                raise ServiceError("unknown_language", f"{_shown(wanted)} is not supported")
        for pair in pairs:
            if (pair.source, pair.target) == (source_code, target_code):
                return pair
        raise ServiceError(
            "missing_pair",
            f"{_shown(target)} is not available as a target language from {_shown(source)}",
        )

    def route(self, pair: Pair) -> list[ModelVersion]:
        """Return the models that translate a pair: one, or two with a pivot language."""
        if not pair.pivot:
            return [self.versions[pair.source, pair.target]]
        return [self.versions[pair.source, pair.pivot], self.versions[pair.pivot, pair.target]]


async def _state_of(settings: WorkerSettings) -> Fingerprint:
    return await asyncio.to_thread(fingerprint, Path(settings.run))


def _shown(code: str) -> str:
    """Return a code for a message; what is not a code may be text of the client."""
    is_code = len(code) <= 12 and code.replace("-", "").replace("_", "").isalnum()
    return code if is_code and code.isascii() else "this language"
