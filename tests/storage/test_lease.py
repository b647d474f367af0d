"""One process at a time holds the lease of a folder in a store."""

import threading
import time

import pytest

from dragoman.storage import lease
from dragoman.storage.lease import LeaseHeldError, leased
from dragoman.storage.remote import Store, open_store, parse_url


@pytest.fixture
def url(folder_url, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.1)
    # Long enough for a renewal on a busy machine.
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 20)
    found = parse_url(folder_url)
    assert found is not None
    return found


def test_a_second_process_is_refused_while_the_first_renews(url):
    with leased(url), pytest.raises(LeaseHeldError, match="process"), leased(url):
        pass


def test_a_released_lease_is_taken_at_once(url):
    waited: list[str] = []
    for _ in range(3):
        with leased(url, wait=waited.append) as held:
            assert not held.is_lost
    assert not waited
    assert len(open_store(url.bucket).list(f"{url.key}/lease")) == 2


def test_a_renewal_that_is_still_written_does_not_undo_the_release(url, monkeypatch):
    renewing, put = threading.Event(), Store.put

    def slow_put(store, key, data):
        if b'"is_released": false' in data:
            renewing.set()
            time.sleep(0.3)
        put(store, key, data)

    monkeypatch.setattr(Store, "put", slow_put)
    waited: list[str] = []
    with leased(url):
        assert renewing.wait(5)
    with leased(url, wait=waited.append):
        assert not waited


def test_a_lease_that_is_not_renewed_expires(url, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 60)
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 0.6)
    waited: list[str] = []
    with leased(url) as first:
        with leased(url, wait=waited.append) as second:
            assert first.is_lost
            assert not second.is_lost
        assert waited
    # The first must not release what it has lost.
    with leased(url, wait=waited.append):
        assert len(waited) == 1


def test_processes_of_one_job_take_over_at_once(url):
    waited: list[str] = []
    with leased(url, "job") as first, leased(url, "job", waited.append) as second:
        assert first.is_lost
        assert not second.is_lost
    assert not waited


def test_of_many_at_the_same_time_one_gets_it(url):
    outcomes: list[bool] = []
    refused, ended = threading.Semaphore(0), threading.Event()

    def take() -> None:
        try:
            with leased(url):
                outcomes.append(True)
                ended.wait()
        except LeaseHeldError:
            outcomes.append(False)
            refused.release()

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    # The holder keeps the lease until all others were refused.
    were_refused = [refused.acquire(timeout=30) for _ in range(5)]
    ended.set()
    for thread in threads:
        thread.join()
    assert all(were_refused)
    assert sorted(outcomes) == [False] * 5 + [True]
