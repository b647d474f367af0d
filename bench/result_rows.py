"""The rows of docs/results.md: which run each one is, what it continues, and who taught it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
FROZEN_TESTS = (*TESTS, "test_2018_flickr")
"""Test 2018 is only for the headline rows; docs/results.md says what was fixed before."""


class Cost(NamedTuple):
    """What a training took."""

    minutes: int
    """Of one core."""
    flops: float


FREE = Cost(0, 0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """One published row: its run folder, its text, and what differs from its recipe."""

    folder: str
    target: str
    changed: str = ""
    data: str = "multi30k"
    tokenized: bool = False
    tests: tuple[str, ...] = TESTS
    continues: str = ""
    """The row whose weights it started from."""
    teachers: tuple[str, ...] = ()
    """Rows whose output it was trained on, except rows that it continues."""
    unlisted: Cost = FREE
    """The cost of teachers that are not rows, and of their translations where it was measured."""
    source: str = "en"

    @property
    def recipe(self) -> str:
        """The file in `recipes`."""
        return self.folder.partition("/")[0]

    @property
    def is_synthetic(self) -> bool:
        """Whether the training text contains output of models."""
        return "distilled" in self.recipe

    @property
    def name(self) -> str:
        """Its name on the page."""
        return f"{self.recipe} {self.changed}".strip()


def _ensemble_row(target: str, run: str, first: str, second: str) -> Row:
    """A headline row with synthetic text: two plain models teach; it continues the first."""
    recipe = f"multi30k-en-{target}-tokenized"
    return Row(
        f"{recipe}-distilled-ensemble-back-translated/{run}",
        target,
        tokenized=True,
        tests=FROZEN_TESTS,
        continues=f"{recipe}/{first}",
        teachers=(f"{recipe}/{second}", f"multi30k-{target}-en-tokenized/run"),
        unlisted=TRANSLATION[target],
    )


TRANSLATION = {"de": Cost(24, 0.0), "fr": Cost(27, 0.0)}
"""The translation of the training text by `prepare`; its FLOPs were not counted."""
HELD_OUT = ("held out",)
SEEDS = ("run", "run-2", "run-3")
"""The run folders of seeds 1, 2 and 3."""
SINUSOIDS = "multi30k-en-de-tokenized/sinusoids"
TEACHERS = (SINUSOIDS, "multi30k-en-de-tokenized/wide")
FRENCH_SINUSOIDS = "multi30k-en-fr-tokenized/sinusoids"
FRENCH_TEACHERS = (FRENCH_SINUSOIDS, "multi30k-en-fr-tokenized-distilled-2/run")
BACK, BACK_SINUSOIDS = Cost(14, 5.2e13), Cost(32, 1.5e14)
"""The back-translation models of older rows; FLOPs are calculated from their updates. The minutes
were measured for German; the French model had as many updates."""
ROWS = (
    *(
        Row(f"multi30k-en-de-tokenized/{run}", "de", "long", tokenized=True, tests=FROZEN_TESTS)
        for run in ("long", "long-2", "long-3")
    ),
    Row("multi30k-en-de-tokenized/run", "de", tokenized=True),
    Row("multi30k-en-de-tokenized/half", "de", "half", tokenized=True),
    Row("multi30k-en-de-tokenized/short", "de", "short", tokenized=True),
    Row(
        "multi30k-en-de-tokenized-distilled-1-back-translated/run",
        "de",
        tokenized=True,
        continues="multi30k-en-de-tokenized/run",
        teachers=("multi30k-en-de-tokenized/half",),
        unlisted=BACK,
    ),
    Row(SINUSOIDS, "de", "sinusoids", tokenized=True),
    Row("multi30k-en-de-tokenized/wide", "de", "sinusoids, wide", tokenized=True),
    Row("multi30k-en-de-tokenized/sinusoids-short", "de", "sinusoids, short", tokenized=True),
    Row("multi30k-en-de-tokenized-distilled-2/run", "de", tokenized=True, teachers=TEACHERS),
    *(
        Row(
            f"multi30k-en-de-tokenized-distilled-2-back-translated/{run}",
            "de",
            tokenized=True,
            teachers=TEACHERS,
            unlisted=BACK_SINUSOIDS,
        )
        for run in SEEDS
    ),
    Row(
        "multi30k-en-de-tokenized-distilled-2-back-translated-low-dropout/run",
        "de",
        tokenized=True,
        continues="multi30k-en-de-tokenized-distilled-2-back-translated/run",
        teachers=TEACHERS,
        unlisted=BACK_SINUSOIDS,
    ),
    Row(
        "multi30k-en-de-tokenized-distilled-3-back-translated/run",
        "de",
        tokenized=True,
        continues="multi30k-en-de-tokenized-distilled-2-back-translated-low-dropout/run",
        teachers=(*TEACHERS, "multi30k-en-de-tokenized-distilled-2-back-translated/run-2"),
        unlisted=BACK_SINUSOIDS,
    ),
    Row("multi30k-de-en-tokenized/run", "en", tokenized=True, source="de"),
    *(_ensemble_row("de", run, "long-3", "long-2") for run in SEEDS),
    *(
        Row(f"multi30k-en-fr-tokenized/{run}", "fr", tokenized=True, tests=FROZEN_TESTS)
        for run in SEEDS
    ),
    Row(FRENCH_SINUSOIDS, "fr", "sinusoids", tokenized=True),
    Row(
        "multi30k-en-fr-tokenized-distilled-2/run",
        "fr",
        tokenized=True,
        teachers=(FRENCH_SINUSOIDS,),
    ),
    Row(
        "multi30k-en-fr-tokenized-distilled-2-back-translated/run",
        "fr",
        tokenized=True,
        teachers=FRENCH_TEACHERS,
        unlisted=BACK_SINUSOIDS,
    ),
    Row(
        "multi30k-en-fr-tokenized-distilled-2-back-translated-low-dropout/run",
        "fr",
        tokenized=True,
        continues="multi30k-en-fr-tokenized-distilled-2-back-translated/run",
        teachers=FRENCH_TEACHERS,
        unlisted=BACK_SINUSOIDS,
    ),
    Row(
        "multi30k-en-fr-tokenized-distilled-3-back-translated/run",
        "fr",
        tokenized=True,
        continues="multi30k-en-fr-tokenized-distilled-2-back-translated-low-dropout/run",
        teachers=FRENCH_TEACHERS,
        unlisted=BACK_SINUSOIDS,
    ),
    Row("multi30k-fr-en-tokenized/run", "en", tokenized=True, source="fr"),
    _ensemble_row("fr", "run", "run", "run-3"),
    Row("multi30k-en-de/half", "de", "half"),
    Row("multi30k-en-fr/half", "fr", "half"),
    Row("tatoeba-en-de/run", "de", data="", tests=HELD_OUT),
)
