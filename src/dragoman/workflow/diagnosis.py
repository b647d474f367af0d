"""Examine the machine and the installation, for `dragoman doctor`.

Each `Check` says what it found and, if something would make Dragoman faster or complete, what to
type. Nothing is sent anywhere, and nothing is changed.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import dragoman
from dragoman.storage.machine import available_cpus, available_memory, vector_instructions

Status = Literal["ok", "advice", "problem"]

_GIB = 1 << 30
_LITTLE_MEMORY = 2 * _GIB
_LITTLE_DISK = 5 * _GIB
_MEASURED_SECONDS = 0.5
_MUCH_STOLEN = 0.1

_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(\[(?P<extras>[\w,]+)\])?.*;.*\bextra == ['\"](?P<extra>\w+)['\"]"
)
"""A line of the package's metadata, for example `torch>=2.10; extra == 'train'`."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    result: str
    status: Status = "ok"
    advice: str = ""
    """What to do, for example a command; empty if nothing is needed."""


def diagnose(folder: Path) -> list[Check]:
    """Examine this machine, and the disk of a folder."""
    return [
        _check_python(),
        Check("Dragoman", dragoman.__version__),
        _check_torch(),
        _check_gpu(),
        _check_engine(),
        *_check_cpu(),
        _check_memory(),
        _check_disk(folder),
        _check_allocator(),
        *_check_extras(),
    ]


def _check_python() -> Check:
    version = platform.python_version()
    name = f"{platform.python_implementation()} {version}, {platform.system()} {os.uname().machine}"
    if platform.python_implementation() == "CPython":
        return Check("Python", name)
    return Check("Python", name, "problem", "install CPython: PyTorch and CTranslate2 need it")


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _check_torch() -> Check:
    if not _is_installed("torch"):
        return Check(
            "PyTorch",
            "not installed",
            "advice",
            "for training: pip install 'dragoman[train]' (a translator with an exported model "
            "does not need it)",
        )
    import torch  # noqa: PLC0415  (two seconds, and optional)

    build = "CPU build"
    if torch.version.cuda:
        build = f"CUDA {torch.version.cuda}"
    elif torch.version.hip:
        build = f"ROCm {torch.version.hip}"
    threads = torch.get_num_threads()
    result = f"{torch.__version__}, {build}, {_count(threads, 'thread')}"
    cpus = available_cpus()
    if threads > cpus:
        advice = f"PyTorch would start {threads} threads on {_count(cpus, 'CPU')}: "
        return Check("PyTorch", result, "advice", f"{advice}export OMP_NUM_THREADS={cpus}")
    if threads < cpus and "OMP_NUM_THREADS" in os.environ:
        advice = f"OMP_NUM_THREADS={threads} leaves {_count(cpus - threads, 'CPU')} unused: "
        return Check("PyTorch", result, "advice", f"{advice}unset OMP_NUM_THREADS")
    return Check("PyTorch", result)


def _check_gpu() -> Check:
    has_driver = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")
    if _is_installed("torch"):
        import torch  # noqa: PLC0415

        if torch.cuda.is_available():
            properties = torch.cuda.get_device_properties(0)
            count = torch.cuda.device_count()
            memory = properties.total_memory / _GIB
            return Check("GPU", f"{count} x {properties.name}, {memory:.0f} GiB")
        if has_driver:
            return Check(
                "GPU",
                "there is an NVIDIA driver, but PyTorch cannot use the GPU",
                "problem",
                "install the build of PyTorch that fits the driver: pytorch.org/get-started",
            )
    if has_driver:
        return Check("GPU", "there is an NVIDIA driver")
    return Check("GPU", "none; a CPU trains small models (presets demo and tiny)")


def _check_engine() -> Check:
    if not _is_installed("ctranslate2"):
        return Check(
            "CTranslate2",
            "not installed; PyTorch translates, several times slower",
            "advice",
            "pip install 'dragoman[infer]'",
        )
    import ctranslate2  # noqa: PLC0415  (optional)

    types = sorted(ctranslate2.get_supported_compute_types("cpu"))
    return Check("CTranslate2", f"{ctranslate2.__version__}, on the CPU: {', '.join(types)}")


def _check_cpu(root: Path = Path("/")) -> Iterator[Check]:
    cpus, machine_cpus = available_cpus(root), os.cpu_count() or 1
    result = f"{cpus} of {machine_cpus} CPUs" if cpus < machine_cpus else _count(cpus, "CPU")
    if instructions := vector_instructions(root):
        result += f", {', '.join(instructions)}"
    yield Check("CPU", result)
    load = os.getloadavg()[0] / cpus
    stolen = _stolen_share(root)
    if stolen > _MUCH_STOLEN:
        yield Check(
            "Load",
            f"other virtual machines take {stolen:.0%} of the processor time",
            "advice",
            "times vary on such a machine: compare CPU seconds, and repeat measurements",
        )
    elif load > 1:
        yield Check(
            "Load",
            f"{load:.1f} running programs for each CPU",
            "advice",
            "end other programs, or train with training.threads=1",
        )
    else:
        yield Check("Load", f"{load:.1f} running programs for each CPU")


def _stolen_share(root: Path) -> float:
    """Return the share of processor time that the host gave to others, during half a second."""

    def times() -> list[int]:
        text = (root / "proc/stat").read_text(encoding="ascii")
        return [int(word) for word in text.splitlines()[0].split()[1:]]

    try:
        before = times()
        time.sleep(_MEASURED_SECONDS)
        spent = [after - start for start, after in zip(before, times(), strict=True)]
        return spent[7] / max(1, sum(spent))
    except (OSError, IndexError, ValueError):  # Not Linux.
        return 0.0


def _check_memory() -> Check:
    free = available_memory()
    result = f"{free / _GIB:.1f} GiB available to this process"
    if free < _LITTLE_MEMORY:
        return Check(
            "Memory",
            result,
            "advice",
            "enough for the preset demo; for more, end other programs or raise the memory limit "
            "of the container",
        )
    return Check("Memory", result)


def _check_disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    result = f"{free / _GIB:.1f} GiB free in this folder"
    if free < _LITTLE_DISK:
        return Check("Disk", result, "advice", "preparation needs about 1.6 GB per million pairs")
    return Check("Disk", result)


def _check_allocator() -> Check:
    preloaded = os.environ.get("LD_PRELOAD", "")
    for name in ("jemalloc", "tcmalloc", "mimalloc"):
        if name in preloaded:
            return Check("Allocator", f"{name} (LD_PRELOAD)")
    library, _ = platform.libc_ver()
    if sys.platform == "linux" and library == "glibc":
        return Check("Allocator", "glibc; `train` tells it to keep memory for reuse")
    return Check("Allocator", f"that of {library or platform.system()}")


def _check_extras() -> Iterator[Check]:
    extras = _extra_packages()
    missing = {
        extra: sorted(package for package in packages if not _is_distribution(package))
        for extra, packages in extras.items()
    }
    yield Check("Extras", ", ".join(name for name, left in missing.items() if not left) or "none")
    for extra, packages in missing.items():
        if packages:
            yield Check(
                f"Extra {extra}",
                f"not installed: {', '.join(packages)}",
                advice=f"pip install 'dragoman[{extra}]'",
            )


def _extra_packages() -> dict[str, set[str]]:
    """Return the packages of each extra, as the metadata of the installed packages names them."""
    lines = metadata.requires("dragoman") or ()
    matches = [match for line in lines if (match := _REQUIREMENT.match(line))]
    # `all` includes the others, so it would name every missing package once more.
    extras = dict.fromkeys(match["extra"] for match in matches if match["extra"] != "all")
    return {extra: _packages_of("dragoman", extra) - {"dragoman"} for extra in extras}


def _packages_of(distribution: str, extra: str) -> set[str]:
    """Return what an extra installs; with what the extras that it names install (`daft[ray]`)."""
    packages: set[str] = set()
    if _is_distribution(distribution):
        for line in metadata.requires(distribution) or ():
            match = _REQUIREMENT.match(line)
            if match and match["extra"] == extra:
                packages.add(match["name"])
                for inner in (match["extras"] or "").split(","):
                    packages |= _packages_of(match["name"], inner) if inner else set()
    return packages


def _is_distribution(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
