"""The CPUs and the memory that this process may use, their instructions, and the user it runs as.

A container or a job scheduler gives a process less than the machine has. The limits are in the CPU
affinity of the process and in the files of its cgroup (version 2: `cpu.max`, `memory.max`; version
1: `cpu.cfs_quota_us`, `memory.limit_in_bytes`). The limits of all parent cgroups apply too.
"""

from __future__ import annotations

import getpass
import math
import os
from collections.abc import Iterator
from pathlib import Path

_UNKNOWN_MEMORY = 4 << 30
"""A cautious value for systems without /proc/meminfo."""
_INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "VNNI",
    "avx_vnni": "VNNI",
    "avx512_bf16": "bfloat16",
    "amx_tile": "AMX",
    "asimd": "NEON",
    "sve": "SVE",
    "bf16": "bfloat16",
}
"""Flags of /proc/cpuinfo, and the names that people know."""


def available_cpus(root: Path = Path("/")) -> int:
    """Return the number of CPUs that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):  # Linux only.
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quotas = [math.ceil(quota) for quota in _cpu_quotas(root)]
    return max(1, min([count, *quotas]))


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process may still allocate without swapping."""
    try:
        text = (root / "proc/meminfo").read_text(encoding="ascii")
        entries = dict(line.split(":") for line in text.splitlines())
        free = 1024 * int(entries["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):  # Not Linux.
        free = _UNKNOWN_MEMORY
    return max(0, min([free, *_memory_left(root)]))


def vector_instructions(root: Path = Path("/")) -> list[str]:
    """Return the kinds of vector instructions that matter for matrix products."""
    try:
        lines = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # Not Linux.
        return []
    for line in lines:
        if line.lower().startswith(("flags", "features")):
            flags = line.partition(":")[2].split()
            return list(
                dict.fromkeys(_INSTRUCTIONS[flag] for flag in _INSTRUCTIONS if flag in flags)
            )
    return []


def user_name() -> str:
    """Return the name of the user, for records of who decided something."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run with a number that has no name.
        return str(os.getuid())


def _cpu_quotas(root: Path) -> Iterator[float]:
    for folder in _cgroup_folders(root, "cpu"):
        words = _read(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit():  # "max" means no limit.
            yield int(words[0]) / int(words[1])
        quota, period = (_number(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota is not None and period and quota > 0:  # -1 means no limit.
            yield quota / period


def _memory_left(root: Path) -> Iterator[int]:
    """Yield limit minus use for each cgroup; cached files can be freed and do not count as use."""
    names = (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )
    for folder in _cgroup_folders(root, "memory"):
        for limit_name, usage_name, cache_name in names:
            limit, usage = _number(folder / limit_name), _number(folder / usage_name)
            if limit is not None and usage is not None:
                statistics = dict(
                    line.split() for line in _read(folder / "memory.stat").splitlines()
                )
                yield limit - usage + int(statistics.get(cache_name, 0))


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and of its parents, for both versions."""
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # Version 2 has one tree for all controllers.
            mount = mounts
        elif controller in controllers.split(","):
            mount = mounts / controller
        else:
            continue
        folder = mount / path.lstrip("/")
        while folder != mount:
            yield folder
            folder = folder.parent
        # Inside a container the path is the host's; its own limits are at the mount point.
        yield mount


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
