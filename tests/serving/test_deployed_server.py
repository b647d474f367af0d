"""The real server behind nginx with TLS, in a sandbox without rights, and in its image."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from dragoman.workflow.exporting import export
from support.ports import free_port
from support.translator_models import write_run

ROOT = Path(__file__).parents[2]
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
HOST = "translate.example.org"
PAIR = {"source": "en", "target": "de"}
CANARY = "canarycanary"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An exported model."""
    folder = tmp_path_factory.mktemp("deployed")
    export(write_run(folder / "run"), output=folder / "exported")
    return folder / "exported"


@contextlib.contextmanager
def process(*command, **options):
    """Run a program; end it and wait."""
    with subprocess.Popen(command, text=True, **options) as running:
        try:
            yield running
        finally:
            running.terminate()
            running.wait(60)


@contextlib.contextmanager
def server(*arguments, **options):
    """Run `dragoman serve`; give its process and its port."""
    command = (sys.executable, "-m", "dragoman", "serve", *map(str, arguments), "--port", "0")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with process(*command, **streams, **options) as running:
        for line in running.stdout:
            if address := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                yield running, int(address[1])
                return
        raise AssertionError("the server did not start")


def replaced(text, changes):
    """The text with each key replaced; each must occur."""
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


class Proxy:
    """The example of nginx on free ports, with a certificate that was just made."""

    def __init__(self, folder, upstream):
        self.folder = folder
        self.http, self.https = free_port(), free_port()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "1", "-subj", f"/CN={HOST}",
             "-addext", f"subjectAltName=DNS:{HOST}",
             "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"],
            check=True, capture_output=True,
        )  # fmt: skip
        changes = {
            "listen 80;": f"listen 127.0.0.1:{self.http};",
            "listen 443 ssl;": f"listen 127.0.0.1:{self.https} ssl;",
            "server 127.0.0.1:5000;": f"server 127.0.0.1:{upstream};",
            "/etc/nginx/tls/fullchain.pem": f"{folder}/certificate.pem",
            "/etc/nginx/tls/privkey.pem": f"{folder}/key.pem",
            "/var/log/nginx/": f"{folder}/",
        }
        site = replaced((ROOT / "deploy" / "nginx.conf").read_text(), changes)
        (folder / "site.conf").write_text(site)
        user = "user root;" if os.getuid() == 0 else ""
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        (folder / "main.conf").write_text(
            f"{user} worker_processes 1; daemon off; pid {folder}/pid;"
            f"error_log {folder}/main.log; events {{}}"
            f"http {{ access_log off; {paths} include {folder}/site.conf; }}"
        )
        self.command = (NGINX, "-p", str(folder), "-c", str(folder / "main.conf"))

    def client(self):
        """A client that connects to nginx and checks the certificate."""
        context = ssl.create_default_context(cafile=str(self.folder / "certificate.pem"))
        address = f"https://{HOST}:{self.https}"
        return httpx.Client(base_url=address, transport=Loopback(context), timeout=60)

    def logs(self):
        return "".join(path.read_text() for path in self.folder.glob("*.log"))


class Loopback(httpx.HTTPTransport):
    """Connects to this machine and keeps the name for TLS and for the header Host."""

    def __init__(self, context):
        # Not the address of the proxy, which the server trusts.
        super().__init__(verify=context, local_address="127.0.0.2")

    def handle_request(self, request):
        request.extensions["sni_hostname"] = HOST
        request.url = request.url.copy_with(host="127.0.0.1")
        return super().handle_request(request)


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_clients_reach_the_server_through_nginx_with_tls(model, tmp_path):
    options = (
        *("--trusted-proxy", "127.0.0.1", "--public-url", f"https://{HOST}"),
        *("--requests-per-minute", "8", "--threads", "1", "--state", tmp_path / "state"),
    )
    with contextlib.ExitStack() as stack:
        _, port = stack.enter_context(server(model, *options))
        proxy = Proxy(tmp_path, port)
        subprocess.run([*proxy.command, "-t"], check=True, capture_output=True)
        stack.enter_context(process(*proxy.command, stderr=subprocess.DEVNULL))
        client = stack.enter_context(proxy.client())
        wait_for(lambda: client.get("/healthz").status_code == 200)
        assert "max-age" in client.get("/readyz").headers["Strict-Transport-Security"]

        plain = httpx.get(f"http://127.0.0.1:{proxy.http}/languages?a=b")
        assert plain.status_code == 308
        assert plain.headers["Location"] == f"https://{HOST}/languages?a=b"

        answer = client.post("/translate", json={"q": "one two", **PAIR})
        assert answer.status_code == 200, answer.text
        assert isinstance(answer.json()["translatedText"], str)
        # A text in the query, longer than nginx accepts by default.
        answer = client.get("/translate", params={"q": f"{CANARY} " * 800, **PAIR})
        assert answer.status_code == 200, answer.text
        # A file that is larger than nginx accepts by default.
        uploaded = client.post(
            "/translate_file",
            files={"file": ("a.html", b"<p>one two</p><!--" + b"x" * (3 << 20) + b"-->")},
            data=PAIR,
        )
        assert uploaded.json()["translatedFileUrl"].startswith(f"https://{HOST}/")
        refused = client.post("/translate", content=b"x" * (22 << 20))
        assert refused.status_code == 413

        # Each request pretends to come from another client.
        statuses = [
            client.post(
                "/translate",
                json={"q": "one", **PAIR},
                headers={"X-Forwarded-For": f"192.0.2.{number}", "X-Real-IP": "192.0.2.1"},
            ).status_code
            for number in range(12)
        ]
        assert 429 in statuses
    assert "/translate 200" in proxy.logs()
    assert CANARY not in proxy.logs()
    assert "127.0.0.2" not in (tmp_path / "dragoman.access.log").read_text()


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_the_log_has_no_text_if_the_server_is_down(tmp_path):
    proxy = Proxy(tmp_path, free_port())
    with process(*proxy.command, stderr=subprocess.DEVNULL), proxy.client() as client:
        wait_for(lambda: client.get("/healthz").status_code == 502)
        client.get("/translate", params={"q": CANARY})
    assert "/translate 502" in proxy.logs()
    assert CANARY not in proxy.logs()


def wait_for(condition, seconds=30):
    """Wait until a server answers as expected."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            if condition():
                return
        time.sleep(0.1)
    raise AssertionError("no answer")


SANDBOX = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--uid", "10001", "--gid", "10001", "--ro-bind", "/", "/", "--dev", "/dev"),
    *("--proc", "/proc", "--tmpfs", "/var/tmp", "--setenv", "TMPDIR", "/var/tmp"),
)
"""Only `/var/tmp` can be written: Python itself may be installed below `/tmp`."""

INSIDE = """
import json, os, pathlib, re, signal, socket, subprocess, sys, urllib.request

def fails(action):
    try:
        action()
    except OSError:
        return True
    return False

server = subprocess.Popen(
    [sys.executable, "-m", "dragoman", "serve", "/var/tmp/model", "--port", "0", "--threads", "1"],
    stdout=subprocess.PIPE, text=True)
address = next(filter(None, (re.search(r"http://[^ ]+", line) for line in server.stdout)))[0]
body = {"q": "one two", "source": "en", "target": "de"}
request = urllib.request.Request(
    address + "/translate", json.dumps(body).encode(), {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request, timeout=30))
server.send_signal(signal.SIGTERM)
print(json.dumps({
    "user": os.getuid(),
    "answer": answer,
    "code": server.wait(60),
    "is read-only": fails(pathlib.Path("/usr/x").touch) and fails(pathlib.Path("/tmp/x").touch),
    "is alone": fails(lambda: socket.create_connection(("203.0.113.1", 80), timeout=2)),
    "left": sorted(os.listdir("/var/tmp")),
}))
"""


def can_isolate():
    return (
        shutil.which("bwrap") is not None
        and subprocess.run([*SANDBOX, "true"], capture_output=True).returncode == 0
    )


@pytest.mark.slow
@pytest.mark.skipif(not can_isolate(), reason="bubblewrap cannot make namespaces here")
def test_the_server_needs_no_rights_and_no_network(model, tmp_path):
    ended = subprocess.run(
        [*SANDBOX, "--ro-bind", model, "/var/tmp/model", sys.executable, "-c", INSIDE],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert isinstance(report.pop("answer")["translatedText"], str)
    assert report == {
        "user": 10001,
        "code": 0,
        "is read-only": True,
        "is alone": True,
        "left": ["model"],
    }


def adopt_orphans():
    """Make this process what the first process of a container is: the parent of all orphans."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1)


@pytest.mark.slow
def test_the_first_process_of_a_container_survives_orphans(model):
    options = ("--processes", "2", "--threads", "1")
    with server(model, *options, preexec_fn=adopt_orphans) as (running, port):

        def children():
            return psutil.Process(running.pid).children()

        address = f"http://127.0.0.1:{port}/healthz"
        wait_for(lambda: httpx.get(address).status_code == 200)
        first, second = children()
        wait_for(lambda: first.children() and second.children())
        orphans = first.children()
        assert orphans
        first.kill()
        # Its engines end, and their new parent must not mistake them for servers.
        psutil.wait_procs([first, *orphans], timeout=30)
        wait_for(lambda: len(children()) == 2 and first not in children())
        assert httpx.get(address).status_code == 200
        running.terminate()
        assert running.wait(60) == 0


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(
    os.getuid() != 0 or not all(map(shutil.which, ("podman", "debootstrap"))),
    reason="needs root, podman and debootstrap",
)
def test_the_image_starts_serves_and_stops(model):
    subprocess.run([ROOT / "deploy" / "try_image.sh", model, "en", "de"], check=True)
