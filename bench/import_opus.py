"""An imported OPUS-MT model beside transformers: cost of the import, logits, lines and BLEU.

    python bench/import_opus.py helsinki_en_fr [--lines 300] [--output FOLDER] [--int8]

The argument is a folder of Helsinki-NLP from Hugging Face, with `model.safetensors`. The sentences
are every tenth line of newstest2014 for its languages, from DRAGOMAN_DATA. transformers must be
installed; nothing is downloaded.

- import: seconds and peak memory of `dragoman import`, beside those of only loading its libraries.
- logits: the largest difference of any logit, with the reference as the target.
- lines: how many translations are the same, greedy and with the model's beam. Both searches end
  when a beam is full (`early_stopping`); without it, transformers searches longer.
- BLEU of all of them, and of transformers with the settings that the model comes with.

The last line is JSON. Nothing here is part of CI: `tests/interop` does the same with small models.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
BATCH = 16
EVERY = 10
"""Every tenth line of the test set is used."""
SAME_SEARCH = ["decoding.retry=false", "decoding.max_source_tokens=400"]
"""transformers neither translates again what repeats itself, nor splits long lines."""
LIBRARIES = "import dragoman.interop.huggingface_import"


class Cost(NamedTuple):
    """What a process used."""

    seconds: float
    cpu_seconds: float
    megabytes: float
    """The peak of its resident memory."""


class Parallel(NamedTuple):
    """Sentences and their references."""

    sources: list[str]
    references: list[str]


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command in a process whose only child it is, because peaks are kept per process."""
    code = (
        "import json, resource, subprocess, sys, time; start = time.perf_counter(); "
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(json.dumps([time.perf_counter() - start, used.ru_utime + used.ru_stime, "
        "used.ru_maxrss / 1024]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
    )
    return Cost(*json.loads(ended.stdout))


def read_test_set(languages: tuple[str, str], count: int) -> Parallel:
    """Read every tenth pair of newstest2014."""
    pair = next(
        (
            path.name.split(".")[1]
            for path in sorted((DATA / "wmt").glob("newstest2014.*"))
            if set(path.name.split(".")[1].split("-")) == set(languages)
        ),
        None,
    )
    if pair is None:
        sys.exit(
            f"newstest2014 has no {'-'.join(languages)}; expected en-fr, fr-en, de-en or en-de"
        )
    sides = []
    for language in languages:
        path = DATA / "wmt" / f"newstest2014.{pair}.{language}.gz"
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            sides.append([line.strip() for line in file][::EVERY][:count])
    return Parallel(*sides)


class Theirs:
    """The same model in transformers."""

    def __init__(self, folder: Path) -> None:
        # Before transformers, whose own import of SentencePiece warns.
        import dragoman.tokenizer.sentencepiece  # noqa: F401

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It recommends a package that it does not use.
            from transformers import MarianMTModel, MarianTokenizer

            self.tokenizer: Any = MarianTokenizer.from_pretrained(folder, local_files_only=True)
            self.model: Any = MarianMTModel.from_pretrained(folder, local_files_only=True).eval()

    def translate(self, lines: Sequence[str], **options: Any) -> list[str]:
        """Translate in batches of similar lengths."""
        import torch

        order = sorted(range(len(lines)), key=lambda row: len(lines[row]))
        translations = [""] * len(lines)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = self.tokenizer([lines[row] for row in rows], return_tensors="pt", padding=True)
            with torch.no_grad():
                produced = self.model.generate(**batch, **options)
            texts = self.tokenizer.batch_decode(produced, skip_special_tokens=True)
            for row, text in zip(rows, texts, strict=True):
                translations[row] = text.strip()
        return translations


def largest_difference(run: Path, theirs: Theirs, test: Parallel) -> tuple[float, float]:
    """Compare all logits; return the largest difference and the largest share of the new tokens.

    The share is the probability of all reserved tokens together, where it is largest.
    """
    import torch

    from dragoman.artifact import read_artifact
    from dragoman.tokenizer.folder import load_tokenizer
    from dragoman.tokenizer.interface import BEGIN, END, RESERVED_TOKENS, SPECIAL

    artifact = read_artifact(run)
    ours = artifact.model()
    source, target = (load_tokenizer(artifact.tokenizer / side) for side in ("source", "target"))
    vocabulary = theirs.tokenizer.get_vocab()
    old = range(len(SPECIAL), target.size - len(RESERVED_TOKENS))
    rows = [vocabulary[piece] for piece in target.pieces(old)]
    start = theirs.model.config.decoder_start_token_id
    difference = share = 0.0
    for text, reference in zip(*test, strict=True):
        ids, written = source.encode([text])[0], target.encode([reference])[0]
        their_ids = theirs.tokenizer(text, return_tensors="pt").input_ids
        their_target = theirs.tokenizer(text_target=reference, return_tensors="pt").input_ids
        begun = torch.cat([torch.tensor([[start]]), their_target[:, :-1]], dim=1)
        our_ids = torch.tensor([[*ids, END]])
        with torch.no_grad():
            expected = theirs.model(input_ids=their_ids, decoder_input_ids=begun).logits[0]
            logits = ours(
                our_ids, torch.ones_like(our_ids).bool(), torch.tensor([[BEGIN, *written]])
            )[0]
        change = (logits[:, old.start : old.stop] - expected[:, rows]).abs().max()
        end = (logits[:, END] - expected[:, theirs.tokenizer.eos_token_id]).abs().max()
        new = logits.softmax(-1)[:, old.stop :].sum(-1).max()
        difference = max(difference, float(change), float(end))
        share = max(share, float(new))
    return difference, share


def bleu(lines: Sequence[str], references: Sequence[str]) -> float:
    """Score with sacreBLEU's defaults."""
    import sacrebleu

    return float(sacrebleu.corpus_bleu(list(lines), [list(references)]).score)


def ours(run: Path, lines: Sequence[str], settings: Sequence[str], engine: Any) -> list[str]:
    """Translate with the imported run."""
    from dragoman.inference.translator import Translator

    with Translator.load(run, [*SAME_SEARCH, *settings], engine=engine) as translator:
        return [translation.text for translation in translator.translate(list(lines))]


def main() -> None:
    """Import the model, compare it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--output", type=Path, help="Folder for the run and the translations.")
    parser.add_argument("--int8", action="store_true", help="Also an int8 export.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.output or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps(compare(arguments.model, folder, arguments.lines, int8=arguments.int8)))


def compare(model: Path, folder: Path, count: int, *, int8: bool) -> dict[str, Any]:
    """Measure everything; `folder` keeps the run and the translations."""
    run = folder / "run"
    before = cost_of([sys.executable, "-c", LIBRARIES])
    imported = cost_of([sys.executable, "-m", "dragoman", "import", str(model), str(run)])
    weights = (run / "model.safetensors").stat().st_size / 2**20
    print(f"import: {imported.seconds:.1f} s, {imported.cpu_seconds:.1f} CPU s", end=", ")
    print(
        f"peak {imported.megabytes:.0f} MB; only the libraries {before.megabytes:.0f} MB", end="; "
    )
    print(f"weights {weights:.0f} MB")
    from dragoman.recipe.files import load_recipe

    languages = load_recipe(run / "recipe.yaml").languages
    test = read_test_set((languages.source, languages.target), count)
    theirs = Theirs(model)
    difference, share = largest_difference(run, theirs, test)
    print(f"logits of {len(test.sources)} sentences: largest difference {difference:.2e}", end="; ")
    print(f"largest probability of the reserved tokens {share:.1e}")
    beam = theirs.model.generation_config.num_beams
    searches = {
        "greedy": (["decoding.search=greedy"], {"num_beams": 1, "do_sample": False}),
        f"beam {beam}": ([], {"num_beams": beam, "early_stopping": True}),
    }
    figures: dict[str, Any] = {"lines": len(test.sources), "logit_difference": difference}
    figures |= {"import": imported._asdict(), "libraries": before._asdict(), "weights_mb": weights}
    figures["reserved_probability"] = share

    def keep(name: str, lines: list[str]) -> float:
        (folder / f"{name.replace(' ', '-')}.txt").write_text("\n".join(lines) + "\n")
        figures[f"bleu {name}"] = score = bleu(lines, test.references)
        return score

    for name, (settings, options) in searches.items():
        expected = theirs.translate(test.sources, **options)
        print(f"{name}: transformers BLEU {keep(f'{name} transformers', expected):.2f}")
        for engine in ("pytorch", "ctranslate2"):
            lines = ours(run, test.sources, settings, engine)
            same = sum(map(str.__eq__, lines, expected))
            figures[f"same {name} {engine}"] = same
            score = keep(f"{name} {engine}", lines)
            print(f"{name}: {engine} BLEU {score:.2f}, {same} of {len(lines)} lines the same")
    own = theirs.translate(test.sources)
    print(f"transformers with its own settings: BLEU {keep('own transformers', own):.2f}")
    if int8:
        export = [sys.executable, "-m", "dragoman", "export", str(run), "--quantization", "int8"]
        subprocess.run([*export, "-o", str(folder / "int8")], check=True)
        lines = ours(folder / "int8", test.sources, [], "ctranslate2")
        print(f"beam {beam}: ctranslate2 int8 BLEU {keep('int8 ctranslate2', lines):.2f}")
    return figures


if __name__ == "__main__":
    main()
