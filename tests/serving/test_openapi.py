"""Our own API does what its OpenAPI document says; schemathesis makes requests from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from dragoman.interop.folder import FACTS
from dragoman.serving.apis import native_schema
from dragoman.serving.state import State
from support.live_server import live_server
from support.serving import write_stub

CONFIGURATION = """
[checks]
# 501 and 503 say that the server was not started with something, or has no time.
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 501, 503]

[[operations]]
include-path = "/v1/documents"
# A file of random bytes is not a document.
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404]
"""


def run_schemathesis(
    folder: Path, examples: int, *, requires_keys: bool, phases: str = "all"
) -> None:
    run = write_stub(folder / "run")
    # It looks like an export, whose translations cannot be explained.
    (run / FACTS).write_text("{}")
    key = ""
    if requires_keys:
        state = State(folder / "server" / "state")
        key = state.add_key("test")
        state.close()
    (folder / "schemathesis.toml").write_text(CONFIGURATION)
    with live_server(folder / "server", run, requires_keys=requires_keys) as server:
        command = [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(folder / "schemathesis.toml"),
            "run",
            f"{server.url}/v1/openapi.json",
            "--checks=all",
            f"--max-examples={examples}",
            *([f"--phases={phases}"] if phases != "all" else []),
            "--seed=17",
            "--no-color",
            "--generation-database=none",
            *([f"--header=Authorization: Bearer {key}"] if key else []),
        ]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=3000
        )
        print(result.stdout[-8000:], result.stderr[-2000:])
        assert result.returncode == 0
        assert server.translate("Hello.", api_key=key) == "Hello."
        assert server.stop() == 0
        assert '"level": "error"' not in server.log()


def test_limits_are_keywords_of_json_schema():
    """Pydantic writes `ge` instead of `minimum` if a validator comes before the limit."""
    bodies = [
        body
        for kind in (native_schema.RequestBody, native_schema.ResponseBody)
        for body in kind.__subclasses__()
    ]
    assert len(bodies) > 10
    for body in bodies:
        schema = body.model_json_schema()
        for part in (schema, *schema.get("$defs", {}).values()):
            for name, facts in part.get("properties", {}).items():
                assert not {"ge", "gt", "le", "lt", "min_length", "max_length"} & set(facts), name


@pytest.mark.parametrize("blank", [chr(code) for code in range(0x10000) if chr(code).isspace()])
def test_no_white_space_is_a_text(blank):
    with pytest.raises(ValidationError):
        native_schema.SuggestionRequest(
            source="en", target="de", source_text=blank, machine_text="", suggestion="x"
        )
    assert not re.search(native_schema.NOT_BLANK, blank)


@pytest.mark.slow
def test_the_api_does_what_its_document_says(tmp_path):
    run_schemathesis(tmp_path, 10, requires_keys=False)


@pytest.mark.slow
def test_the_api_with_keys_does_what_its_document_says(tmp_path):
    run_schemathesis(tmp_path, 10, requires_keys=True, phases="examples,fuzzing")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("requires_keys", [False, True])
def test_the_api_does_what_its_document_says_in_many_cases(tmp_path, requires_keys):
    run_schemathesis(tmp_path, 1000, requires_keys=requires_keys)
