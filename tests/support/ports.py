"""Free TCP ports for servers that cannot take port 0.

The kernel gives the ports of `ip_local_port_range` (from 32768) to outgoing connections, so a port
from there can be taken between the check and the start of the server. Ray gives its workers the
ports 10002 to 19999. These ports are between the two.
"""

from __future__ import annotations

import contextlib
import random
import socket

FIRST, LAST = 20_000, 32_000


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return ports in a row that nobody uses now."""
    while True:
        # Not the seeded generator: tests in other processes have the same seed.
        start = random.SystemRandom().randint(FIRST, LAST - count)
        ports = list(range(start, start + count))
        if all(_is_free(host, port) for port in ports):
            return ports


def free_port() -> int:
    """Return a port that nobody uses now."""
    return free_ports(1)[0]


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as listener, contextlib.suppress(OSError):
        listener.bind((host, port))
        return True
    return False
