"""Translate text with a model: `Translator`.

Each input line gives one output line, in the same order and with the same leading and trailing
whitespace. A line is normalized like the training corpus. A line that is too long for the model is
split into sentences, and their translations are joined. If a translation is degenerate (repetition,
wrong length), its line or sentence is translated again with repetition limits (`decoding.retry`),
and the line gets the flag `retried`. The engine is chosen when the model is loaded; CTranslate2
does not need PyTorch.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from pydantic import ValidationError

from dragoman.decoding.engine import Answers, clamp_lengths, length_limit
from dragoman.errors import ArtifactError, DataError, Mistake, RecipeError
from dragoman.inference.joining import BlockResult, Joiner, Translation
from dragoman.inference.lines import (
    NumberedLine,
    SplitLine,
    blocks,
    clean_output,
    split_space,
)
from dragoman.inference.loading import (
    EngineName,
    LoadedModel,
    LoadOptions,
    check_decoding,
    load_model,
)
from dragoman.inference.quality import detect_degeneration, with_repetition_limits
from dragoman.interop.compatibility.ctranslate2 import obstacles
from dragoman.recipe.effects import settings_without_effect
from dragoman.recipe.mistakes import mistakes_in
from dragoman.recipe.schema import DecodingRecipe
from dragoman.storage.mirror import local_path
from dragoman.text import sentences
from dragoman.text.languages import match_code
from dragoman.text.normalization import normalize_text
from dragoman.text.sentences import Piece

__all__ = ["Translation", "Translator"]

_BLOCKS_AHEAD = 4
"""Number of further blocks that the engine gets before the result of the oldest one is read."""
_MAX_CHARACTERS_PER_TOKEN = 32
"""A text with more than `max_source_tokens` times this many characters is always split."""


@dataclass(frozen=True, slots=True)
class _Request:
    """Settings of one call, the same for all its lines."""

    settings: DecodingRecipe
    language_ids: list[int]
    with_alignment: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines whose pieces the engine is translating."""

    lines: list[SplitLine]
    ids: list[list[int]]
    """Source token ids of each piece; the pieces of all lines are in one list."""
    prefixes: list[list[int]] | None
    wait: Callable[[], Answers]
    """Waits until the engine has finished, and returns its translations."""


class Translator:
    """A loaded model with its tokenizers and decoding settings; safe to use from several threads.

    It is closed at the end of a `with` block:

        with Translator.load("run") as translator:
            print(translator.translate("Hello world.").text)
    """

    def __init__(self, model: LoadedModel) -> None:
        self.engine = model.engine
        self.recipe = model.recipe
        self.settings = model.recipe.decoding
        self.source, self.target = model.tokenizers
        self.model_hash = model.model_hash
        self.quantization = model.quantization
        self.checkpoint = model.checkpoint
        self._max_positions = model.max_positions
        self._is_closed = False
        languages = model.recipe.languages
        gap = sentences.gap(languages.source, languages.target)
        self._joiner = Joiner(self.source, self.target, gap)
        self._language_tokens = self.source.language_ids
        filters = model.recipe.corpus.filters
        self._is_normalized = any(choice.name == "unicode" for choice in filters)

    @classmethod
    def load(
        cls,
        folder: str | Path | Sequence[str | Path],
        settings: Sequence[str] = (),
        *,
        engine: EngineName = "auto",
        device: str = "auto",
        threads: int = 0,
        trust_parts: bool = False,
    ) -> Translator:
        """Load a run, an export, or several runs as an ensemble.

        `settings` override the decoding settings of the model: `["decoding.beam_size=1"]`.
        `engine` is `auto`, `ctranslate2` or `pytorch`. `device` is `auto` (a GPU if there is one),
        `cpu` or `cuda`. `threads` is the number of CPU threads (0 = all cores). `trust_parts`
        allows the model folder to import parts that are not in this package.
        """
        folders = [folder] if isinstance(folder, str | Path) else folder
        options = LoadOptions(engine, device, threads, trust_parts)
        return cls(load_model([local_path(path) for path in folders], settings, options))

    def close(self) -> None:
        """Free the model's memory; the translator cannot be used afterwards."""
        if not self._is_closed:
            self._is_closed = True
            self.engine.close()

    def __enter__(self) -> Translator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def translate(
        self,
        text: str,
        *,
        prefixes: str | Sequence[str] = (),
        language: str = "",
        with_alignment: bool = False,
        **decoding: Any,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Sequence[str],
        *,
        prefixes: str | Sequence[str] = (),
        language: str = "",
        with_alignment: bool = False,
        **decoding: Any,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        *,
        prefixes: str | Sequence[str] = (),
        language: str = "",
        with_alignment: bool = False,
        **decoding: Any,
    ) -> Translation | list[Translation]:
        """Translate one line, or a list of lines; a line must not contain a newline.

        `prefixes` gives the beginning of each translation: a list with one text per line, or one
        text for one line. `language` is the target language (multilingual models).
        `with_alignment` also computes `Translation.alignment`. Other keywords are decoding settings
        for this call: `beam_size=1`.
        """
        lines = [text] if isinstance(text, str) else text
        if isinstance(text, str) and isinstance(prefixes, str):
            prefixes = [prefixes] if prefixes else []
        if prefixes and not isinstance(prefixes, str) and len(prefixes) != len(lines):
            raise DataError(
                f"found {len(prefixes)} prefixes for {len(lines)} lines; expected one per line"
            )
        stream = self.stream(
            lines, prefixes=prefixes, language=language, with_alignment=with_alignment, **decoding
        )
        translations = list(stream)
        return translations[0] if isinstance(text, str) else translations

    def stream(
        self,
        lines: Iterable[str],
        *,
        prefixes: Iterable[str] = (),
        language: str = "",
        with_alignment: bool = False,
        **decoding: Any,
    ) -> Iterator[Translation]:
        """Translate lines from an iterable of any length; only a few blocks are read ahead."""
        if isinstance(lines, str) or isinstance(prefixes, str):
            name = "lines" if isinstance(lines, str) else "prefixes"
            raise DataError(f"`{name}` is one string, expected a list of strings")
        settings = self.with_decoding(**decoding)
        request = _Request(settings, self._language_ids(language), with_alignment)
        pending: collections.deque[_Block] = collections.deque()
        for block in blocks(lines, prefixes):
            pending.append(self._begin(block, request))
            if len(pending) > _BLOCKS_AHEAD:
                yield from self._finish(pending.popleft(), request)
        while pending:
            yield from self._finish(pending.popleft(), request)

    def ids(self, text: str, language: str = "") -> list[int]:
        """Return the token ids that the model reads for a line, without the end token.

        The line is not split, so it must not be too long for the model.
        """
        _, body, _ = split_space("the line", text)
        (ids,) = self._with_language(1, self._encode([body]), self._language_ids(language))
        return ids

    def with_decoding(self, **changes: Any) -> DecodingRecipe:
        """Return the model's decoding settings with these changes, checked like a recipe."""
        if not changes:
            return self.settings
        try:
            settings = DecodingRecipe.model_validate(self.settings.model_dump() | changes)
        except ValidationError as error:
            raise RecipeError(mistakes_in(error, DecodingRecipe, "decoding")) from None
        check_decoding(settings)
        recipe = self.recipe.model_copy(update={"decoding": settings})
        unused = list(settings_without_effect(recipe, [f"decoding.{name}" for name in changes]))
        if unused:
            raise RecipeError([Mistake(mistake.path, mistake.what) for mistake in unused])
        unsupported = obstacles(recipe) if self.engine.name == "ctranslate2" else []
        if unsupported:
            reasons = "; ".join(f"{mistake.path}: {mistake.what}" for mistake in unsupported)
            raise ArtifactError(
                f"CTranslate2 does not support these settings: {reasons}. Load the run with "
                "engine='pytorch'"
            )
        return clamp_lengths(settings, self._max_positions)

    def _language_ids(self, language: str) -> list[int]:
        """Return the id of the token that selects the language; empty if there is no language."""
        ids = self._language_tokens
        wanted = language
        if not language and self.source.needs_language:
            wanted = next(iter(ids)) if len(ids) == 1 else self.recipe.languages.target
        code = match_code(wanted, ids) if wanted else None
        if code is not None:
            return [ids[code]]
        if not language:
            return []
        known = f"; it has tokens for: {', '.join(sorted(ids))}" if ids else ""
        raise DataError(
            f"the model has no token for the language {language!r}{known}; choose a target "
            "language of its training corpus. Do not set a language if it has only one"
        )

    def _with_language(
        self, number: int, pieces: list[list[int]], language_ids: list[int]
    ) -> list[list[int]]:
        """Put the language token before each piece of a line.

        The text of an imported model may begin with its own token, for example `>>deu<<`.
        """
        if self.source.needs_language and self._language_tokens and pieces:
            first = pieces[0][:1]
            if first and first[0] in self._language_tokens.values():
                return [pieces[0], *([*first, *tokens] for tokens in pieces[1:])]
            if not language_ids:
                codes = ", ".join(sorted(self._language_tokens))
                raise DataError(
                    f"line {number} has no target language, but the model translates into several; "
                    f"expected one of: {codes}. In the command line, add --language"
                )
        return [[*language_ids, *tokens] for tokens in pieces]

    def _begin(self, block: list[NumberedLine], request: _Request) -> _Block:
        """Split and encode lines, and send their pieces to the engine."""
        if self._is_closed:
            raise ArtifactError("the translator is closed; load the model again")
        stripped = [split_space(f"line {line.number}", line.text) for line in block]
        split_bodies = self._split([body for _, body, _ in stripped if body], request)
        lines, ids, prefixes = [], [], []
        for (leading, body, trailing), line in zip(stripped, block, strict=True):
            pieces, piece_ids = next(split_bodies) if body else ([], [])
            # A text that has only invisible characters has no pieces. It is copied to the output.
            lines.append(SplitLine(leading if pieces else leading + body, tuple(pieces), trailing))
            ids += self._with_language(line.number, piece_ids, request.language_ids)
            if pieces:
                prefix = self._prefix(line, ids[-len(pieces)], request.settings)
                prefixes += [prefix, *[[]] * (len(pieces) - 1)]
        used_prefixes = prefixes if any(prefixes) else None
        wait = self.engine.begin(
            ids, request.settings, used_prefixes, with_alignment=request.with_alignment
        )
        return _Block(lines, ids, used_prefixes, wait)

    def _prefix(self, line: NumberedLine, source: list[int], settings: DecodingRecipe) -> list[int]:
        """Encode the prefix of a translation, and check that it is below the length limit."""
        if not line.prefix:
            return []
        name = f"the prefix of line {line.number}"
        _, body, _ = split_space(name, line.prefix)
        (ids,) = self.target.encode([body])
        limit = length_limit(len(source), settings)
        if len(ids) >= limit:
            raise DataError(
                f"{name} has {len(ids)} tokens, expected fewer than {limit}, the length limit of "
                "the translation. Use a shorter prefix or increase decoding.max_extra_tokens"
            )
        return ids

    def _split(
        self, bodies: list[str], request: _Request
    ) -> Iterator[tuple[list[Piece], list[list[int]]]]:
        """Split each text that is too long; yield its pieces and their token ids."""
        max_tokens = request.settings.max_source_tokens - len(request.language_ids)

        def measure(texts: Sequence[str]) -> list[int]:
            return [len(ids) for ids in self._encode(texts)]

        # Tokenizing a very long text needs much memory. Such a text is split in any case, so only
        # its beginning is encoded here.
        max_characters = max_tokens * _MAX_CHARACTERS_PER_TOKEN
        encoded = self._encode([body[:max_characters] for body in bodies])
        for body, ids in zip(bodies, encoded, strict=True):
            if len(body) <= max_characters and len(ids) <= max_tokens:
                yield ([Piece(body, "")], [ids]) if ids else ([], [])
                continue
            pieces = sentences.fit(body, self.recipe.languages.source, measure, max_tokens)
            piece_ids = self._encode([piece.text for piece in pieces])
            pairs = [pair for pair in zip(pieces, piece_ids, strict=True) if pair[1]]
            yield [piece for piece, _ in pairs], [ids for _, ids in pairs]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Normalize like the training corpus, and tokenize."""
        if self._is_normalized:
            texts = [normalize_text(text) for text in texts]
        return self.source.encode(texts)

    def _finish(self, block: _Block, request: _Request) -> Iterator[Translation]:
        """Wait for a block, retry degenerate translations, and join the pieces of each line."""
        answers = block.wait()
        flags = [
            detect_degeneration(source, hypotheses[0])
            for source, hypotheses in zip(block.ids, answers, strict=True)
        ]
        if request.settings.retry:
            self._retry(block, request, answers, flags)
        ranks = max(map(len, answers), default=1)
        sources = [piece.text for line in block.lines for piece in line.pieces]
        texts = [
            list(map(clean_output, self._texts(answers, rank), sources)) for rank in range(ranks)
        ]
        yield from self._joiner.join(block.lines, BlockResult(block.ids, answers, flags, texts))

    def _retry(
        self, block: _Block, request: _Request, answers: Answers, flags: list[list[str]]
    ) -> None:
        """Translate degenerate pieces again with repetition limits; update answers and flags."""
        rows = [row for row, piece_flags in enumerate(flags) if piece_flags]
        if not rows:
            return
        retried = self.engine.translate(
            [block.ids[row] for row in rows],
            with_repetition_limits(request.settings),
            [block.prefixes[row] for row in rows] if block.prefixes else None,
            with_alignment=request.with_alignment,
        )
        for row, hypotheses in zip(rows, retried, strict=True):
            if detect_degeneration(block.ids[row], hypotheses[0]):
                flags[row].append("retried")
            else:
                answers[row], flags[row] = hypotheses, ["retried"]

    def _texts(self, answers: Answers, rank: int) -> list[str]:
        """For each piece, decode the hypothesis with this rank, or its last if it has fewer."""
        tokens = [hypotheses[min(rank, len(hypotheses) - 1)].tokens for hypotheses in answers]
        return self.target.decode(tokens)
