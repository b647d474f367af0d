"""Models with versions for tests, made of small model folders.

model = write_versions(tmp_path / "adapted", accepted=2, refused=1)    versions 1, 2 and 3
"""

from __future__ import annotations

import json
from pathlib import Path

from dragoman.adaptation.versions import DataFile, VersionedModel, VersionRecord, VersionScore
from dragoman.artifact import read_artifact
from dragoman.storage.files import sha256

SCORES = {"in_domain": 20.0, "general": 40.0}
"""BLEU of version 1; each version has 5 more in the domain and 0.5 less in general."""


def record_for(candidate: Path, number: int, parent: int, **more) -> VersionRecord:
    """The record of a candidate that the gate accepted; fields can be changed."""
    values = {
        "number": number,
        "parent": parent,
        "method": "full",
        "state": "accepted",
        "accepted_by": "gate",
        "data": (DataFile(name=f"{number}.tmx", sha256=f"{number:064}", pairs=100 * number),),
        "scores": tuple(_scores(parent)),
        "model_sha256": read_artifact(candidate).model_hash,
    }
    return VersionRecord(**values | more)


def _scores(parent: int):
    for test_set, change in (("in_domain", 5.0), ("general", -0.5)):
        before = SCORES[test_set] + change * (parent - 1)
        for metric, offset in (("BLEU", 0.0), ("chrF", 20.0)):
            yield VersionScore(
                test_set=test_set,
                metric=metric,
                before=before + offset,
                after=before + offset + change,
                p_value=0.01,
            )


def write_candidate(folder: Path, seed: int, **settings) -> Path:
    """A finished run, with checkpoints and a journal as training leaves them."""
    from support.translator_models import write_run  # It loads PyTorch.

    run = write_run(folder, seed=seed, **settings)
    (run / "checkpoints" / "step-1").mkdir(parents=True)
    (run / "checkpoints" / "step-1" / "model.safetensors").write_bytes(b"large")
    (run / ".lock").touch()
    (run / "journal.jsonl").write_text("{}\n", encoding="utf-8")
    (run / "report.html").write_text(f"<p>{seed}</p>", encoding="utf-8")
    return run


def write_versions(folder: Path, *, accepted: int = 2, refused: int = 0) -> VersionedModel:
    """A model with versions: `accepted` ones, each made from the one before, then refused ones."""
    candidates = folder.with_name(f"{folder.name} candidates")
    model = VersionedModel.create(folder, write_candidate(candidates / "1", 1))
    for number in range(2, accepted + refused + 1):
        candidate = write_candidate(candidates / str(number), number)
        more = {} if number <= accepted else {"state": "refused", "accepted_by": ""}
        model.add(candidate, record_for(candidate, number, min(number - 1, accepted), **more))
    return model


def write_tiny(folder: Path, weights: str, **stub) -> Path:
    """A folder that is read as a finished model; with options, also as the run of a stub engine."""
    contents = {
        "recipe.yaml": "seed: 1\n",
        "tokenizer/vocabulary": "a",
        "model.safetensors": weights,
    }
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    hashes = {name: sha256(folder / name) for name in contents}
    (folder / "format.json").write_text(json.dumps({"format": 1, "sha256": hashes}))
    if stub:
        (folder / "stub.json").write_text(json.dumps(stub))
    return folder
