"""The devices that a plan can count with, and the machines that a user names.

`machines.yaml` beside this file has speed, memory, power and price of each device. A user gives an
own file of the same form with `--prices`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.errors import DataError, suggest
from dragoman.storage.machine import available_cpus, available_memory
from dragoman.storage.mirror import fetch, local_path

CORE = "cpu-core"
"""The device that preparation, translation, and training without a GPU use."""
_FILE = Path(__file__).parent / "machines.yaml"
_COUNTED = re.compile(r"(?:(\d+)\s*[x×*]\s*)?(\S+)")

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Device(_Frozen):
    """One GPU, or one core of a CPU."""

    peak_bfloat16: NotNegative
    peak_float32: Positive
    utilization: Annotated[float, Field(gt=0, le=1)]
    memory: Positive
    watts: NotNegative
    price_per_hour: NotNegative
    link: Positive

    def flops_per_second(self, precision: str) -> float:
        """Return the speed that training reaches; `auto` is bfloat16 where there is such a unit."""
        is_low = precision != "float32" and self.peak_bfloat16 > 0
        return self.utilization * (self.peak_bfloat16 if is_low else self.peak_float32)


class Prices(_Frozen):
    """The content of `machines.yaml`."""

    date: date
    currency: str
    network: Positive
    cores_per_gpu: Annotated[int, Field(ge=1)]
    devices: Mapping[str, Device]
    sources: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Machines:
    """What trains: `machines` machines with `per_machine` GPUs each, or the cores of this one."""

    name: str
    device: Device
    machines: int
    per_machine: int
    core: Device
    cores: int
    """For preparation and translation, and for training without a GPU."""
    memory: float
    """Bytes for one rank."""
    network: float

    @property
    def is_gpu(self) -> bool:
        """Whether GPUs train."""
        return self.device is not self.core

    @property
    def world_size(self) -> int:
        """The number of ranks: one for each GPU; one for all cores."""
        return self.machines * self.per_machine if self.is_gpu else 1

    @property
    def bandwidth(self) -> float:
        """Bytes per second of one rank to the others."""
        if self.machines == 1:
            return self.device.link
        return min(self.device.link, self.network / self.per_machine)


def read_prices(path: Path | None = None) -> Prices:
    """Read `machines.yaml`, or the file of the user."""
    file = _FILE if path is None else fetch(local_path(path))
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        prices = Prices.model_validate(content)
    except FileNotFoundError:
        raise DataError(f"there is no file {str(path)!r}; expected prices, {_form()}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise DataError(f"{str(path)!r} is not YAML; expected prices, {_form()}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(
            f"{str(path)!r}: {where}: {first['msg'].lower()}; expected prices, {_form()}"
        ) from None
    if CORE not in prices.devices:
        raise DataError(f"{str(path)!r} has no device {CORE!r}, which every plan needs; {_form()}")
    return prices


def _form() -> str:
    return f"in the form of {_FILE}"


def choose_machines(prices: Prices, gpus: str, machines: int, cores: int) -> Machines:
    """Return the machines that the options name; without --gpus, the cores of this machine."""
    core = prices.devices[CORE]
    if not gpus:
        if machines > 1:
            raise DataError(
                f"found --machines {machines} without GPUs; name those of one machine, for example "
                f"--machines {machines} --gpus 8xA100-80GB"
            )
        count = cores or available_cpus()
        memory = float(available_memory())
        name = f"{count} CPU core{'s' if count > 1 else ''} of this machine"
        return Machines(name, core, 1, count, core, count, memory, prices.network)
    match = _COUNTED.fullmatch(gpus.strip())
    count, kind = (int(match[1] or 1), match[2]) if match else (0, gpus)
    kind = _find(kind, prices)
    if count < 1:
        raise DataError(f"found --gpus {gpus!r}, expected COUNTxDEVICE, for example 8x{kind}")
    device = prices.devices[kind]
    all_cores = cores or machines * count * prices.cores_per_gpu
    amount = f"{machines} machines of {count}" if machines > 1 else f"{count}"
    return Machines(
        f"{amount} × {kind}",
        device,
        machines,
        count,
        core,
        all_cores,
        device.memory,
        prices.network,
    )


def _find(kind: str, prices: Prices) -> str:
    """Find a device by its name, or by the beginning of its name, in any case."""
    names = [name for name in prices.devices if name != CORE]
    exact = [name for name in names if name.lower() == kind.lower()]
    fitting = exact or [name for name in names if name.lower().startswith(kind.lower())]
    # Of one GPU in two sizes, the larger one is what providers offer most.
    if fitting:
        return max(fitting, key=lambda name: prices.devices[name].memory)
    raise DataError(
        f"found --gpus {kind!r}; {suggest(kind, names)}. Other devices can be described in a file: "
        "--prices FILE"
    )
