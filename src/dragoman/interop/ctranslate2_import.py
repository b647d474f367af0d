"""Import a CTranslate2 model of another program, as an export to translate and to serve with.

    model.bin, config.json
    shared_vocabulary.json (or source_ and target_vocabulary.json; older ones end in .txt)
    source.spm and target.spm, or sentencepiece.model for both languages
    tokenizer_config.json (the languages; optional)

An Argos package is such a model with its languages: a zip archive, or the folder in it.

    metadata.json, model/, sentencepiece.model (and README.md; stanza/ is not used)

The result is a folder as `folder.py` describes it. The weights are copied as they are, often
quantized, so the model cannot be trained. PyTorch is not needed.
"""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, get_args

import ctranslate2
from pydantic import BaseModel, TypeAdapter, ValidationError

from dragoman.errors import ArtifactError, DataError
from dragoman.interop.folder import Quantization, new_export
from dragoman.recipe.schema import LanguagesRecipe, Recipe, is_language_code
from dragoman.storage.files import sha256
from dragoman.tokenizer.interface import SPECIAL
from dragoman.tokenizer.marian import Marian

PADDING_NAMES = frozenset({"<blank>", "<pad>"})
"""Padding of OpenNMT and of Hugging Face; no text contains it."""

_WEIGHTS, _CONFIG, _METADATA, _README = "model.bin", "config.json", "metadata.json", "README.md"
_SHARED_SENTENCEPIECE = "sentencepiece.model"
_SENTENCEPIECE = (
    ("source.spm", "target.spm"),
    (_SHARED_SENTENCEPIECE, _SHARED_SENTENCEPIECE),
)
_VOCABULARY_ENDINGS = (".json", ".txt")
_MAX_POSITIONS = (512, 256, 128)
"""Lengths that are tried. Position tables of published models have at least 512 rows."""
_MIN_KNOWN = 0.5
"""Smallest share of the pieces of a SentencePiece model that the vocabulary must have."""
_Type = TypeVar("_Type")


class _Config(BaseModel):
    """The part of `config.json` that decides how a text is given to the model."""

    unk_token: str = "<unk>"  # noqa: S105
    bos_token: str = "<s>"  # noqa: S105
    eos_token: str = "</s>"  # noqa: S105
    decoder_start_token: str | None = "<s>"  # noqa: S105
    add_source_eos: bool = False


class _Metadata(BaseModel):
    """The part of the `metadata.json` of an Argos package that is used."""

    type: str = "translate"
    from_code: str = ""
    to_code: str = ""
    target_prefix: str = ""


class _TokenizerConfig(BaseModel):
    """The part of a `tokenizer_config.json` of Hugging Face that is used."""

    source_lang: str | None = None
    target_lang: str | None = None


@dataclass(frozen=True, slots=True)
class _Model:
    """A model of another program, with everything that is needed to use it."""

    folder: Path
    """The folder of CTranslate2's files."""
    sentencepiece: tuple[Path, Path]
    languages: LanguagesRecipe
    origin: str
    length_penalty: float
    readme: str = ""


def import_argos(path: Path, destination: Path, languages: LanguagesRecipe) -> None:
    """Write an Argos package (an archive or its folder) as an export.

    `languages` replaces the languages of the model.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with _unpacked(path, destination.parent) as folder:
        _write(_read_argos(path, folder, languages), destination)


def import_folder(folder: Path, destination: Path, languages: LanguagesRecipe) -> None:
    """Write a folder of CTranslate2 as an export; `languages` replaces those of the model."""
    _write(_read_folder(folder, languages), destination)


@contextmanager
def _unpacked(path: Path, scratch: Path) -> Iterator[Path]:
    """Give the folder of a package; an archive is unpacked into a temporary one in `scratch`."""
    if path.is_dir():
        yield path
        return
    with TemporaryDirectory(prefix=".dragoman-", dir=scratch) as temporary:
        try:
            with zipfile.ZipFile(path) as archive:
                _unpack(path, archive, Path(temporary))
        # A damaged, an encrypted and an unusual archive.
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise ArtifactError(
                f"{str(path)!r} cannot be read: {error}; expected an Argos package. Download it "
                "again"
            ) from None
        yield Path(temporary)


def _unpack(path: Path, archive: zipfile.ZipFile, folder: Path) -> None:
    """Unpack the files that are used, by their last names: no path of an archive is trusted."""
    files = [file for file in archive.infolist() if not file.is_dir()]
    names = {PurePosixPath(file.filename): file for file in files}
    root = next((name.parent for name in names if name.name == _METADATA), None)
    if root is None:
        raise ArtifactError(
            f"{str(path)!r} has no {_METADATA}, expected an Argos package: an archive with "
            f"{_METADATA}, model/ and {_SHARED_SENTENCEPIECE}"
        )
    (folder / "model").mkdir()
    for name, file in names.items():
        if name.parent not in (root, root / "model"):
            continue
        target = folder / name.name if name.parent == root else folder / "model" / name.name
        with archive.open(file) as packed, target.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)


def _read_argos(path: Path, folder: Path, languages: LanguagesRecipe) -> _Model:
    metadata = _read_json(folder / _METADATA, _Metadata)
    problems = []
    if metadata.type != "translate":
        problems.append(f"its type is {metadata.type!r}, expected 'translate'")
    if metadata.target_prefix:
        problems.append(
            f"its translations must begin with {metadata.target_prefix!r}, which is not supported"
        )
    if not (folder / "model" / _WEIGHTS).is_file():
        problems.append(f"it lacks model/{_WEIGHTS}")
    if (folder / "bpe.model").is_file():
        problems.append(
            "its text is split with Moses and BPE, which is not supported; most of these packages "
            "are OPUS-MT models: import the one of Hugging Face (Helsinki-NLP/opus-mt-…)"
        )
    elif not (folder / _SHARED_SENTENCEPIECE).is_file():
        problems.append(f"it lacks {_SHARED_SENTENCEPIECE}")
    if problems:
        raise ArtifactError(f"{str(path)!r} cannot be imported: {'; '.join(problems)}")
    readme = folder / _README
    return _Model(
        folder / "model",
        (folder / _SHARED_SENTENCEPIECE, folder / _SHARED_SENTENCEPIECE),
        _languages(languages, metadata.from_code, metadata.to_code),
        "an Argos package",
        length_penalty=0.2,  # As Argos Translate.
        readme=readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else "",
    )


def _read_folder(folder: Path, languages: LanguagesRecipe) -> _Model:
    complete = [
        (folder / source, folder / target)
        for source, target in _SENTENCEPIECE
        if (folder / source).is_file() and (folder / target).is_file()
    ]
    if not complete:
        raise ArtifactError(
            f"{str(folder)!r} has no tokenizer; expected source.spm and target.spm, or "
            f"{_SHARED_SENTENCEPIECE}, beside {_WEIGHTS}: copy them from the model that was "
            "converted"
        )
    config = folder / "tokenizer_config.json"
    theirs = _read_json(config, _TokenizerConfig) if config.is_file() else _TokenizerConfig()
    return _Model(
        folder,
        complete[0],
        _languages(languages, theirs.source_lang, theirs.target_lang),
        "a CTranslate2 model",
        length_penalty=1.0,
    )


def _languages(
    requested: LanguagesRecipe, source: str | None, target: str | None
) -> LanguagesRecipe:
    """Choose the languages: those that are requested, or those of the model."""
    codes = ((requested.source, source), (requested.target, target))
    chosen = [wanted or (code if code and is_language_code(code) else "") for wanted, code in codes]
    return LanguagesRecipe(source=chosen[0], target=chosen[1])


def _write(model: _Model, destination: Path) -> None:
    config_file = model.folder / _CONFIG
    config = _read_json(config_file, _Config) if config_file.is_file() else _Config()
    tokenizers = [
        _tokenizer(path, _vocabulary(model.folder, side), config)
        for side, path in zip(("source", "target"), model.sentencepiece, strict=True)
    ]
    _check_tokenizer(tokenizers[0], model.sentencepiece[0])
    with TemporaryDirectory() as scratch:
        for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
            (Path(scratch) / side).mkdir()
            tokenizer.save(Path(scratch) / side)
        facts = _try_model(model.folder, tokenizers[0])
        with new_export(
            destination,
            _recipe(model, *tokenizers),
            Path(scratch),
            model_hash=sha256(model.folder / _WEIGHTS),
            quantization=facts.quantization,
            max_positions=facts.max_positions,
            model_card=_model_card(model, facts),
        ) as temporary:
            for file in _model_files(model.folder):
                shutil.copyfile(file, temporary / file.name)
            if _lacks_end(config):
                settings = _read_json(config_file, dict[str, Any])
                text = json.dumps(settings | {"add_source_eos": True}, indent=2, sort_keys=True)
                (temporary / _CONFIG).write_text(text + "\n", encoding="utf-8")


def _lacks_end(config: _Config) -> bool:
    """Whether the end token of a source must be added, although the file does not say so.

    The converter for transformers leaves this to the tokenizer. A decoder that begins with the end
    token is one of its models, as those of OPUS-MT.
    """
    return config.decoder_start_token == config.eos_token and not config.add_source_eos


def _model_files(folder: Path) -> list[Path]:
    """List the files that CTranslate2 reads."""
    names = [_WEIGHTS, _CONFIG, "vmap.txt"]
    for name in ("shared", "source", "target"):
        names += [f"{name}_vocabulary{ending}" for ending in _VOCABULARY_ENDINGS]
    return [folder / name for name in names if (folder / name).is_file()]


def _vocabulary(folder: Path, side: str) -> list[str]:
    """Read the names of the tokens."""
    for name in (f"{side}_vocabulary", "shared_vocabulary"):
        path = folder / f"{name}.json"
        if path.is_file():
            return _read_json(path, list[str])
        path = folder / f"{name}.txt"
        if path.is_file():
            return _read_lines(path)
    raise ArtifactError(
        f"{str(folder)!r} has no {side} vocabulary, expected shared_vocabulary.json or "
        f"{side}_vocabulary.json; convert the model again"
    )


def _read_lines(path: Path) -> list[str]:
    """Read the lines of an older vocabulary file, without empty ones."""
    try:
        lines = path.read_bytes().decode().split("\n")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path} is not UTF-8 ({error.reason}); copy it again") from None
    return [line.removesuffix("\r") for line in lines if line.removesuffix("\r")]


def _tokenizer(path: Path, names: Sequence[str], config: _Config) -> Marian:
    """Make the tokenizer; the ids of a model of CTranslate2 do not matter, only the names do."""
    special = {*SPECIAL, *PADDING_NAMES, config.unk_token, config.bos_token, config.eos_token}
    pieces = [name for name in dict.fromkeys(names) if name not in special]
    try:
        return Marian(path.read_bytes(), [*SPECIAL, *pieces])
    except DataError as error:
        raise ArtifactError(f"{path}: {error}") from None


def _check_tokenizer(tokenizer: Marian, path: Path) -> None:
    """Refuse a SentencePiece model that belongs to another vocabulary."""
    share = tokenizer.known_share
    if share < _MIN_KNOWN:
        raise ArtifactError(
            f"{path} does not belong to this model: the vocabulary has only {share:.0%} of its "
            "pieces. Copy the SentencePiece model that the model was trained with"
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What only CTranslate2 knows about a model."""

    quantization: Quantization
    max_positions: int


def _try_model(folder: Path, tokenizer: Marian) -> _Facts:
    """Load the model, and translate sources of several lengths until one is not too long."""
    name = tokenizer.pieces([tokenizer.size - 1])[0]
    problem = ""
    try:
        translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
        for length in _MAX_POSITIONS:
            try:
                # One position is for the end token.
                source = [[name] * (length - 1)]
                translator.translate_batch(
                    source, beam_size=1, max_decoding_length=1, max_input_length=0
                )
            except RuntimeError as error:
                problem = str(error)
                continue
            known: tuple[Quantization, ...] = get_args(Quantization)
            kinds = [kind for kind in known if kind == translator.compute_type]
            return _Facts(kinds[0] if kinds else "float32", length)
    except (RuntimeError, ValueError) as error:
        problem = str(error)
    raise ArtifactError(
        f"CTranslate2 cannot translate with {str(folder)!r}: {problem}; expected a model for "
        "translation"
    )


def _recipe(model: _Model, source: Marian, target: Marian) -> Recipe:
    """Describe how the model is used; its architecture is only known to CTranslate2."""
    pieces = [tokenizer.pieces(range(tokenizer.size)) for tokenizer in (source, target)]
    is_shared = pieces[0] == pieces[1]
    return Recipe.model_validate(
        {
            "languages": model.languages,
            "corpus": {"filters": [], "span_augmentation": 0.0, "synthetic_spans": 0.0},
            "tokenizer": {
                "kind": "marian",
                "vocabulary_size": target.size,
                "shared": is_shared,
            },
            "model": {"tied_embeddings": "all" if is_shared else "output"},
            "decoding": {"beam_size": 4, "length_penalty": model.length_penalty},
        }
    )


def _model_card(model: _Model, facts: _Facts) -> str:
    languages = model.languages
    source, target = languages.source or "unknown", languages.target or "unknown"
    lines = [
        f"# Translation model, {source} to {target}",
        "",
        f"- Imported from {model.origin} ({facts.quantization})",
        "- For translation and serving with CTranslate2; it cannot be trained.",
        "- License: that of the original model.",
    ]
    if model.readme:
        lines += ["", "## README of the original", "", model.readme]
    return "\n".join(lines) + "\n"


def _read_json(path: Path, expected: type[_Type]) -> _Type:
    try:
        return TypeAdapter(expected).validate_json(path.read_bytes())
    except ValidationError as error:
        what = error.errors(include_url=False)[0]["msg"]
        raise ArtifactError(f"{path} cannot be read: {what}; copy it again") from None
