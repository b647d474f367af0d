"""Random sequences of calls: the state behaves like dictionaries in memory."""

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from dragoman.serving.interface import ServiceError
from dragoman.serving.state import State
from dragoman.serving.stores.glossaries import Dictionary

OWNERS = st.sampled_from(["", "alice", "bob"])
NAMES = st.sampled_from(["a", "weblate:x:EN:DE:1", "ß 漢"])
LANGUAGES = st.sampled_from([("en", "de"), ("en", "fr"), ("zh-Hans", "en")])
TERMS = st.sampled_from(["a", "A", "b", "é", "long term"])
ENTRIES = st.dictionaries(TERMS, TERMS, min_size=1, max_size=4)


class Machine(RuleBasedStateMachine):
    """`model` has what the state should contain."""

    @initialize()
    def open_state(self):
        self.folder = Path(tempfile.mkdtemp())
        self.seconds = 1_760_000_000.0
        self.state = State(self.folder, now=lambda: self.seconds)
        self.model = {}

    def teardown(self):
        self.state.close()
        shutil.rmtree(self.folder)

    @rule()
    def restart(self):
        self.state.close()
        self.state = State(self.folder, now=lambda: self.seconds)


class GlossaryMachine(Machine):
    glossary_ids = Bundle("glossary_ids")

    def owned(self, owner, glossary_id):
        """Return the model's glossary if this owner has it."""
        real_owner, name, dictionaries = self.model.get(glossary_id, (None, "", {}))
        return (name, dictionaries) if real_owner == owner else None

    def expect(self, is_allowed, call, *arguments):
        if is_allowed:
            return call(*arguments)
        with pytest.raises(ServiceError) as refusal:
            call(*arguments)
        assert refusal.value.kind == "not_found"
        return None

    @rule(
        target=glossary_ids,
        owner=OWNERS,
        name=NAMES,
        dictionaries=st.dictionaries(LANGUAGES, ENTRIES, min_size=1, max_size=2),
    )
    def add_glossary(self, owner, name, dictionaries):
        self.seconds += 1
        given = [Dictionary(*pair, tuple(terms.items())) for pair, terms in dictionaries.items()]
        info = self.state.add_glossary(owner, name, given)
        assert info.id not in self.model
        self.model[info.id] = (owner, name, {pair: dict(d) for pair, d in dictionaries.items()})
        return info.id

    @rule(owner=OWNERS, glossary_id=glossary_ids, name=NAMES)
    def rename(self, owner, glossary_id, name):
        old = self.owned(owner, glossary_id)
        self.expect(old, self.state.change_glossary, owner, glossary_id, name)
        if old:
            self.model[glossary_id] = (owner, name, old[1])

    @rule(owner=OWNERS, glossary_id=glossary_ids, pair=LANGUAGES, entries=ENTRIES)
    def merge(self, owner, glossary_id, pair, entries):
        old = self.owned(owner, glossary_id)
        dictionary = Dictionary(*pair, tuple(entries.items()))
        self.expect(old, self.state.change_glossary, owner, glossary_id, "", [dictionary])
        if old:
            old[1].setdefault(pair, {}).update(entries)

    @rule(owner=OWNERS, glossary_id=glossary_ids, pair=LANGUAGES, entries=ENTRIES)
    def replace(self, owner, glossary_id, pair, entries):
        old = self.owned(owner, glossary_id)
        dictionary = Dictionary(*pair, tuple(entries.items()))
        self.expect(old, self.state.replace_dictionary, owner, glossary_id, dictionary)
        if old:
            old[1][pair] = dict(entries)

    @rule(owner=OWNERS, glossary_id=glossary_ids, pair=LANGUAGES)
    def delete_dictionary(self, owner, glossary_id, pair):
        old = self.owned(owner, glossary_id)
        is_allowed = old is not None and pair in old[1]
        self.expect(is_allowed, self.state.delete_dictionary, owner, glossary_id, *pair)
        if is_allowed:
            del old[1][pair]

    @rule(owner=OWNERS, glossary_id=glossary_ids)
    def delete_glossary(self, owner, glossary_id):
        old = self.owned(owner, glossary_id)
        self.expect(old, self.state.delete_glossary, owner, glossary_id)
        if old:
            del self.model[glossary_id]

    @invariant()
    def the_glossaries_are_the_model(self):
        for owner in ("", "alice", "bob"):
            infos = self.state.glossaries(owner)
            ids = [key for key, (real_owner, *_) in self.model.items() if real_owner == owner]
            assert [info.id for info in infos] == ids
            for info in infos:
                _, name, dictionaries = self.model[info.id]
                assert info == self.state.glossary(owner, info.id)
                assert info.name == name
                counts = {(d.source, d.target): d.entry_count for d in info.dictionaries}
                assert counts == {pair: len(entries) for pair, entries in dictionaries.items()}
                for pair, entries in dictionaries.items():
                    stored = self.state.glossary_entries(owner, info.id, *pair)
                    assert dict(stored) == entries
                    assert len(stored) == len(entries)


class KeyMachine(Machine):
    keys = Bundle("keys")

    @rule(target=keys, name=NAMES, limit=st.sampled_from([0, 10]))
    def add_key(self, name, limit):
        self.seconds += 1
        key = self.state.add_key(name, characters_per_month=limit)
        self.model[key] = [name, limit, 0]
        return key

    @rule(key=keys, characters=st.sampled_from([0, 1, 5, 9, 10, 11]))
    def charge(self, key, characters):
        known = self.model[key]
        fits = not known[1] or known[2] + characters <= known[1]
        assert self.state.charge(key.split("_")[1], characters) == fits
        if fits:
            known[2] += characters

    @rule(key=keys)
    def charge_the_rest(self, key):
        """All that is left can be used, and then nothing more."""
        _, limit, used = self.model[key]
        if limit:
            assert self.state.charge(key.split("_")[1], limit - used)
            assert not self.state.charge(key.split("_")[1], 1)
            self.model[key][2] = limit

    @rule(key=keys, characters=st.sampled_from([0, 1, 5, 9, 10, 11]))
    def refund(self, key, characters):
        self.state.refund(key.split("_")[1], characters)
        self.model[key][2] = max(0, self.model[key][2] - characters)

    @rule(key=consumes(keys), owner_glossary=NAMES)
    def remove_key(self, key, owner_glossary):
        """A key's glossary goes with it; the second removal finds nothing."""
        key_id = key.split("_")[1]
        self.state.add_glossary(key_id, owner_glossary, [Dictionary("en", "de", (("a", "b"),))])
        assert self.state.remove_key(key_id)
        assert not self.state.remove_key(key_id)
        assert self.state.glossaries(key_id) == []
        del self.model[key]

    @rule(days=st.sampled_from([1, 31]))
    def wait(self, days):
        before = int(self.seconds)
        self.seconds += days * 86_400
        if _month(before) != _month(self.seconds):
            for known in self.model.values():
                known[2] = 0

    @invariant()
    def the_keys_are_the_model(self):
        listed = self.state.keys()
        assert [key.name for key in listed] == [name for name, *_ in self.model.values()]
        for key, (name, limit, used) in self.model.items():
            known = self.state.find_key(key)
            assert (known.name, known.characters_per_month) == (name, limit)
            usage = self.state.usage(known.id)
            assert (usage.characters, usage.limit) == (used, limit)


def _month(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m")


class TestGlossaries(GlossaryMachine.TestCase):
    settings = settings(max_examples=20, stateful_step_count=20)


class TestKeys(KeyMachine.TestCase):
    settings = settings(max_examples=20, stateful_step_count=25)


TestGlossaries, TestKeys = map(pytest.mark.slow, (TestGlossaries, TestKeys))
