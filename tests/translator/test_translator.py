"""Are lines in lines out, whatever they hold, and does each translation say what happened to it?"""

import itertools
import random
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import translator as module
from dragoman.errors import DataError
from dragoman.tokenizer.interface import SPECIAL, language_token
from dragoman.translator import Translation, Translator
from translator_models import (
    ENGINES,
    Scripted,
    echo,
    lines,
    said,
    served_by,
    tokenizer,
    write_run,
)

AWKWARD = [
    " ", "  ", "\t", "\r", "\x00", "\x0b", "\x0c", "\x1c", "\x1d", "\x1f", "\x85", "\xa0", "\u2028",
    "\u2029", "\u3000", "\u200b", "\u200d", "\ufeff", "😀", "👩🏽‍🚀", "e\u0301", "\u0301", "שלום",
    "\u202eabc\u202c", "▁", "�", "</s>", "<2de>", "<0x41>", "one", "Two. ", "one, ", "。", "1. ",
]  # fmt: skip
LINE = st.lists(
    st.sampled_from(AWKWARD)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=4),
    max_size=12,
).map("".join)
LINES = lines(40, seed=7)
LONG = [" ".join(lines(count, seed=count)) for count in (1, 30, 2, 12)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("models") / "run")


@pytest.fixture(scope="module")
def translators(run):
    """Of the same model, by engine; long lines are split early."""
    return {each: Translator.load(run, ["decoding.longest=24"], engine=each) for each in ENGINES}


both = pytest.mark.parametrize("engine", ENGINES)


def texts(found):
    return [each.text for each in found]


def space_round(text):
    """What `strip` takes away: of a blank line, all of it."""
    body = text.strip()
    start = text.find(body) if body else len(text)
    return text[:start], text[start + len(body) :]


# Lines


@pytest.mark.parametrize("kind", ["sentencepiece", "bytes"])
@pytest.mark.parametrize("longest", [3, 8, 128])
@given(given_lines=st.lists(LINE, max_size=6))
@settings(max_examples=60)
def test_what_comes_back_unchanged_is_unchanged_to_the_letter(kind, longest, given_lines):
    found = echo(kind, longest=longest).translate(given_lines)
    assert texts(found) == given_lines


@pytest.mark.slow
@both
@given(given_lines=st.lists(LINE, max_size=5))
@settings(max_examples=12)
def test_lines_in_are_lines_out_with_the_space_round_them(translators, engine, given_lines):
    found = translators[engine].translate(given_lines)
    assert len(found) == len(given_lines)
    for line, each in zip(given_lines, found, strict=True):
        assert "\n" not in each.text
        assert space_round(line)[0] == each.text[: len(space_round(line)[0])]
        assert each.text.endswith(space_round(line)[1])
        if not line.strip():
            assert each == Translation(line, 0.0)


@pytest.mark.parametrize("kind", ["words", "characters"])
@given(given_lines=st.lists(LINE, max_size=5))
@settings(max_examples=25)
def test_what_a_tokenizer_loses_costs_no_line(kind, given_lines):
    found = echo(kind, longest=8).translate(given_lines)
    assert len(found) == len(given_lines)
    for line, each in zip(given_lines, found, strict=True):
        assert "\n" not in each.text
        if not line.strip():
            assert each.text == line


def test_a_line_end_that_the_model_writes_becomes_a_space():
    ids = tokenizer("bytes").encode([" one\ntwo\n"])[0]
    assert texts(served_by(Scripted(lambda *_: said(ids)), "bytes").translate(["\tx "])) == [
        "\tone two "
    ]


def test_a_line_end_in_a_line_is_refused():
    with pytest.raises(DataError, match="line 2 holds a line end"):
        echo().translate(["one", "two\nthree"])


@pytest.mark.parametrize("number", [0xD83D, 0xDC80])
def test_half_a_character_is_refused_with_its_place(number):
    with pytest.raises(DataError, match=rf"line 3 .*U\+{number:04X}.* at place 5"):
        echo().translate(["one", "", f"two {chr(number)}"])


def test_one_text_is_not_a_list_of_lines():
    with pytest.raises(DataError, match="found one text"):
        echo().translate("one")
    with pytest.raises(DataError, match="found one text"):
        next(echo().stream("one"))
    with pytest.raises(DataError, match="found one text"):
        echo().translate(["one", "two"], prefixes="ab")


def test_nothing_in_is_nothing_out(translators):
    for each in [echo(), *translators.values()]:
        assert each.translate([]) == []
        assert list(each.stream(iter(()))) == []
        assert texts(each.translate(["", " ", "\t\t"])) == ["", " ", "\t\t"]


# Order


def test_lines_of_all_lengths_come_back_in_their_order():
    chance = random.Random(1)
    mixed = [" ".join(lines(chance.choice([1, 1, 1, 5, 40]), seed=seed)) for seed in range(1300)]
    mixed[700] = mixed[10] = ""
    assert len(mixed) > 2 * module._BLOCK
    found = echo(longest=24).translate(mixed)
    assert texts(found) == mixed
    assert any("split" in each.flags for each in found)


@pytest.mark.slow
@both
def test_reproducible_means_to_the_bit(run, engine):
    changed = ["decoding.reproducible=true", "decoding.longest=24"]
    translator = Translator.load(run, changed, engine=engine)
    mixed = [*LINES[:5], LONG[2], "", *LINES[:2]]
    together = translator.translate(mixed)
    assert together == [each for line in mixed for each in translator.translate([line])]
    assert together == list(reversed(translator.translate(list(reversed(mixed)))))


@pytest.mark.slow
@both
def test_neighbours_hardly_matter_else(translators, engine):
    few = LINES[:12]
    alone = [each for line in few for each in translators[engine].translate([line])]
    together = translators[engine].translate(few)
    same = [one.text == other.text for one, other in zip(alone, together, strict=True)]
    assert sum(same) >= 0.9 * len(same)  # Measured: all of them.


def test_threads_may_share_a_translator(translators):
    for each in (echo(longest=24), translators["ctranslate2"]):
        expected = texts(each.translate([*LONG, *LINES]))
        with ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(lambda _, each=each: texts(each.translate([*LONG, *LINES])), range(8))
            )
        assert found == [expected] * 8


# Streams

AHEAD = (module._AHEAD + 1) * module._BLOCK
"""So many lines are read before their translations are taken."""


class Endless:
    """Lines for ever; counts those that were read."""

    def __init__(self, line):
        self.line, self.read = line, 0

    def __iter__(self):
        while True:
            self.read += 1
            yield f"{self.line} {self.read}"


def test_a_stream_without_end_is_read_as_it_is_taken():
    source = Endless("line")
    stream = echo().stream(source)
    assert source.read == 0
    for number, each in enumerate(itertools.islice(stream, 3 * AHEAD), start=1):
        assert each.text == f"line {number}"
        assert source.read < number + AHEAD


def test_of_long_lines_fewer_are_read_ahead():
    source = Endless("word " * (module._BLOCK_CHARACTERS // 5))
    next(echo(longest=2000).stream(source))
    assert source.read == module._AHEAD + 1


@pytest.mark.slow
def test_a_stream_takes_no_more_memory_the_longer_it_flows():
    stream = echo().stream(Endless("one two three"))
    taken = itertools.islice(stream, 2 * AHEAD)
    tracemalloc.start()
    try:
        for _ in taken:
            pass
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in itertools.islice(stream, AHEAD):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What a few blocks hold; measured: 1.1 times.
    assert peak < 1.5 * before


@both
def test_a_stream_says_what_a_list_says(translators, engine):
    assert list(translators[engine].stream(iter(LINES))) == translators[engine].translate(LINES)


# Long lines

SHAPES = {
    "no spaces": "abcdefgh",
    "spaces": "word ",
    "sentences": "Here it is. ",
    "emoji": "😀",
    "right to left": "שלום עולם ",
}
shapes = pytest.mark.parametrize("shape", SHAPES)


def shaped(shape, count):
    return (SHAPES[shape] * count)[:count].strip()


@shapes
def test_a_long_line_is_split_and_whole_again(shape):
    text = shaped(shape, 20_000)
    (found,) = echo().translate([text])
    assert found.text == text
    assert found.flags == ("split",)


def memory(name):
    """In bytes, as Linux counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no count of the memory")
@shapes
def test_a_million_characters_take_memory_and_time_by_their_number(shape):
    """Measured, for a character: up to 90 bytes and 16 microseconds; for an emoji 180 and 31."""
    translator, seconds = echo(), []
    for count in (250_000, 1_000_000):
        text = shaped(shape, count)
        Path("/proc/self/clear_refs").write_text("5")  # The peak is forgotten.
        before, start = memory("VmRSS"), time.process_time()
        (found,) = translator.translate([text])
        seconds.append(time.process_time() - start)
        bytes_each = (memory("VmHWM") - before) / count
        print(f"{count} characters: {seconds[-1]:.1f} s, {bytes_each:.0f} bytes each")
        assert found.text == text
        assert found.flags == ("split",)
        assert bytes_each < 400
    assert seconds[1] < 7 * seconds[0]


def test_sentences_without_spaces_are_joined_with_them_where_the_target_has_them():
    text = "今日は雨です。本当？はい！"
    (found,) = echo("bytes", longest=25, pair=("ja", "de")).translate([f" {text} "])
    assert found.text == " 今日は雨です。 本当？ はい！ "
    (found,) = echo("bytes", longest=25, pair=("ja", "zh")).translate([text])
    assert found.text == text


def test_the_score_of_pieces_is_their_mean_by_length():
    text = "One two. Three."
    scores = {2: -1.0, 1: -4.0}
    engine = Scripted(lambda source, _: said(source, score=scores[1 + (len(source) < 3)]))
    (found,) = served_by(engine, "words", longest=3).translate([text])
    lengths = [len(each) for each in engine.asked[0][1]]
    assert lengths == [3, 2]
    assert found.score == pytest.approx((-4.0 * 4 - 1.0 * 3) / 7)


# Doubts

CIRCLE = [7, 8] * 9
LINE_OF_THREE = "One two three."


def ids_of(text):
    return tokenizer().encode([text])[0]


def test_a_good_answer_is_asked_for_once():
    engine = Scripted(lambda source, _: said(source))
    assert [each.flags for each in served_by(engine).translate(LINES)] == [()] * len(LINES)
    assert len(engine.asked) == 1


def test_a_circle_is_tried_again_under_guard():
    bad = ids_of(LINE_OF_THREE)

    def script(source, asked):
        return said(CIRCLE) if source == bad and not asked.no_repeat else said(source)

    engine = Scripted(script)
    found = served_by(engine, beam=7).translate(["One.", LINE_OF_THREE, "Two."])
    assert texts(found) == ["One.", LINE_OF_THREE, "Two."]
    assert [each.flags for each in found] == [(), ("retried",), ()]
    (first, _, _), (second, again, _) = engine.asked
    assert (first.no_repeat, first.repetition_penalty) == (0, 1.0)
    assert (second.no_repeat, second.repetition_penalty, second.beam) == (3, 1.1, 7)
    assert again == [bad], "and nothing else"


def test_where_the_second_is_no_better_the_first_stays():
    first, second = ids_of("one two"), ids_of("three four")
    engine = Scripted(lambda _, asked: said(second if asked.no_repeat else first, is_ended=False))
    (found,) = served_by(engine).translate([LINE_OF_THREE])
    assert (found.text, found.flags) == ("one two", ("length", "retried"))


def test_all_that_looks_wrong_is_told():
    (found,) = served_by(Scripted(lambda *_: said(CIRCLE * 5, is_ended=False))).translate(["One."])
    assert found.flags == ("repetition", "length", "retried")


def test_of_a_split_line_the_bad_sentence_is_tried_again():
    bad = ids_of("One two three.")
    engine = Scripted(
        lambda source, asked: said(CIRCLE if source == bad and not asked.no_repeat else source)
    )
    text = "Five six. One two three.  Seven."
    (found,) = served_by(engine, longest=8).translate([text])
    assert (found.text, found.flags) == (text, ("split", "retried"))
    assert engine.asked[1][1] == [bad]


def test_a_source_that_repeats_itself_is_not_suspected():
    engine = Scripted(lambda source, _: said(source))
    (found,) = served_by(engine).translate(["no no no no no no no no no"])
    assert found.flags == ()
    assert len(engine.asked) == 1


def test_a_prefix_is_kept_when_it_is_tried_again():
    engine = Scripted(lambda source, asked: said(source if asked.no_repeat else CIRCLE))
    served_by(engine).translate(["One.", "Two."], prefixes=["so", ""])
    assert [asked for _, _, asked in engine.asked] == [[ids_of("so"), []]] * 2


# Prefixes


@pytest.mark.slow
@both
@given(prefix=LINE.map(str.strip).map(lambda text: text[:6].strip()))
@settings(max_examples=12)
def test_a_translation_begins_with_its_prefix(translators, engine, prefix):
    asked = [prefix, "", f" {prefix}\t"]
    found = translators[engine].translate(["One two.", " Three.", "\tsix "], prefixes=asked)
    assert found[0].text.startswith(prefix)
    assert found[1].text == translators[engine].translate([" Three."])[0].text
    assert found[2].text.startswith(f"\t{prefix}")
    assert found[2].text.endswith(" ")


@both
def test_a_prefix_of_a_line_that_is_split_comes_once(translators, engine):
    (free,) = translators[engine].translate(LONG[1:2])
    (found,) = translators[engine].translate(LONG[1:2], prefixes=["Zwölf, 😀"])
    assert {*free.flags} & {*found.flags} >= {"split"}
    assert found.text.startswith("Zwölf, 😀")
    assert found.text.count("Zwölf, 😀") == 1


@both
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_prefix_may_say_what_a_guard_forbids(run, engine, search):
    changed = [f"decoding.search={search}", "decoding.no_repeat=2", "decoding.minimum_length=20"]
    translator = Translator.load(run, changed, engine=engine)
    (found,) = translator.translate(["One."], prefixes=["so so so so so so"])
    assert found.text.startswith("so so so so so so")


def test_prefixes_that_cannot_be_kept_are_refused():
    translator = echo()
    with pytest.raises(DataError, match="found 1 prefixes for 2 lines"):
        translator.translate(["one", "two"], prefixes=["x"])
    with pytest.raises(DataError, match="the prefix of line 2 holds a line end"):
        translator.translate(["one", "two"], prefixes=["", "a\nb"])
    with pytest.raises(DataError, match="the prefix of line 1 is not text"):
        translator.translate(["one"], prefixes=["\ud83d"])
    with pytest.raises(DataError, match=r"the prefix of line 1 has 90 tokens.*may have 66"):
        translator.translate(["one"], prefixes=["one " * 90])


def test_a_blank_line_stays_blank_whatever_it_should_begin_with():
    assert texts(echo().translate(["", "one"], prefixes=["so", ""])) == ["", "one"]


def test_a_stream_takes_prefixes_as_they_come():
    engine = Scripted(lambda source, _: said(source))
    list(served_by(engine).stream(iter(["One.", "Two."]), prefixes=iter(["so"])))
    assert engine.asked[0][2] == [ids_of("so"), []]


# Alternatives


@both
def test_alternatives_are_other_texts_best_first(run, engine):
    translator = Translator.load(
        run, ["decoding.hypotheses=3", "decoding.longest=24"], engine=engine
    )
    found = translator.translate([*LINES, LONG[1], ""])
    for each in found:
        assert len({each.text, *each.alternatives}) == 1 + len(each.alternatives) <= 3
    assert sum(len(each.alternatives) == 2 for each in found) > len(LINES) / 2
    answers = translator.engine.translate(translator.source.encode(LINES), translator.settings)
    for each, hypotheses in zip(found, answers, strict=False):
        assert [one.score for one in hypotheses] == sorted(
            (one.score for one in hypotheses), reverse=True
        )
        if not each.flags:
            said_texts = translator.target.decode([one.tokens for one in hypotheses])
            expected = dict.fromkeys(text.replace("\n", " ").strip() for text in said_texts)
            assert [each.text, *each.alternatives] == list(expected)


def test_without_asking_there_are_none(translators):
    assert not any(each.alternatives for each in translators["pytorch"].translate(LINES))


# Alignment


def test_the_places_of_a_split_line_go_on_from_piece_to_piece():
    (found,) = echo(longest=8).translate([LONG[3]], with_alignment=True)
    assert "split" in found.flags
    assert found.tokens == found.source_tokens
    assert found.alignment == tuple((place, place) for place in range(len(found.tokens)))


@pytest.mark.slow
def test_every_token_is_aligned_and_both_engines_agree(translators):
    aligned = {
        name: each.translate([*LINES, *LONG, ""], with_alignment=True)
        for name, each in translators.items()
    }
    for each in itertools.chain(*aligned.values()):
        assert [target for _, target in each.alignment] == list(range(len(each.tokens)))
        assert all(0 <= source < len(each.source_tokens) for source, _ in each.alignment)
    one, other = aligned.values()
    pairs = [
        pair
        for first, second in zip(one, other, strict=True)
        if first.tokens == second.tokens
        for pair in zip(first.alignment, second.alignment, strict=True)
    ]
    same = sum(first == second for first, second in pairs)
    print(f"{same} of {len(pairs)} tokens")
    assert same >= 0.99 * len(pairs)  # Where two weights are almost the same; measured: all.
    last = sum(
        source == len(each.source_tokens) - 1 for each in one for source, _ in each.alignment
    )
    assert last, "the last word of a source is looked at too"


@both
def test_without_asking_nothing_is_aligned(translators, engine):
    assert not any(each.alignment for each in translators[engine].translate(LINES))


# Languages

MANY = ("de", "fr", *(f"x{number}" for number in range(198)))


def test_a_language_is_asked_for_by_its_token():
    engine = Scripted(lambda source, _: said(source))
    translator = served_by(engine, languages=MANY, longest=6)
    text = "One two three. Five six seven."
    (found,) = translator.translate([text], language="x197")
    token = translator.source.id_of(language_token("x197"))
    assert token == len(SPECIAL) + len(MANY) - 1
    assert [source[0] for source in engine.asked[0][1]] == [token, token]
    assert all(len(source) <= 6 for source in engine.asked[0][1])
    assert found.text == text
    assert found.source_tokens[0] == "<2x197>"
    assert translator.translate([text])[0].source_tokens[0] != "<2x197>"


def test_a_language_that_the_model_has_not_is_refused():
    translator = echo(languages=MANY)
    for unknown in ("nl", "de>", "unk"):
        with pytest.raises(DataError, match="no token for the language"):
            translator.translate(["one"], language=unknown)
    with pytest.raises(DataError, match="no token for the language 'de'"):
        echo().translate(["one"], language="de")


@pytest.mark.parametrize("kind", ["sentencepiece", "bytes", "words"])
@pytest.mark.parametrize(
    "text", ["<2de>", "</s>", "<s> <pad> <unk>", "<2fr> one</s><2de>", ">>de<<"]
)
def test_text_that_looks_like_a_token_is_text(kind, text):
    engine = Scripted(lambda source, _: said(source))
    translator = served_by(engine, kind, languages=MANY)
    (found,) = translator.translate([text], language="de")
    (source,) = engine.asked[0][1]
    control = set(range(len(SPECIAL) + len(MANY))) - {SPECIAL.index("<unk>")}
    assert source[0] == translator.source.id_of("<2de>")
    assert not control & set(source[1:])
    if kind != "words":
        assert found.text == text


@both
def test_a_model_with_languages_translates_into_each(tmp_path, engine):
    run = write_run(tmp_path / "run", languages=("de", "fr"))
    translator = Translator.load(run, engine=engine)
    german, french = (translator.translate(LINES, language=each) for each in ("de", "fr"))
    assert len(german) == len(french) == len(LINES)
    assert texts(german) != texts(french)


@pytest.mark.parametrize("with_alignment", [False, True])
def test_a_line_of_one_piece_is_joined_as_any_other(tmp_path, monkeypatch, with_alignment):
    translator = Translator.load(write_run(tmp_path / "run"), engine="pytorch")
    asked = [" one two ", "", "three", "\tx" + " four" * 30]
    soon = translator.translate(asked, with_alignment=with_alignment)
    monkeypatch.setattr(Translator, "_join_one", Translator._join)
    plain = translator.translate(asked, with_alignment=with_alignment)
    for one, other in zip(soon, plain, strict=True):
        assert replace(one, score=0.0) == replace(other, score=0.0)
    # A mean over one piece is multiplied and divided once more.
    assert [each.score for each in soon] == pytest.approx([each.score for each in plain])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_line_is_spelled_as_the_corpus_was(tmp_path, engine):
    """Composed letters, hard spaces and soft hyphens are the preparation's, not the model's."""
    translator = Translator.load(write_run(tmp_path / "run"), engine=engine)
    plain = ["Caf\u00e9 one two.", "three four", "five"]
    odd = ["Cafe\u0301 one\u00a0two.", "thr\u00adee\u2003four", "\ufefffive"]
    assert texts(translator.translate(odd)) == texts(translator.translate(plain))
    unseen = ["\u200b\u2060", " \u00ad "]
    assert texts(translator.translate(unseen)) == unseen, "kept, and not translated"


def test_a_model_whose_corpus_was_not_respelled_is_asked_as_it_is(tmp_path):
    run = write_run(tmp_path / "run", steps=())
    translator = Translator.load(run, engine="pytorch")
    composed, apart = translator.translate(
        ["Caf\u00e9 one.", "Cafe\u0301 one."], with_alignment=True
    )
    assert composed.source_tokens != apart.source_tokens
