"""The files of a release: one version, valid metadata and workflows, exact versions for CI."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dragoman

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [ROOT / ".github" / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "feature.yml")]
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-issue-forms": FORMS,
    "github-issue-config": [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}
"""Files by the schema that they must match; check-jsonschema brings the schemas."""


def read(path):
    return path.read_text(encoding="utf-8")


def check(schema, paths):
    """Validate files without the network."""
    command = ["-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    return subprocess.run([sys.executable, *command, *paths], capture_output=True, text=True)


def test_one_version_everywhere():
    version = PROJECT["project"]["version"]
    assert dragoman.__version__ == version
    assert yaml.safe_load(read(ROOT / "CITATION.cff"))["version"] == version
    assert f"\n## [{version}]" in read(ROOT / "CHANGELOG.md")


def test_the_citation_says_what_the_metadata_says():
    citation, project = yaml.safe_load(read(ROOT / "CITATION.cff")), PROJECT["project"]
    assert citation["abstract"] == project["description"]
    assert citation["license"] == project["license"]
    assert citation["keywords"] == project["keywords"]
    assert citation["authors"] == project["authors"]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_files_match_their_schema(schema):
    assert SCHEMAS[schema], "the list must not be empty by mistake"
    checked = check(schema, SCHEMAS[schema])
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_wrong_workflow_is_found(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(read(WORKFLOWS[0]).replace("runs-on:", "run-on:"), encoding="utf-8")
    checked = check("github-workflows", [wrong])
    assert checked.returncode == 1
    assert "run-on" in checked.stdout + checked.stderr


def test_every_file_of_github_is_tested_here():
    files = {path for path in (ROOT / ".github").rglob("*.yml")}
    assert files == {path for paths in SCHEMAS.values() for path in paths if path.suffix == ".yml"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_exact_actions_and_few_permissions(path):
    workflow = yaml.safe_load(read(path))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    actions = [step["uses"] for step in steps if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"[\w./-]+@v\d+\.\d+\.\d+", action) for action in actions), actions
    granted = [workflow["permissions"]]
    granted += [job["permissions"] for job in workflow["jobs"].values() if "permissions" in job]
    # Publishing proves the identity of the workflow; nothing else may write.
    allowed = [{}, {"contents": "read"}, *[{"id-token": "write"}] * (path.stem == "release")]
    assert all(permissions in allowed for permissions in granted), granted
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_the_commands_of_workflows_exist():
    targets = set(re.findall(r"^([a-z]+):", read(ROOT / "Makefile"), re.MULTILINE))
    called = {name for path in WORKFLOWS for name in re.findall(r"run: make ([a-z]+)", read(path))}
    assert {"docs", "dist", "sbom"} <= called <= targets
    groups = {name for path in WORKFLOWS for name in re.findall(r"--group (\w+)", read(path))}
    assert groups <= set(PROJECT["dependency-groups"])
    assert "run: .ci/run\n" in read(ROOT / ".github" / "workflows" / "ci.yml")


def test_ci_pins_what_it_installs():
    """`.ci/run` installs the extra `all` and the group `dev`."""
    lines = read(ROOT / ".ci" / "constraints.txt").splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [
        *PROJECT["project"]["dependencies"],
        *(line for extra in extras if extra not in ("cluster", "otel") for line in extras[extra]),
        *(
            line
            for name, group in PROJECT["dependency-groups"].items()
            for line in group
            if name != "sbom" and isinstance(line, str)
        ),
    ]
    names = {canonicalize_name(Requirement(line).name) for line in wanted} - {"dragoman"}
    assert len(names) > 50
    assert names <= pinned, names - pinned
