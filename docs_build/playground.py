"""Make docs/assets/playground.html: attention that a reader can change in the browser.

    python -m docs_build.playground record FOLDER     train the models in FOLDER, record, and render
    python -m docs_build.playground render            render again, with the data that the page has

`record` trains four small models on the corpus of `dragoman demo`; each takes a few minutes on one
core, and FOLDER keeps what is done. It records the vectors of every head for some sentences. The
page computes scores and weights from them, so a reader can change the similarity, the mask or the
kind of attention. The page is one file: no server, and nothing is loaded.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from dragoman.explanation.explain import explain_sentence
from dragoman.explanation.html_page import Frame, shared_file
from dragoman.explanation.page import to_data
from dragoman.inference.translator import Translator
from dragoman.storage.files import write_text
from dragoman.workflow import demonstration
from dragoman.workflow.preparation import prepare
from dragoman.workflow.training import train

PAGE = Path(__file__).parents[1] / "docs" / "assets" / "playground.html"
TITLE = "Attention playground"
SENTENCES = (
    "The train leaves at half past two.",
    "I think that the train arrives at ten to twelve.",
    "The picture costs forty-six euros and fifty cents.",
    "two half at past leaves train The.",
)
"""The last one has the words of the first one in another order."""
SIZE = (
    "tokenizer.vocabulary_size=900",
    "model.width=64",
    "model.feed_forward_width=256",
    "training.steps=2000",
)
"""Small vectors keep the page small; a smaller vocabulary splits numbers between tens and ones."""
SCRIPTS = ("playground", "clock")


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is trained for the page."""

    name: str
    folder: str
    changes: tuple[str, ...] = ()


MODELS = (
    Model("sinusoidal positions", "sinusoidal"),
    Model("no positions", "none", ("model.position=none",)),
    Model("rotary positions", "rotary", ("model.position=rotary",)),
    Model("additive similarity, sinusoidal positions", "additive", ("model.similarity=additive",)),
)


def record(folder: Path) -> dict[str, Any]:
    """Train what is missing in the folder, and return the data of the page."""
    recipe = demonstration.make_corpus(folder)
    prepare(recipe, SIZE)
    return {"models": [_record_model(folder, recipe, model) for model in MODELS]}


def _record_model(folder: Path, recipe: Path, model: Model) -> dict[str, Any]:
    run = folder / model.folder
    train(recipe, [*SIZE, *model.changes, f"training.folder={run.absolute()}"])
    match = demonstration.score(run, folder)
    with Translator.load(run, engine="pytorch") as translator:
        sentences = [to_data(explain_sentence(translator, text)) for text in SENTENCES]
    return {
        "name": model.name,
        "changes": [*SIZE, *model.changes],
        "exact": match.exact,
        "items": match.total,
        "sentences": [_sentence_data(sentence) for sentence in sentences],
    }


def _sentence_data(explained: dict[str, Any]) -> dict[str, Any]:
    """Keep what the page shows. Scores are needed only where no vectors give them."""
    kept = ("role", "layer", "shape", "weights", "vectors", "scores")
    attention = [{name: view[name] for name in kept} for view in explained["attention"]]
    for view in attention:
        if view["vectors"] is not None:
            del view["scores"]
    return {
        "sentence": explained["sentence"],
        "translation": explained["translation"],
        "source_tokens": explained["source_tokens"],
        "decoder_input": explained["decoder_input"],
        "output_tokens": [token["token"] for token in explained["tokens"]],
        "attention": attention,
    }


def render(data: dict[str, Any]) -> str:
    """Return the page."""
    own = files("docs_build") / "html"
    scripts = [shared_file(f"{name}.js") for name in ("elements", "colors", "arrays")]
    scripts += [own / f"{name}.js" for name in SCRIPTS]
    styles = [shared_file("base.css"), own / "playground.css"]
    return Frame.read(own / "playground.html", styles, scripts).render(TITLE, data)


def read_data(page: str) -> dict[str, Any]:
    """Return the data that a page contains."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    if match is None:
        raise ValueError("the page contains no data")
    data: dict[str, Any] = json.loads(match[1])
    return data


def main(arguments: list[str]) -> None:
    """Record or render."""
    if arguments[:1] == ["record"] and len(arguments) == 2:
        data = record(Path(arguments[1]))
    elif arguments == ["render"]:
        data = read_data(PAGE.read_text("utf-8"))
    else:
        raise SystemExit(__doc__)
    write_text(PAGE, render(data))


if __name__ == "__main__":
    main(sys.argv[1:])
