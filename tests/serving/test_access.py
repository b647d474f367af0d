"""Who may use the server: keys, scopes, quotas, rates, and the address of a client."""

import asyncio
import sqlite3
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from dragoman.errors import DataError, DragomanError
from dragoman.serving.access import Access, Rates, client_of, parse_networks
from dragoman.serving.interface import Caller, ServerSettings, ServiceError
from dragoman.serving.state import State
from dragoman.serving.stores.database import BUSY_SECONDS


class Clock:
    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock(1_769_903_999.0)  # 2026-01-31 23:59:59 UTC.


@pytest.fixture
def state(tmp_path, clock):
    opened = State(tmp_path, now=clock)
    yield opened
    opened.close()


def request(peer="192.0.2.1", *forwarded):
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    client = (peer, 1234) if peer else None
    return Request({"type": "http", "headers": headers, "client": client})


def ask(access, key="", scope="translate", peer="192.0.2.1", *forwarded):
    return asyncio.run(access.caller(request(peer, *forwarded), key, scope, 5.0))


def refusal(call, *arguments):
    with pytest.raises(ServiceError) as error:
        call(*arguments)
    return error.value.kind


def access_with_keys(state, **options):
    return Access(ServerSettings(runs=(), requires_keys=True, **options), state)


def test_a_server_without_keys_accepts_any_key(state):
    access = Access(ServerSettings(runs=()), state)
    for key in ("", "x", state.add_key("alice")):
        assert ask(access, key) == Caller("192.0.2.1", "", 5.0)


def test_a_key_is_needed_and_must_be_right(state):
    access = access_with_keys(state)
    key = state.add_key("alice")
    key_id = key.split("_")[1]
    assert ask(access, f" {key} ") == Caller(key_id, key_id, 5.0)
    assert refusal(ask, access, " ") == "key_missing"
    other = state.add_key("bob")
    for wrong in (
        key[:-1],
        key + "0",
        key.upper(),
        key[:-1] + ("0" if key[-1] != "0" else "1"),
        f"dgm_{key_id}_{other.split('_')[2]}",
        f"dgm_{'0' * 12}_{'0' * 64}",
        "\ud800",
    ):
        assert refusal(ask, access, wrong) == "key_invalid"
    assert state.remove_key(key_id)
    assert refusal(ask, access, key) == "key_invalid"


def test_a_key_has_256_bits_and_is_not_in_the_file(state, tmp_path):
    key = state.add_key("alice")
    secret = key.split("_")[2]
    assert len(bytes.fromhex(secret)) == 32
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("state.sqlite3*"))
    assert b"alice" in stored
    assert secret.encode() not in stored
    assert bytes.fromhex(secret) not in stored


def test_a_key_has_scopes(state):
    access = access_with_keys(state)
    key = state.add_key("alice", ["translate", "suggest"])
    for scope in ("translate", "suggest"):
        ask(access, key, scope)
    for scope in ("documents", "glossaries"):
        assert refusal(ask, access, key, scope) == "forbidden"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "name of a key"),
        (("a\x1b[2J",), "name of a key"),
        (("x" * 101,), "name of a key"),
        (("alice", ["translate", "everything"]), "scope 'everything'; expected one of: translate"),
        (("alice", []), "expected one or more of"),
        (("alice", ["translate"], -1), "must not be negative"),
        (("alice", ["translate"], 0, -1), "must not be negative"),
    ],
)
def test_a_wrong_key_is_not_created(state, arguments, message):
    with pytest.raises(DataError, match=message):
        state.add_key(*arguments)
    assert state.keys() == []


def test_a_quota_is_per_key_and_month(state, clock):
    access = access_with_keys(state)
    alice, bob = (ask(access, state.add_key(name, ["translate"], 100)) for name in ("a", "b"))

    def charge(caller, characters):
        asyncio.run(access.charge(caller, characters))

    charge(alice, 60)
    charge(alice, 40)
    charge(alice, 0)
    assert refusal(charge, alice, 1) == "quota"
    assert refusal(charge, bob, 101) == "quota"
    charge(bob, 100)
    assert (state.usage(alice.key_id).characters, state.usage(alice.key_id).limit) == (100, 100)
    asyncio.run(access.refund(alice, 30))
    assert refusal(charge, alice, 31) == "quota"
    charge(alice, 30)
    clock.seconds += 1  # The next month.
    assert state.usage(alice.key_id).characters == 0
    charge(alice, 100)
    assert refusal(charge, alice, 1) == "quota"


def test_a_key_without_a_quota_is_counted_and_a_server_without_keys_is_not(state):
    access = access_with_keys(state)
    caller = ask(access, state.add_key("alice"))
    for _ in range(2):
        asyncio.run(access.charge(caller, 10**12))
    assert state.usage(caller.key_id).characters == 2 * 10**12
    asyncio.run(access.charge(Caller("192.0.2.1"), 5))
    asyncio.run(access.refund(Caller("192.0.2.1"), 5))
    assert state.usage("").characters == 0


def test_the_rate_of_a_key_is_its_own_or_the_servers(state):
    access = access_with_keys(state, requests_per_minute=3)
    own, default = state.add_key("a", ["translate"], 0, 5), state.add_key("b")
    for key, count in ((own, 5), (default, 3)):
        for _ in range(count):
            ask(access, key)
        assert refusal(ask, access, key) == "rate"


def test_without_keys_the_rate_is_per_address(state):
    access = Access(
        ServerSettings(runs=(), requests_per_minute=2, trusted_proxies=("10.0.0.1",)), state
    )
    for _ in range(2):
        ask(access, peer="192.0.2.1")
    assert refusal(ask, access, "", "translate", "192.0.2.1") == "rate"
    # A new header value of the client's own does not help it.
    assert refusal(ask, access, "", "translate", "192.0.2.1", "1.2.3.4") == "rate"
    assert refusal(ask, access, "", "translate", "10.0.0.1", "1.2.3.4, 192.0.2.1") == "rate"
    ask(access, "", "translate", "10.0.0.1", "192.0.2.1, 1.2.3.4")
    ask(access, peer="192.0.2.2")
    assert ask(access, peer="").client == "local"


@settings(max_examples=50)
@given(
    per_minute=st.integers(1, 120),
    pauses=st.lists(st.floats(0, 90, allow_subnormal=False), max_size=40),
)
def test_no_period_has_more_requests_than_allowed(per_minute, pauses):
    clock = Clock()
    rates = Rates(clock)
    times = []
    for pause in pauses:
        clock.seconds += pause
        if rates.allow("a", per_minute):
            times.append(clock.seconds)
    for first in range(len(times)):
        for last in range(first, len(times)):
            period = times[last] - times[first]
            assert last - first + 1 <= per_minute * (1 + period / 60) + 1e-6
    # The other way round: a client below its rate is never refused.
    rates = Rates(clock)
    for _ in range(3 * per_minute):
        clock.seconds += 60 / per_minute + 1e-9
        assert rates.allow("a", per_minute)


def test_a_rate_does_not_depend_on_the_wall_clock(state):
    access = access_with_keys(state, requests_per_minute=1)
    key = state.add_key("alice")
    ask(access, key)
    state.now.seconds += 10**6
    assert refusal(ask, access, key) == "rate"


def test_clients_are_forgotten(monkeypatch):
    monkeypatch.setattr("dragoman.serving.access._MAX_CLIENTS", 100)
    clock = Clock()
    rates = Rates(clock)
    for number in range(150):
        assert rates.allow(str(number), 1)
    assert list(rates._buckets) == [str(number) for number in range(50, 150)]
    clock.seconds += 60
    assert rates.allow("one", 1)
    assert list(rates._buckets) == ["one"]


TRUSTED = parse_networks(["10.0.0.0/8", "127.0.0.1", "2001:db8::1"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),  # Not from a trusted proxy.
        ("10.1.1.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.1.1.1", ["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
        ("10.1.1.1", ["1.1.1.1", "198.51.100.7"], "198.51.100.7"),
        ("10.1.1.1", ["1.1.1.1, 198.51.100.7, 127.0.0.1 ,10.2.2.2"], "198.51.100.7"),
        ("10.1.1.1", ["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        ("10.1.1.1", [], "10.1.1.1"),
        ("10.1.1.1", [""], "10.1.1.1"),
        ("10.1.1.1", ["198.51.100.7, unknown"], "10.1.1.1"),
        ("10.1.1.1", ["1.1.1.1, <script>, 10.2.2.2"], "10.2.2.2"),
        ("10.1.1.1", ["198.51.100.7:4321"], "198.51.100.7"),
        ("::ffff:10.1.1.1", ["::ffff:198.51.100.7"], "198.51.100.7"),
        ("2001:db8::1", ["[2001:db8:1:2:3::4]:80"], "2001:db8:1:2::/64"),
        ("2001:db8::2", ["198.51.100.7"], "2001:db8::/64"),
        ("127.0.0.2", ["198.51.100.7"], "127.0.0.2"),
        ("", ["198.51.100.7"], "local"),
        ("10.1.1.1", [",".join(["198.51.100.7"] + ["10.2.2.2"] * 100)], "10.2.2.2"),
    ],
)
def test_the_client_is_the_nearest_address_that_is_not_trusted(peer, forwarded, client):
    assert client_of(peer, forwarded, TRUSTED) == client


HEADER = st.text('0123456789abf.:[]/%," \0é', max_size=20)


@settings(max_examples=50)
@given(HEADER, st.lists(HEADER, max_size=4))
def test_any_header_gives_a_client(peer, forwarded):
    assert client_of(peer, forwarded, TRUSTED)
    assert client_of("10.0.0.1", forwarded, TRUSTED)


ADDRESSES = st.lists(st.ip_addresses().map(str), max_size=4)


@settings(max_examples=50)
@given(ADDRESSES, ADDRESSES)
def test_what_a_client_writes_does_not_change_who_it_is(own, other):
    seen = {
        client_of("127.0.0.1", [", ".join([*spoofed, "198.51.100.7", "10.2.2.2"])], TRUSTED)
        for spoofed in (own, other, [])
    }
    assert seen == {"198.51.100.7"}


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "10.0.0.0/33", ""])
def test_a_wrong_proxy_is_refused(state, text):
    with pytest.raises(DragomanError, match=r"expected an address \(10.0.0.5\) or a network"):
        Access(ServerSettings(runs=(), trusted_proxies=(text,)), state)


def test_a_busy_state_delays_a_charge_and_not_the_event_loop(state, tmp_path):
    access = access_with_keys(state)
    caller = ask(access, state.add_key("alice"))
    writer = sqlite3.connect(tmp_path / "state.sqlite3", isolation_level=None)

    async def charge_while_locked():
        writer.execute("BEGIN IMMEDIATE")
        charge = asyncio.create_task(access.charge(caller, 5))
        start = time.monotonic()
        for _ in range(20):
            await asyncio.sleep(0.01)
        seconds = time.monotonic() - start
        # The lock ends here: a loop that waits for it would stand still until the wait fails.
        assert not charge.done()
        writer.execute("ROLLBACK")
        await charge
        return seconds

    seconds = asyncio.run(charge_while_locked())
    writer.close()
    assert seconds < BUSY_SECONDS / 2
    assert state.usage(caller.key_id).characters == 5
