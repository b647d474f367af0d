"""Speed of `Translator` compared with the bare engines.

    python bench/translation.py [--quick] [--run RUN]

One process, two threads, float32, the sentences of Multi30k's test 2016, ours and theirs
alternating, median of the repeats; above 1 we are faster. `_cpu` is the ratio of CPU seconds.
Ours: text in, text out. Theirs: tokens in, tokens out, sorted by length, with the batch size and
threads that are fastest for them here (`--tune` tries several).

Without RUN a model of the preset `tiny` is trained for a short time, so that translations have
realistic lengths. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from timing import Seconds, median, ratios, timed

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator

DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
MULTI30K = DATA / "multi30k"
THREADS = 2

SAME = ["decoding.search=beam", "decoding.length_penalty=1", "decoding.retry=false"]
"""The settings of the bare engines; they never retry."""


class Bare(NamedTuple):
    """An engine and its input."""

    run: Callable[[], list[Any]]
    """The timed call."""
    read: Callable[[list[Any]], list[list[int]]]
    """Its output as token ids."""


def train(folder: Path, minutes: float) -> Path:
    """Train a model for some minutes."""
    from dragoman.workflow import preparation, training

    files = {
        split: [str(MULTI30K / f"{name}.{side}.gz") for side in ("en", "de")]
        for split, name in (("train", "train"), ("validation", "val"))
    }
    corpora = "".join(f"  {split}: [{{files: {names}}}]\n" for split, names in files.items())
    recipe = folder / "recipe.yaml"
    languages = "languages: {source: en, target: de}"
    recipe.write_text(f"preset: tiny\n{languages}\ncorpus:\n{corpora}", encoding="utf-8")
    preparation.prepare(recipe)
    # Small updates and a short average learn soonest where sentences end.
    fast = ["tokens_per_update=1024", "warmup_steps=200", "ema_decay=0.98", f"minutes={minutes}"]
    rest = ["validate_every=100000", "save_every=100000", "log_every=1000"]
    settings = ["model.dropout=0.1", *(f"training.{setting}" for setting in [*fast, *rest])]
    # Hugging Face has no rotary positions.
    training.train(recipe, [*settings, "model.position=sinusoidal"])
    return folder / "run"


def sentences(count: int) -> list[str]:
    """The first sentences of the test set."""
    with gzip.open(MULTI30K / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:count]


class Figure(NamedTuple):
    """The comparison of one setting."""

    ours: list[Seconds]
    theirs: list[Seconds]
    same: float
    """Share of sentences with the same translation."""

    def summary(self, count: int) -> str:
        """One line for a person."""
        speeds = [count / median(series).wall for series in (self.ours, self.theirs)]
        return f"ours {speeds[0]:,.0f}/s, theirs {speeds[1]:,.0f}/s, same {self.same:.1%}"


def compare(translator: Translator, texts: list[str], theirs: Bare, repeats: int) -> Figure:
    """Time both in turn; the first round is a warm-up."""
    series: dict[str, list[Seconds]] = {"ours": [], "theirs": []}
    outputs = {}
    for _ in range(repeats + 1):
        for name, run in (("ours", lambda: translator.translate(texts)), ("theirs", theirs.run)):
            outputs[name], seconds = timed(run)
            series[name].append(seconds)
    ours = [translation.text for translation in outputs["ours"]]
    others = translator.target.decode(theirs.read(outputs["theirs"]))
    same = sum(map(str.__eq__, ours, others)) / len(texts)
    return Figure(series["ours"][1:], series["theirs"][1:], same)


def bare_ctranslate2(
    folder: Path, texts: list[str], beam: int, batch_tokens: int = 2048, workers: int = THREADS
) -> Bare:
    """CTranslate2 without Dragoman."""
    import ctranslate2

    from dragoman.decoding.engine import length_limit
    from dragoman.recipe.schema import DecodingRecipe
    from dragoman.tokenizer.folder import load_tokenizer

    source, target = (load_tokenizer(folder / "tokenizer" / side) for side in ("source", "target"))
    ready = [source.pieces(ids) for ids in source.encode(texts)]
    translator = ctranslate2.Translator(
        str(folder), inter_threads=workers, intra_threads=THREADS // workers
    )

    ids = {piece: number for number, piece in enumerate(target.pieces(range(target.size)))}

    def read(results: list[Any]) -> list[list[int]]:
        return [[ids[piece] for piece in result.hypotheses[0]] for result in results]

    def run() -> list[Any]:
        return translator.translate_batch(
            ready,
            beam_size=beam,
            max_batch_size=batch_tokens,
            batch_type="tokens",
            min_decoding_length=0,
            max_decoding_length=length_limit(1, DecodingRecipe()),
            return_scores=True,  # As ours; a greedy search without them is a little faster.
        )

    return Bare(run, read)


def huggingface(folder: Path, texts: list[str], beam: int, rows: int) -> Bare:
    """Hugging Face transformers."""
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
        outputs: list[list[int]] = [[] for _ in ids]
        for start in range(0, len(order), rows):
            batch_rows = order[start : start + rows]
            longest = max(len(ids[row]) for row in batch_rows) + 1
            batch = torch.tensor(
                [[*ids[row], END, *[PADDING] * (longest - len(ids[row]) - 1)] for row in batch_rows]
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
            for row, answer in zip(batch_rows, answers.tolist(), strict=True):
                body = answer[1:]
                outputs[row] = body[: body.index(END)] if END in body else body
        return outputs

    return Bare(run, list)


def measure(run: Path, texts: list[str], few: list[str], repeats: int) -> dict[str, float]:
    """Compare with both bare engines."""
    import torch

    from dragoman.inference.translator import Translator
    from dragoman.interop import ctranslate2
    from dragoman.interop import huggingface as hugging_face
    from dragoman.training.device import keep_memory

    keep_memory()
    torch.set_num_threads(THREADS)
    result: dict[str, float] = {}
    for to, export in (("ctranslate2", ctranslate2.export), ("huggingface", hugging_face.export)):
        if not (run / to).exists():
            export(run, run / to)
    for beam in (1, 5):
        settings = [*SAME, f"decoding.beam_size={beam}"]
        fast = Translator.load(run, settings, engine="ctranslate2", threads=THREADS)
        bare = bare_ctranslate2(run / "ctranslate2", texts, beam)
        figure = compare(fast, texts, bare, repeats)
        result |= ratios(f"ctranslate2_vs_bare_beam{beam}", figure.ours, figure.theirs)
        print(f"CTranslate2, beam {beam}: {figure.summary(len(texts))}", flush=True)
    for beam, rows in ((1, 128), (5, 64)):
        settings = [*SAME, f"decoding.beam_size={beam}"]
        plain = Translator.load(run, settings, engine="pytorch")
        sample = few[:: 2 if beam > 1 else 1]  # Beam search is slow there.
        theirs = huggingface(run / "huggingface", sample, beam, rows)
        figure = compare(plain, sample, theirs, repeats)
        result |= ratios(f"torch_vs_huggingface_beam{beam}", figure.ours, figure.theirs)
        print(f"PyTorch, beam {beam}: {figure.summary(len(sample))}", flush=True)
    return result


def tune(run: Path, texts: list[str]) -> None:
    """Find the fastest settings of the bare engine."""
    for beam in (1, 5):
        for workers in (1, 2):
            for batch_tokens in (512, 1024, 2048, 4096):
                bare = bare_ctranslate2(run / "ctranslate2", texts, beam, batch_tokens, workers)
                bare.run()
                rate = len(texts) / median([timed(bare.run)[1] for _ in range(5)]).wall
                print(f"beam {beam}, {workers} workers, {batch_tokens} tokens: {rate:.0f}/s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--run", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        run = given.run or train(Path(made), 0.8 if given.quick else 8)
        texts = sentences(1000)
        result = measure(run, texts, texts[:: 5 if given.quick else 1], 5)
        if given.tune:
            tune(run, texts)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
