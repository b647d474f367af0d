"""Several machines inside one, for tests: Linux namespaces on a virtual switch.

Every host has its own network, processes, host name and disk. Its disk shows the files of this
machine, and what it writes is in a layer of its own that ends with the host. So the hosts share no
disk. The switch is in a namespace of its own too: nothing reaches this machine's network. All of it
ends with the processes that hold the namespaces.

    with Lab(["store", "one", "two"]) as lab:
        lab.run("one", ["ping", "-c1", lab.address("two")])
        lab.cut("two"), lab.connect("two")     # the network cable
        lab.kill("two")                        # everything on the host ends at once

It needs root, iproute2, util-linux and overlayfs; `why_impossible` says what is missing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_DISK = "/mnt"
_START = f"""
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 disk {_DISK}
mkdir {_DISK}/upper {_DISK}/work {_DISK}/root
mount -t overlay -o lowerdir=/,upperdir={_DISK}/upper,workdir={_DISK}/work disk {_DISK}/root
cd {_DISK}/root
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs shm dev/shm
hostname "$1"
printf '%b' "127.0.0.1 localhost\\n$2" > etc/hosts
exec chroot . sleep infinity
"""


class Lab:
    """The hosts and their switch."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._first_process: dict[str, int] = {}
        self._begun: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._hold("switch", ["sleep", "infinity"])
        self._in_switch("link", "add", "bridge", "type", "bridge")
        self._in_switch("link", "set", "bridge", "up")
        for name in self._names:
            self.start(name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in list(self._holders):
            self.kill(name)
        # They ended with their hosts.
        for process in self._begun:
            process.wait()

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return f"10.87.0.{1 + self._names.index(name)}"

    def process_namespace(self, name: str) -> str:
        """Return the name of a host's process namespace, as /proc/PID/ns/pid shows it."""
        return os.readlink(f"/proc/{self._first_process[name]}/ns/pid")

    def process(self, name: str) -> int | None:
        """Return the first process of a host; its files are at /proc/PROCESS/root."""
        return self._first_process.get(name)

    def start(self, name: str) -> None:
        """Start a host with an empty layer, and connect it."""
        known = "".join(f"{self.address(other)} {other}\\n" for other in self._names)
        self._hold(name, ["bash", "-c", _START, "start", name, known])
        port, process = self._port(name), self._first_process[name]
        switch = str(self._first_process["switch"])
        # The port of a host that was killed ends some time after it.
        inside_switch = ["nsenter", "--target", switch, "--net", "ip"]
        subprocess.run([*inside_switch, "link", "delete", port], capture_output=True)
        _ip("link", "add", port, "netns", switch, "type", "veth",
            "peer", "name", "eth0", "netns", str(process))  # fmt: skip
        self.connect(name)
        inside = ["nsenter", "--target", str(process), "--net", "ip"]
        for words in (
            ["addr", "add", f"{self.address(name)}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
            ["link", "set", "lo", "up"],
        ):
            subprocess.run([*inside, *words], check=True)

    def kill(self, name: str) -> None:
        """End everything on a host at once."""
        process = self._first_process.pop(name, None)
        holder = self._holders.pop(name)
        if process is not None:
            os.kill(process, signal.SIGKILL)
        holder.kill()
        holder.wait()
        if holder.stderr:
            holder.stderr.close()

    def cut(self, name: str) -> None:
        """Take a host off the network; it does not notice."""
        self._in_switch("link", "set", self._port(name), "nomaster")

    def connect(self, name: str) -> None:
        """Connect a host to the network."""
        self._in_switch("link", "set", self._port(name), "master", "bridge", "up")

    def command(self, name: str, words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
        """Return the command that runs a command on a host."""
        target = str(self._first_process[name])
        settings = [f"{key}={value}" for key, value in variables.items()]
        return ["nsenter", "--target", target, "--all", "--root", "--wd", "env", *settings, *words]

    def run(
        self,
        name: str,
        words: Sequence[str],
        variables: Mapping[str, str] | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host, and wait for it."""
        command = self.command(name, words, variables or {})
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)

    def begin(
        self,
        name: str,
        words: Sequence[str],
        variables: Mapping[str, str] | None = None,
        output: IO[bytes] | int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a command on a host."""
        command = self.command(name, words, variables or {})
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self._begun.append(process)
        return process

    def _hold(self, name: str, words: Sequence[str]) -> None:
        """Start the process that holds the namespaces of a host."""
        kinds = ["--net"] if name == "switch" else ["--net", "--mount", "--pid", "--uts", "--ipc"]
        holder = subprocess.Popen(
            ["unshare", *kinds, "--fork", "--kill-child", *words],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._holders[name] = holder
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and holder.poll() is None:
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "sleep":
                    self._first_process[name] = int(child)
                    return
            time.sleep(0.02)
        holder.kill()
        message = holder.stderr.read().decode() if holder.stderr else ""
        raise OSError(f"the host {name} did not start: {message}")

    def _port(self, name: str) -> str:
        return f"port{self._names.index(name)}"

    def _in_switch(self, *words: str) -> None:
        target = str(self._first_process["switch"])
        subprocess.run(["nsenter", "--target", target, "--net", "ip", *words], check=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def why_impossible() -> str:
    """Say why no lab can be started here; nothing if one can."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    try:
        with Lab(["one", "two"]) as lab:
            done = lab.run("one", ["true"])
            return "" if done.returncode == 0 else f"nsenter: {done.stderr}"
    except (OSError, subprocess.CalledProcessError) as error:
        return f"needs namespaces and overlayfs: {error}"
