"""The access to the server: keys, scopes, quotas and rates."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError
from dragoman.serving.interface import Caller, Scope, ServerSettings, ServiceError
from dragoman.serving.logs import note
from dragoman.serving.state import State

if TYPE_CHECKING:
    from starlette.requests import Request

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAX_CLIENTS = 50_000
"""Whose rate is remembered."""
_MAX_HOPS = 32
_NO_ADDRESS = "local"
"""The client of a connection without an address."""


class Access:
    """Decides who may do what, and how often.

    The quota of characters is in the state: all processes share it, and it survives a restart. The
    rate of requests is counted in each process: with N processes, a client may reach N times its
    rate.
    """

    def __init__(
        self, settings: ServerSettings, state: State, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._requires_keys = settings.requires_keys
        self._requests_per_minute = settings.requests_per_minute
        self._trusted = parse_networks(settings.trusted_proxies)
        self._state = state
        self._rates = Rates(clock)

    async def caller(self, request: Request, key: str, scope: Scope, deadline: float) -> Caller:
        """Return who sends a request; raise `ServiceError` if the request is not allowed.

        Without keys, any key is accepted: some clients must send one.
        """
        if not self._requires_keys:
            client = self._client(request)
            self._check_rate(client, self._requests_per_minute)
            return Caller(client, "", deadline)
        if not key.strip():
            raise ServiceError(
                "key_missing", "Please contact the server operator to get an API key"
            )
        known = self._state.find_key(key.strip())
        if known is None:
            raise ServiceError("key_invalid", "Invalid API key")
        note(key_id=known.id)
        if scope not in known.scopes:
            raise ServiceError("forbidden", f"This API key does not have the scope '{scope}'.")
        self._check_rate(known.id, known.requests_per_minute or self._requests_per_minute)
        return Caller(known.id, known.id, deadline, known.scopes)

    async def charge(self, caller: Caller, characters: int) -> None:
        """Count characters before they are translated; raise `ServiceError` if too few are left."""
        note(characters=characters)
        if not caller.key_id:
            return
        if not await asyncio.to_thread(self._state.charge, caller.key_id, characters):
            limit = self._state.usage(caller.key_id).limit
            raise ServiceError(
                "quota",
                f"The quota of this API key ({limit:,} characters per month) does not suffice.",
            )

    async def refund(self, caller: Caller, characters: int) -> None:
        """Give back the characters of a request that was charged and then not translated."""
        if caller.key_id:
            await asyncio.to_thread(self._state.refund, caller.key_id, characters)

    def _client(self, request: Request) -> str:
        peer = request.client.host if request.client else ""
        return client_of(peer, request.headers.getlist("x-forwarded-for"), self._trusted)

    def _check_rate(self, client: str, per_minute: int) -> None:
        if per_minute and not self._rates.allow(client, per_minute):
            raise ServiceError("rate", f"Slowdown: {per_minute:,} requests per minute are allowed")


class Rates:
    """A token bucket per client: full, it allows as many requests as one minute does.

    In any period of s seconds, at most rate x (1 + s / 60) requests are allowed.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Requests left, and the time of the last one; the client that was last seen is last."""

    def allow(self, client: str, per_minute: int) -> bool:
        """Count a request; return False, and count nothing, if it is one too many."""
        now = self._clock()
        left, last = self._buckets.pop(client, (float(per_minute), now))
        left = min(per_minute, left + (now - last) * per_minute / 60)
        is_allowed = left >= 1
        self._buckets[client] = (left - is_allowed, now)
        self._forget(now)
        return is_allowed

    def _forget(self, now: float) -> None:
        """Forget clients whose bucket is full again, and the oldest if there are too many."""
        while self._buckets:
            client, (_, last) = next(iter(self._buckets.items()))
            if now - last < 60 and len(self._buckets) <= _MAX_CLIENTS:
                return
            del self._buckets[client]


def parse_networks(texts: Sequence[str]) -> tuple[_Network, ...]:
    """Read addresses (`10.0.0.5`) and networks (`10.0.0.0/8`) of proxies."""
    networks = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            raise DragomanError(
                f"the trusted proxy {text!r} is not valid ({error}); expected an address "
                "(10.0.0.5) or a network (10.0.0.0/8)"
            ) from None
    return tuple(networks)


def client_of(peer: str, forwarded: Sequence[str], trusted: Sequence[_Network]) -> str:
    """Return the client: the nearest address that is not a trusted proxy.

    Each proxy appends the address from which it got the request to `X-Forwarded-For`, so the header
    is read from its end, and only as long as the address before it is a trusted proxy. What stands
    further left was written by the client and may be false. IPv6 clients are counted by their
    network of 64 bits, which one customer usually owns as a whole.
    """
    address = _parse_address(peer)
    if address is None:
        return _NO_ADDRESS
    hops = [hop for header in forwarded for hop in header.split(",")][-_MAX_HOPS:]
    while hops and _is_in(address, trusted):
        hop = _parse_address(hops.pop())
        if hop is None:
            break  # Not an address: the proxy that wrote it is all that is known.
        address = hop
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _is_in(address: _Address, networks: Sequence[_Network]) -> bool:
    return any(address in network for network in networks)


def _parse_address(text: str) -> _Address | None:
    """Read an address, with or without a port (`10.0.0.5:80`, `[::1]:80`)."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
