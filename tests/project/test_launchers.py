"""The files that start Dragoman on Slurm, Kubernetes and SkyPilot: formats and commands."""

import re
import shlex
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from dragoman.cli.app import app

DEPLOY = Path(__file__).parents[2] / "deploy"
SCRIPTS = sorted(DEPLOY.glob("slurm/*.sbatch"))
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
TASKS = sorted(DEPLOY.glob("skypilot/*.yaml"))
JOBS = {"prepare", "train", "translate"}
CREDENTIAL = re.compile(
    r"(?i)(secret|access)_?(access)?_?key(_id)?['\"]?\s*[:=]\s*['\"]?[\w/+]{8,}"
)


def identity(path):
    return f"{path.parent.name}/{path.name}"


def documents(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def scripts_of(path):
    """The shell texts in a file."""
    if path.suffix == ".sbatch":
        return [path.read_text(encoding="utf-8")]
    texts = []
    for document in documents(path):
        if document.get("kind") == "RayJob":
            texts.append(document["spec"]["entrypoint"])
        elif document.get("kind") == "Job":
            (container,) = document["spec"]["template"]["spec"]["containers"]
            texts.append(shlex.join(container["command"]))
        elif "run" in document:
            texts += [document["setup"], document["run"]]
    return texts


def commands_in(text):
    """The arguments of every `dragoman` in a shell text, with a value for each variable."""
    text = re.sub(r"(?m)^\s*#.*$", "", text).replace("\\\n", " ")
    text = re.sub(r"\$\(\(.*?\)\)|\$\{?\w+\}?", "1", text)
    for line in text.splitlines():
        if re.search(r"(^|\s)dragoman\s+[a-z]", line):
            words = shlex.split(line)
            yield words[words.index("dragoman") + 1 :]


def parse(words):
    """Let the real parser read a command; nothing runs."""
    name, *arguments = words
    return get_command(app).commands[name].make_context(name, list(arguments))


def test_every_launcher_has_every_job():
    for files in (SCRIPTS, MANIFESTS, TASKS):
        assert {path.stem for path in files} == JOBS


@pytest.mark.parametrize("path", [*SCRIPTS, *MANIFESTS, *TASKS], ids=identity)
def test_commands_are_accepted_by_the_parser(path):
    commands = [words for text in scripts_of(path) for words in commands_in(text)]
    assert [words[0] for words in commands] == [path.stem]
    context = parse(commands[0])
    if "cluster" in context.params and path.parent.name != "slurm":
        assert context.params["cluster"]


def test_the_parser_refuses_an_option_that_does_not_exist():
    with pytest.raises(Exception, match="No such option: --no-such-option"):
        parse(["translate", "run", "--no-such-option"])


@pytest.mark.parametrize("path", [*SCRIPTS, *MANIFESTS, *TASKS], ids=identity)
def test_the_top_says_what_was_validated_and_no_credential_is_there(path):
    text = path.read_text(encoding="utf-8")
    top = "\n".join(line for line in text.splitlines()[:30] if line.startswith("#"))
    assert "# Validated: " in top
    assert "Not run on " in top
    assert not CREDENTIAL.search(text)
    assert CREDENTIAL.search("AWS_SECRET_ACCESS_KEY: abcdefgh123"), "the pattern finds one"


@pytest.mark.parametrize("path", [*SCRIPTS, *TASKS], ids=identity)
def test_scripts_are_valid_bash(path):
    for text in scripts_of(path):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", SCRIPTS, ids=identity)
def test_slurm_reads_its_options(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    options = [i for i, line in enumerate(lines) if line.startswith("#SBATCH --")]
    assert options
    assert max(options) < first_command, "Slurm ignores options after the first command"


@pytest.mark.parametrize("path", MANIFESTS, ids=identity)
def test_manifests_fit_the_schemas_of_kubernetes(path):
    version = kubernetes_validate.latest_version()
    for document in documents(path):
        if document["kind"] != "RayJob":
            kubernetes_validate.validate(document, version, strict=True)
            continue
        # Kubernetes has no schema for this kind, but for its pods.
        cluster = document["spec"]["rayClusterSpec"]
        groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
        for number, group in enumerate(groups):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}}
            kubernetes_validate.validate(pod | group["template"], version, strict=True)
        workers = parse(next(commands_in(document["spec"]["entrypoint"]))).params["workers"]
        (group,) = cluster["workerGroupSpecs"]
        (container,) = group["template"]["spec"]["containers"]
        assert workers == group["replicas"] * int(container["resources"]["limits"]["cpu"])


def test_the_nodes_of_the_training_job_find_each_other():
    service, job = documents(DEPLOY / "kubernetes" / "train.yaml")
    name, spec = service["metadata"]["name"], job["spec"]
    assert job["metadata"]["name"] == spec["template"]["spec"]["subdomain"] == name
    assert service["spec"]["selector"] == {"job-name": name}
    (container,) = spec["template"]["spec"]["containers"]
    assert f"--rdzv-endpoint={name}-0.{name}:29500" in container["command"]
    assert f"--nnodes={spec['completions']}" in container["command"]
    assert spec["completions"] == spec["parallelism"]
