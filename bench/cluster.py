"""Preparation on three hosts without a shared disk: same bytes, spread, losses, and overhead.

    PYTHONPATH=src:tests python bench/cluster.py ROWS [--lose STAGE ...] [--cut STAGE ...] [--small]

Needs root: the hosts are network namespaces (`tests/support/netlab.py`), each with its own disk,
and SeaweedFS is the store. Makes ROWS pairs as `bench/scale.py` does, or takes Multi30k from
DRAGOMAN_DATA if ROWS is 0, and prepares them

1. on this machine with a local disk, and with everything in the store: CPU seconds of both;
2. on the cluster: the number of tasks of each host, stage by stage;
3. once more for every `--lose STAGE`: a host ends after the first task of the stage;
4. once more for every `--cut STAGE`: a host is cut off for 30 seconds.

`--lose each` and `--cut each` name all stages. Each result is compared byte by byte with the first.
`--small` cuts the corpus into many small tasks. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scale import write_text
from support.cluster import Cluster, Preparation, cluster, url_of
from support.s3_server import BUCKET, s3_server
from support.small_corpus import published

STAGES = (
    "read", "clean", "exact duplicates", "signatures", "near duplicates", "split", "tokenizer",
    "shards",
)  # fmt: skip
_SUPPORT = Path(__file__).parents[1] / "tests" / "support"
_RECIPE = """\
preset: tiny
languages: {source: en, target: de}
corpus:
  train: [{files: [all.en, all.de]}]
  duplicates: near
  filters: [unicode, length, ratio, copies]
tokenizer: {sample: 200000}
"""
_LARGE = """
import json, sys
from dragoman.workflow import preparation
preparation.prepare(sys.argv[1], workers=int(sys.argv[2]), cluster=(sys.argv[3:] or [""])[0],
    on_progress=lambda progress: print(json.dumps(["progress", *progress]), flush=True))
"""


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("--lose", nargs="*", default=[])
    parser.add_argument("--cut", nargs="*", default=[])
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        work = Path(name)
        script = _SUPPORT / "prepare_small.py"
        if not options.small:
            script = work / "prepare_large.py"
            script.write_text(_LARGE)
        corpus = work / "corpus"
        corpus.mkdir()
        if options.rows:
            write_text(corpus, options.rows)
        else:
            for side in ("en", "de"):
                packed = Path(os.environ["DRAGOMAN_DATA"]) / "multi30k" / f"train.{side}.gz"
                (corpus / f"all.{side}").write_bytes(gzip.decompress(packed.read_bytes()))
        (corpus / "recipe.yaml").write_text(_RECIPE)
        result: dict[str, Any] = {"rows": options.rows}
        result["one_machine"] = one_machine(corpus, script, work)
        expected = published(corpus / "prepared")
        # The cluster must not find what this machine has done.
        shutil.rmtree(corpus / "prepared")
        with cluster() as machines:
            result["cluster"] = run(machines, corpus, script, "undisturbed", expected)
            for stage in _stages(options.lose):
                result[f"lost in {stage}"] = lose(machines, corpus, script, stage, expected)
            for stage in _stages(options.cut):
                result[f"cut in {stage}"] = cut(machines, corpus, script, stage, expected)
    print(json.dumps(result))


def _stages(named: Sequence[str]) -> Sequence[str]:
    return STAGES if list(named) == ["each"] else named


def one_machine(corpus: Path, script: Path, work: Path) -> dict[str, float]:
    """Prepare with a local disk and with a store, and measure the CPU seconds of the workers."""
    seconds: dict[str, float] = {}
    seconds["local_cpu"] = _cpu_seconds([str(script), str(corpus / "recipe.yaml"), "2"])
    with s3_server(work / "server") as server:
        os.environ.update(server.variables, DRAGOMAN_CACHE=str(work / "cache"))
        from dragoman.storage.files import link_or_copy
        from dragoman.storage.mirror import local_path

        url = f"s3://{BUCKET}/one"
        for file in (path for path in corpus.iterdir() if path.is_file()):
            link_or_copy(file, local_path(url) / file.name)
        seconds["store_cpu"] = _cpu_seconds([str(script), f"{url}/recipe.yaml", "2"])
        _check(published(local_path(f"{url}/prepared")), published(corpus / "prepared"), "store")
    print(seconds, flush=True)
    return seconds


def _cpu_seconds(words: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(
    machines: Cluster, corpus: Path, script: Path, name: str, expected: dict[str, str]
) -> dict[str, Any]:
    """Prepare on the cluster without a disturbance."""
    preparing = _begin(machines, corpus, script, name)
    return _finish(machines, preparing, name, expected)


def lose(
    machines: Cluster, corpus: Path, script: Path, stage: str, expected: dict[str, str]
) -> dict[str, Any]:
    """End a host in a stage; start it again afterwards, with an empty disk."""
    name = f"lost-{stage.replace(' ', '-')}"
    preparing = _begin(machines, corpus, script, name)
    preparing.wait_for(stage, 0 if stage in ("read", "tokenizer") else 1, timeout=3600)
    victim = machines.hosts[-1]
    machines.lab.kill(victim)
    result = _finish(machines, preparing, name, expected)
    machines.lab.start(victim)
    machines.start_ray(victim)
    return result


def cut(
    machines: Cluster, corpus: Path, script: Path, stage: str, expected: dict[str, str]
) -> dict[str, Any]:
    """Cut a host off for 30 seconds; Ray takes it for dead, and it starts Ray again."""
    name = f"cut-{stage.replace(' ', '-')}"
    preparing = _begin(machines, corpus, script, name)
    preparing.wait_for(stage, 0 if stage in ("read", "tokenizer") else 1, timeout=3600)
    victim = machines.hosts[-1]
    machines.lab.cut(victim)
    timer = threading.Timer(30, machines.lab.connect, [victim])
    timer.start()
    result = _finish(machines, preparing, name, expected)
    timer.join()
    machines.lab.run(victim, ["ray", "stop", "--force"], machines.variables)
    machines.start_ray(victim)
    return result


def _begin(machines: Cluster, corpus: Path, script: Path, name: str) -> Preparation:
    machines.upload(corpus, url_of(name))
    return machines.begin_prepare(url_of(name), script, workers=len(machines.hosts))


def _finish(
    machines: Cluster, preparing: Preparation, name: str, expected: dict[str, str]
) -> dict[str, Any]:
    begin = time.monotonic()
    tasks = preparing.finish(timeout=7200)
    stages: dict[str, Counter[str]] = {}
    for stage, _, host in preparing.progress():
        if host:
            stages.setdefault(stage, Counter())[host] += 1
    _check(machines.published(f"{url_of(name)}/prepared"), expected, name)
    seconds = round(time.monotonic() - begin, 1)
    print(name, f"{seconds} s, same bytes,", dict(tasks), flush=True)
    return {"seconds": seconds, "tasks": dict(tasks), "stages": stages}


def _check(actual: dict[str, str], expected: dict[str, str], name: str) -> None:
    if actual != expected:
        names = sorted(key for key in {*actual, *expected} if actual.get(key) != expected.get(key))
        raise SystemExit(f"{name}: other bytes in {', '.join(names)}")


if __name__ == "__main__":
    main()
