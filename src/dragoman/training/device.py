"""What the device of training offers: precision, compilation, memory, threads.

On a CPU with bfloat16 matrix units, the float32 matrix products of wide models run on these units
while everything else stays float32; on a GPU autocast does the same. Compilation pays off on a GPU
only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import warnings
from collections.abc import Iterator

import torch

from dragoman.recipe.schema import TrainingRecipe
from dragoman.storage.machine import available_memory

_LARGE = 2**31 - 1
# Names and numbers of mallopt(3) of the GNU C library: allocate large blocks on the heap, do not
# trim the heap, grow it in large steps, and do not make one heap per thread.
_ALLOCATOR = {"MMAP_THRESHOLD": (-3, _LARGE), "TRIM_THRESHOLD": (-1, _LARGE)} | {
    "TOP_PAD": (-2, 1 << 28),
    "ARENA_MAX": (-8, 2),
}
MIN_BFLOAT16_WIDTH = 256
"""On a CPU, `auto` is bfloat16 from this width of the model.

Measured with AMX, CPU seconds per update, float32 and bfloat16: width 128, 0.39 and 0.35 (and
slower in runs of a minute); width 256, 2.95 and 1.33; width 512, 9.8 and 5.6. oneDNN compiles a
kernel for each new shape of a product, which costs a narrow model more than it gains.
"""


def keep_memory() -> None:
    """Let the C allocator keep freed blocks; otherwise each large tensor costs new pages.

    This changes the whole process, so only commands call it.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # Other C libraries have none.
    for name, (number, value) in _ALLOCATOR.items():
        if mallopt is not None and f"MALLOC_{name}_" not in os.environ:
            mallopt(number, value)


@contextlib.contextmanager
def restored_torch_settings() -> Iterator[None]:
    """Restore process-wide settings of PyTorch, and warning filters, after a `with` block."""
    precision = torch.get_float32_matmul_precision()
    threads = torch.get_num_threads()
    random_state = torch.get_rng_state()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        torch.set_float32_matmul_precision(precision)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_rng_state(random_state)


def use_threads(settings: TrainingRecipe) -> None:
    """Set the number of threads, if the recipe names one."""
    if settings.threads != "auto" and settings.threads != torch.get_num_threads():
        torch.set_num_threads(settings.threads)


def choose_precision(settings: TrainingRecipe, device: torch.device, width: int) -> str:
    """Return the precision of matrix products: that of the recipe, or the fastest here.

    `width` is that of the model.
    """
    if settings.precision != "auto":
        return settings.precision
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    if width < MIN_BFLOAT16_WIDTH:
        return "float32"
    # PyTorch's CPU library accepts bfloat16 on every CPU with AVX-512, but is slower with it where
    # the CPU has no instructions for it.
    has_units = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return "bfloat16" if has_units else "float32"


def use_precision(precision: str, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Set the precision of float32 matrix products; return the context of a forward pass."""
    is_low = precision == "bfloat16"
    torch.set_float32_matmul_precision("medium" if is_low else "highest")
    if is_low and device.type == "cuda":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()


def is_compiled(settings: TrainingRecipe, device: torch.device) -> bool:
    """Whether the layers are compiled."""
    return settings.compile is True or (settings.compile == "auto" and device.type == "cuda")


def free_memory(device: torch.device) -> int:
    """Return the bytes that this process may use on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return available_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or cpu."""
    return torch.cuda.get_device_name() if device.type == "cuda" else device.type
