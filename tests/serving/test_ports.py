"""Ports for the servers of tests are free and in a row."""

from __future__ import annotations

import random
import socket

from support.ports import free_ports


def test_ports_are_free_and_in_a_row():
    ports = free_ports(8)
    assert ports == list(range(ports[0], ports[0] + 8))
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_port_in_use_is_not_given(monkeypatch):
    first, second, third, fourth = free_ports(4)
    starts = iter([first, third])
    monkeypatch.setattr(random.SystemRandom, "randint", lambda *_: next(starts))
    with socket.create_server(("127.0.0.1", second)):
        assert free_ports(2) == [third, fourth]
