"""`.ci/audit` fails if a dependency has a known weakness, and says so if it could not look.

pip-audit asks a real HTTP server, which answers as OSV does; tests do not use the network.
"""

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

AUDIT = Path(__file__).parents[2] / ".ci" / "audit"
WEAKNESS = {
    "id": "PYSEC-2020-1",
    "summary": "An example.",
    "affected": [
        {
            "package": {"name": "weak", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
        }
    ],
}


class Database(BaseHTTPRequestHandler):
    """Knows one weakness of one package; does not answer for another one."""

    def do_POST(self):
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = query["package"]["name"]
        self.send_response(500 if name == "unknown" else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"vulns": [WEAKNESS]} if name == "weak" else {}).encode())

    def log_message(self, *_):
        pass


@contextmanager
def database():
    with ThreadingHTTPServer(("127.0.0.1", 0), Database) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def audit(url, versions):
    return subprocess.run(
        [sys.executable, AUDIT, "--url", url, versions], capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "code", "printed"),
    [
        (["strong"], 0, "Audit: 1 packages, 0 with known weaknesses\n"),
        (
            ["strong", "weak"],
            1,
            "weak 1.0: PYSEC-2020-1, fixed in 1.1\nAudit: 2 packages, 1 with known weaknesses\n",
        ),
        (["unknown"], 2, ""),
    ],
)
def test_a_known_weakness_fails(names, code, printed, tmp_path):
    versions = tmp_path / "versions.txt"
    versions.write_text("".join(f"{name}==1.0\n" for name in names), encoding="utf-8")
    with database() as url:
        ended = audit(url, versions)
    assert (ended.returncode, ended.stdout) == (code, printed), ended.stderr


@pytest.mark.slow
def test_a_database_that_cannot_be_reached_is_reported(tmp_path):
    versions = tmp_path / "versions.txt"
    versions.write_text("weak==1.0\n", encoding="utf-8")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # Nobody listens there.
        ended = audit(f"http://127.0.0.1:{unused.getsockname()[1]}/", versions)
    assert ended.returncode == 0
    assert ended.stdout.startswith("Audit skipped: the database of weaknesses cannot be reached: ")
    assert "ConnectionError" in ended.stdout


def test_ci_runs_the_audit():
    assert "\npython .ci/audit\n" in AUDIT.with_name("run").read_text(encoding="utf-8")
