"""How fast is `Translator` beside the bare engines?

    python bench/translation.py [--quick] [--run RUN]

One process, two threads, float32, the sentences of Multi30k's test of 2016, ours and theirs in
turn, median of the repeats. Ours: text in, text out. Theirs: ready-made tokens in, tokens out,
sorted by length, in the batches and with the threads that are best for them here (`--tune` tries
several).

Without RUN a model of the preset `tiny` is trained for a short while, so that sentences have the
lengths of sentences. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dragoman.translator import Translator

DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
MULTI30K = DATA / "multi30k"
THREADS = 2

SAME = ["decoding.search=beam", "decoding.length_penalty=1", "decoding.retry=false"]
"""What the bare engines do; they never doubt what they say."""


class Bare(NamedTuple):
    """An engine with what it was given."""

    run: Callable[[], list]
    """What is timed."""
    read: Callable[[list], list[list[int]]]
    """What it said, in token ids."""


def train(folder: Path, minutes: float) -> Path:
    """A model that has learned for some minutes."""
    from dragoman.workflow import preparation, training

    files = {
        part: [str(MULTI30K / f"{name}.{side}.gz") for side in ("en", "de")]
        for part, name in (("train", "train"), ("development", "val"))
    }
    corpora = "".join(f"  {part}: [{{files: {each}}}]\n" for part, each in files.items())
    recipe = folder / "recipe.yaml"
    languages = "languages: {source: en, target: de}"
    recipe.write_text(f"preset: tiny\n{languages}\ncorpus:\n{corpora}", encoding="utf-8")
    for _ in preparation.prepare(recipe):
        pass
    # Small updates and little to forget: so it learns soonest where sentences end.
    soon = ["tokens_per_update=1024", "warmup=200", "moving_average=0.98", f"minutes={minutes}"]
    rest = ["validate_every=100000", "save_every=100000", "log_every=1000"]
    settings = ["model.dropout=0.1", *(f"training.{each}" for each in [*soon, *rest])]
    for _ in training.train(recipe, settings):
        pass
    return folder / "run"


def sentences(count: int) -> list[str]:
    with gzip.open(MULTI30K / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:count]


def compare(translator: Translator, texts: list[str], theirs: Bare, repeats: int) -> dict:
    """Seconds of both in turn; a first round of each is not counted."""
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    outputs = {}
    for _ in range(repeats + 1):
        for name, run in (("ours", lambda: translator.translate(texts)), ("theirs", theirs.run)):
            start = time.perf_counter()
            outputs[name] = run()
            seconds[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    ours = [each.text for each in outputs["ours"]]
    others = translator.target.decode(theirs.read(outputs["theirs"]))
    return {
        "ratio": round(middle["theirs"] / middle["ours"], 3),
        "ours_per_second": round(len(texts) / middle["ours"], 1),
        "theirs_per_second": round(len(texts) / middle["theirs"], 1),
        "same": sum(map(str.__eq__, ours, others)) / len(texts),
    }


def bare_ctranslate2(
    folder: Path, texts: list[str], beam: int, places: int = 2048, workers: int = THREADS
) -> Bare:
    import ctranslate2

    from dragoman.decoding.engine import length_limit
    from dragoman.recipe import DecodingRecipe
    from dragoman.tokenizer.folder import load_tokenizer

    source, target = (load_tokenizer(folder / "tokenizer" / side) for side in ("source", "target"))
    ready = [source.pieces(each) for each in source.encode(texts)]
    translator = ctranslate2.Translator(
        str(folder), inter_threads=workers, intra_threads=THREADS // workers
    )

    numbers = {piece: each for each, piece in enumerate(target.pieces(range(target.size)))}

    def read(found: list) -> list[list[int]]:
        return [[numbers[piece] for piece in each.hypotheses[0]] for each in found]

    def run() -> list:
        return translator.translate_batch(
            ready,
            beam_size=beam,
            max_batch_size=places,
            batch_type="tokens",
            min_decoding_length=0,
            max_decoding_length=length_limit(1, DecodingRecipe()),
            return_scores=True,  # As ours; a greedy search without them is a little faster.
        )

    return Bare(run, read)


def huggingface(folder: Path, texts: list[str], beam: int, rows: int) -> Bare:
    import torch
    from transformers import AutoModelForSeq2SeqLM

    from dragoman.tokenizer.folder import load_tokenizer
    from dragoman.tokenizer.interface import END, PADDING

    tokenizer = load_tokenizer(folder.parent / "tokenizer" / "source")
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ids = tokenizer.encode(texts)
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))

    @torch.inference_mode()
    def run() -> list[list[int]]:
        found: list[list[int]] = [[] for _ in ids]
        for start in range(0, len(order), rows):
            some = order[start : start + rows]
            longest = max(len(ids[row]) for row in some) + 1
            batch = torch.tensor(
                [[*ids[row], END, *[PADDING] * (longest - len(ids[row]) - 1)] for row in some]
            )
            answers = model.generate(
                input_ids=batch,
                attention_mask=(batch != PADDING).long(),
                num_beams=beam,
                do_sample=False,
                length_penalty=1.0,
                early_stopping=True,
                max_length=115,
            )
            for row, answer in zip(some, answers.tolist(), strict=True):
                body = answer[1:]
                found[row] = body[: body.index(END)] if END in body else body
        return found

    return Bare(run, list)


def measure(run: Path, texts: list[str], few: list[str], repeats: int) -> dict:
    import torch

    from dragoman.exporting import ctranslate2
    from dragoman.exporting import huggingface as hugging_face
    from dragoman.training.device import keep_memory
    from dragoman.translator import Translator

    keep_memory()
    torch.set_num_threads(THREADS)
    figures = {}
    for to, export in (("ctranslate2", ctranslate2.export), ("huggingface", hugging_face.export)):
        if not (run / to).exists():
            export(run, run / to)
    for beam in (1, 5):
        settings = [*SAME, f"decoding.beam={beam}"]
        fast = Translator.load(run, settings, engine="ctranslate2", threads=THREADS)
        bare = bare_ctranslate2(run / "ctranslate2", texts, beam)
        figure = compare(fast, texts, bare, repeats)
        figures[f"ctranslate2_vs_bare_beam{beam}"] = figure
        print(f"CTranslate2, beam {beam}: {figure}", flush=True)
    for beam, rows in ((1, 128), (5, 64)):
        settings = [*SAME, f"decoding.beam={beam}"]
        plain = Translator.load(run, settings, engine="pytorch")
        some = few[:: 2 if beam > 1 else 1]  # A beam takes them long.
        theirs = huggingface(run / "huggingface", some, beam, rows)
        figure = compare(plain, some, theirs, repeats)
        figures[f"torch_vs_huggingface_beam{beam}"] = figure
        print(f"PyTorch and Hugging Face, beam {beam}: {figure}", flush=True)
    return figures


def tune(run: Path, texts: list[str]) -> None:
    """Try how the bare engine is fastest here."""
    for beam in (1, 5):
        for workers in (1, 2):
            for places in (512, 1024, 2048, 4096):
                bare = bare_ctranslate2(run / "ctranslate2", texts, beam, places, workers)
                bare.run()
                seconds = []
                for _ in range(3):
                    start = time.perf_counter()
                    bare.run()
                    seconds.append(time.perf_counter() - start)
                rate = len(texts) / statistics.median(seconds)
                print(f"beam {beam}, {workers} workers, {places} tokens: {rate:.0f}/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--run", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        run = asked.run or train(Path(made), 0.8 if asked.quick else 8)
        texts = sentences(1000)
        figures = measure(run, texts, texts[:: 5 if asked.quick else 1], 3 if asked.quick else 5)
        if asked.tune:
            tune(run, texts)
    print(json.dumps({name: each["ratio"] for name, each in figures.items()}))


if __name__ == "__main__":
    main()
