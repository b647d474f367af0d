"""The stored result of one experiment: `c09.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import DataError
from dragoman.lab.catalog import file_stem, find_claim, list_claims
from dragoman.lab.digest import measurement_code
from dragoman.lab.experiment import Numbers, Size, Verdict
from dragoman.lab.lectures import lectures_of
from dragoman.storage.files import write_text


class Finding(BaseModel):
    """A claim, how it was tested, the numbers, and the verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[2] = 2
    """The version of this file format."""
    number: str
    """Of the claim, as C9."""
    title: str
    sources: tuple[tuple[str, str, str], ...]
    """Lecture, section, and what it says there, in our words."""
    claim: str
    """Our reading of it."""
    method: str
    criterion: str
    verdict: Verdict
    summary: str
    explanation: str
    is_seed_independent: bool
    size: Size
    seed: int
    seconds: float
    dragoman_version: str
    torch_version: str
    instructions: str = ""
    """The vector instructions of the processor that measured it; empty if they were not stored."""
    code: str
    """The digest of the code that measured it (`digest.py`)."""
    settings: dict[str, str]
    """The constants of the experiment, as its code wrote them."""
    numbers: Numbers

    @property
    def stem(self) -> str:
        """The stem of its files, as c09."""
        return file_stem(self.number)

    @property
    def lectures(self) -> tuple[str, ...]:
        """The lectures that make the claim."""
        return lectures_of(self.sources)

    @property
    def is_outdated(self) -> bool:
        """Whether the code that measures the claim has changed since."""
        return self.code != measurement_code(find_claim(self.number).module).digest

    @property
    def command(self) -> str:
        """The command that measured it."""
        return f"dragoman lab run {self.number} --{self.size} --seed {self.seed}"


def write_finding(finding: Finding, folder: Path) -> None:
    """Write one field per line, so that a diff shows which field changed."""
    fields = finding.model_dump(mode="json")
    lines = (
        f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
    )
    write_text(folder / f"{finding.stem}.json", "{\n" + ",\n".join(lines) + "\n}\n")


def read_finding(path: Path) -> Finding:
    """Read a stored finding."""
    try:
        return Finding.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise DataError(
            f"{str(path)!r} is not a finding of the lab (format 2): {where}: {first['msg']}. "
            "Measure the claim again with: dragoman lab run"
        ) from None


def read_findings(folder: Path) -> list[Finding]:
    """All findings in a folder, in the order of the claims."""
    paths = (folder / f"{file_stem(number)}.json" for number in list_claims())
    return [read_finding(path) for path in paths if path.exists()]
