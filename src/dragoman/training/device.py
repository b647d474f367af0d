"""What does this machine have, and what pays on it?

On a CPU with matrix units for bfloat16, products of float32 matrices run through them while all
else stays float32; on a GPU autocast does the same. Compiling pays on a GPU, where it takes less
time than it saves. A CPU's memory is better kept than given back: the allocator is told so.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from dragoman.recipe import TrainingRecipe

_KEEP = 2**31 - 1
# Names and numbers of mallopt(3) of the GNU C library: serve big blocks from the heap, do not trim
# it, grow it by much at a time, and do not make a heap for each thread.
_ALLOCATOR = {"MMAP_THRESHOLD": (-3, _KEEP), "TRIM_THRESHOLD": (-1, _KEEP)} | {
    "TOP_PAD": (-2, 1 << 28),
    "ARENA_MAX": (-8, 2),
}


def keep_memory() -> None:
    """Let the allocator keep freed blocks; else each tensor costs the system new pages."""
    if sys.platform != "linux":
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # Other C libraries have none.
    for name, (number, value) in _ALLOCATOR.items():
        if set_option is not None and f"MALLOC_{name}_" not in os.environ:
            set_option(number, value)


def choose_precision(settings: TrainingRecipe, device: torch.device) -> str:
    """The precision of matrix products: as asked, or what pays here."""
    if settings.precision != "auto":
        return settings.precision
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    # Asked of PyTorch's own CPU library, which would do the work.
    try:
        has_units = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    except (AttributeError, RuntimeError):  # Built without that library.
        has_units = False
    return "bfloat16" if has_units else "float32"


@contextlib.contextmanager
def keeping_precision() -> Iterator[None]:
    """Give the process back its precision: whoever translates after training wants plain sums."""
    before = torch.get_float32_matmul_precision()
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def use_precision(precision: str, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Set matrix products of float32 to this precision; give what a forward pass runs in."""
    is_low = precision == "bfloat16"
    torch.set_float32_matmul_precision("medium" if is_low else "highest")
    if is_low and device.type == "cuda":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()


def is_compiled(settings: TrainingRecipe, device: torch.device) -> bool:
    """Whether the layers are compiled."""
    return settings.compile == "yes" or (settings.compile == "auto" and device.type == "cuda")


def free_memory(device: torch.device) -> int:
    """How many bytes the device has left for us."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return _available() // ranks


def _available() -> int:
    """What the system could give without swapping: files it keeps in memory do not count."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known = dict(line.split(":") for line in lines)
        return 1024 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):  # Not Linux: a careful guess.
        return 4 << 30
