"""`Translator`: one output line per input line, in order, with flags and alignment."""

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

from dragoman.errors import ArtifactError, DataError, RecipeError
from dragoman.inference import lines as line_module
from dragoman.inference import translator as module
from dragoman.inference.joining import Joiner
from dragoman.inference.lines import clean_output
from dragoman.inference.translator import Translation, Translator
from dragoman.tokenizer.interface import SPAN_TOKENS, SPECIAL, language_token
from support.sets import first_quick
from support.translator_models import (
    ENGINES,
    Scripted,
    echo,
    hypothesis,
    lines,
    tokenizer,
    translator_with,
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
    """Translators of the same model, by engine; long lines are split early."""
    return {
        engine: Translator.load(run, ["decoding.max_source_tokens=24"], engine=engine)
        for engine in ENGINES
    }


both_engines = pytest.mark.parametrize("engine", ENGINES)


def texts(translations):
    return [translation.text for translation in translations]


def surrounding_space(text):
    """What `strip` removes: of a blank line, everything."""
    body = text.strip()
    start = text.find(body) if body else len(text)
    return text[:start], text[start + len(body) :]


# Lines


@pytest.mark.parametrize("kind", ["sentencepiece", "bytes"])
@pytest.mark.parametrize("longest", first_quick([3, 8, 128]))
@given(given_lines=st.lists(LINE, max_size=6))
@settings(max_examples=60)
def test_a_copied_line_is_unchanged(kind, longest, given_lines):
    translations = echo(kind, max_source_tokens=longest).translate(given_lines)
    assert texts(translations) == given_lines


@pytest.mark.slow
@both_engines
@given(given_lines=st.lists(LINE, max_size=5))
@settings(max_examples=12)
def test_every_line_keeps_its_surrounding_space(translators, engine, given_lines):
    translations = translators[engine].translate(given_lines)
    assert len(translations) == len(given_lines)
    for line, translation in zip(given_lines, translations, strict=True):
        leading, trailing = surrounding_space(line)
        assert "\n" not in translation.text
        assert leading == translation.text[: len(leading)]
        assert translation.text.endswith(trailing)
        if not line.strip():
            assert translation == Translation(line, 0.0)


@pytest.mark.parametrize("kind", ["words", "characters"])
@given(given_lines=st.lists(LINE, max_size=5))
@settings(max_examples=25)
def test_text_that_a_tokenizer_drops_removes_no_line(kind, given_lines):
    translations = echo(kind, max_source_tokens=8).translate(given_lines)
    assert len(translations) == len(given_lines)
    for line, translation in zip(given_lines, translations, strict=True):
        assert "\n" not in translation.text
        if not line.strip():
            assert translation.text == line


def breaks_a_line(character):
    return len(f"a{character}b".splitlines()) == 2


def test_no_line_break_of_the_model_is_written():
    """Whatever a reader splits at: `\\r` also ends a line of a file that is opened as text."""
    line_breaks = [chr(code) for code in range(0x110000) if breaks_a_line(chr(code))]
    assert len(line_breaks) == 10
    for character in line_breaks:
        ids = tokenizer("bytes").encode([f"{character}one{character}two{character}"])[0]
        translator = translator_with(Scripted(lambda *_, ids=ids: hypothesis(ids)), "bytes")
        assert translator.translate("\tx ").text == "\tone two ", hex(ord(character))
        if character != "\n":  # The source contains it, so its line had the character before.
            text = translator.translate(f"\tx{character}y\r").text
            assert text == f"\tone{character}two\r", hex(ord(character))


def test_a_newline_in_a_line_is_refused():
    with pytest.raises(DataError, match="line 2 contains a newline"):
        echo().translate(["one", "two\nthree"])


@pytest.mark.parametrize("number", [0xD83D, 0xDC80])
def test_a_lone_surrogate_is_refused_with_its_position(number):
    with pytest.raises(DataError, match=rf"line 3 .*U\+{number:04X}.* at position 5"):
        echo().translate(["one", "", f"two {chr(number)}"])


def test_one_text_gives_one_translation():
    translation = echo().translate(" one two ")
    assert isinstance(translation, Translation)
    assert translation == echo().translate([" one two "])[0]


def test_one_text_may_have_one_prefix():
    engine = Scripted(lambda source, _: hypothesis(source))
    translator_with(engine).translate("One.", prefixes="so")
    assert engine.requests[0][2] == [ids_of("so")]


def test_one_text_is_not_a_stream_of_lines():
    with pytest.raises(DataError, match="is one string"):
        next(echo().stream("one"))
    with pytest.raises(DataError, match="is one string"):
        echo().translate(["one", "two"], prefixes="ab")


def test_no_lines_give_no_lines(translators):
    for translator in [echo(), *translators.values()]:
        assert translator.translate([]) == []
        assert list(translator.stream(iter(()))) == []
        assert texts(translator.translate(["", " ", "\t\t"])) == ["", " ", "\t\t"]


# Order


@pytest.mark.slow
def test_lines_of_all_lengths_keep_their_order():
    rng = random.Random(1)
    mixed = [" ".join(lines(rng.choice([1, 1, 1, 5, 40]), seed=seed)) for seed in range(1300)]
    mixed[700] = mixed[10] = ""
    assert len(mixed) > 2 * line_module.BLOCK_LINES
    translations = echo(max_source_tokens=24).translate(mixed)
    assert texts(translations) == mixed
    assert any("split" in translation.flags for translation in translations)


@pytest.mark.slow
@both_engines
def test_reproducible_results_are_bit_identical(run, engine):
    settings = ["decoding.reproducible=true", "decoding.max_source_tokens=24"]
    translator = Translator.load(run, settings, engine=engine)
    mixed = [*LINES[:5], LONG[2], "", *LINES[:2]]
    together = translator.translate(mixed)
    assert together == [translator.translate(line) for line in mixed]
    assert together == list(reversed(translator.translate(list(reversed(mixed)))))


@pytest.mark.slow
@both_engines
def test_other_lines_of_a_batch_hardly_matter(translators, engine):
    few = LINES[:12]
    alone = [translators[engine].translate(line) for line in few]
    together = translators[engine].translate(few)
    same = [one.text == other.text for one, other in zip(alone, together, strict=True)]
    assert sum(same) >= 0.9 * len(same)  # Measured: all of them.


@pytest.mark.slow
def test_threads_may_share_a_translator(translators):
    for translator in (echo(max_source_tokens=24), translators["ctranslate2"]):
        expected = texts(translator.translate([*LONG, *LINES]))

        def work(_, translator=translator):
            return texts(translator.translate([*LONG, *LINES]))

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(8))) == [expected] * 8


# Streams

AHEAD = (module._BLOCKS_AHEAD + 1) * line_module.BLOCK_LINES
"""Lines that are read before the first translation is returned."""


class Endless:
    """An endless iterator of lines, which counts those that were read."""

    def __init__(self, line):
        self.line, self.read = line, 0

    def __iter__(self):
        while True:
            self.read += 1
            yield f"{self.line} {self.read}"


@pytest.mark.slow
def test_an_endless_stream_is_read_as_it_is_consumed():
    source = Endless("line")
    stream = echo().stream(source)
    assert source.read == 0
    for number, translation in enumerate(itertools.islice(stream, 3 * AHEAD), start=1):
        assert translation.text == f"line {number}"
        assert source.read < number + AHEAD


@pytest.mark.slow
def test_fewer_long_lines_are_read_ahead():
    source = Endless("word " * (line_module.BLOCK_CHARACTERS // 5))
    next(echo(max_source_tokens=2000).stream(source))
    assert source.read == module._BLOCKS_AHEAD + 1


@pytest.mark.slow
def test_the_memory_of_a_stream_does_not_grow():
    stream = echo().stream(Endless("one two three"))
    first = itertools.islice(stream, 2 * AHEAD)
    tracemalloc.start()
    try:
        for _ in first:
            pass
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in itertools.islice(stream, AHEAD):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A few blocks; measured: 1.1 times.
    assert peak < 1.5 * before


@pytest.mark.slow
@both_engines
def test_a_stream_and_a_list_give_the_same(translators, engine):
    assert list(translators[engine].stream(iter(LINES))) == translators[engine].translate(LINES)


# Long lines

SHAPES = {
    "no spaces": "abcdefgh",
    "spaces": "word ",
    "sentences": "Here it is. ",
    "emoji": "😀",
    "right to left": "שלום עולם ",
}
shapes = pytest.mark.parametrize("shape", first_quick(SHAPES))


def shaped(shape, count):
    return (SHAPES[shape] * count)[:count].strip()


@shapes
def test_a_long_line_is_split_and_joined(shape):
    text = shaped(shape, 20_000)
    translation = echo().translate(text)
    assert translation.text == text
    assert translation.flags == ("split",)


def memory(name):
    """A memory count of Linux, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="needs memory counts of Linux"
)
@pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@shapes
def test_memory_and_time_grow_linearly(shape, count):
    """Measured per character: up to 90 bytes and 16 microseconds; for an emoji 180 and 31."""
    translator, seconds = echo(), []
    for characters in (count // 4, count):
        text = shaped(shape, characters)
        Path("/proc/self/clear_refs").write_text("5")  # Reset the peak.
        before, start = memory("VmRSS"), time.process_time()
        translation = translator.translate(text)
        seconds.append(time.process_time() - start)
        bytes_per_character = (memory("VmHWM") - before) / characters
        print(f"{characters} characters: {seconds[-1]:.1f} s, {bytes_per_character:.0f} bytes each")
        assert translation.text == text
        assert translation.flags == ("split",)
        assert bytes_per_character < 400
    assert seconds[1] < 7 * seconds[0]


def test_sentences_are_joined_with_spaces_if_only_the_target_has_them():
    text = "今日は雨です。本当？はい！"
    translation = echo("bytes", max_source_tokens=25, pair=("ja", "de")).translate(f" {text} ")
    assert translation.text == " 今日は雨です。 本当？ はい！ "
    translation = echo("bytes", max_source_tokens=25, pair=("ja", "zh")).translate(text)
    assert translation.text == text


def test_the_score_of_a_split_line_is_the_mean_weighted_by_length():
    text = "One two. Three."
    scores = {2: -1.0, 1: -4.0}
    engine = Scripted(lambda source, _: hypothesis(source, score=scores[1 + (len(source) < 3)]))
    translation = translator_with(engine, "words", max_source_tokens=3).translate(text)
    lengths = [len(source) for source in engine.requests[0][1]]
    assert lengths == [3, 2]
    assert translation.score == pytest.approx((-4.0 * 4 - 1.0 * 3) / 7)


# Degenerate translations

REPEATED = [7, 8] * 9
LINE_OF_THREE = "One two three."


def ids_of(text):
    return tokenizer().encode([text])[0]


def test_a_good_translation_is_not_retried():
    engine = Scripted(lambda source, _: hypothesis(source))
    translations = translator_with(engine).translate(LINES)
    assert [translation.flags for translation in translations] == [()] * len(LINES)
    assert len(engine.requests) == 1


def test_a_repetition_is_retried_with_repetition_limits():
    bad = ids_of(LINE_OF_THREE)

    def script(source, settings):
        is_bad = source == bad and not settings.no_repeat_ngram_size
        return hypothesis(REPEATED if is_bad else source)

    engine = Scripted(script)
    translator = translator_with(engine, beam_size=7)
    translations = translator.translate(["One.", LINE_OF_THREE, "Two."])
    assert texts(translations) == ["One.", LINE_OF_THREE, "Two."]
    assert [translation.flags for translation in translations] == [(), ("retried",), ()]
    (first, _, _), (second, again, _) = engine.requests
    assert (first.no_repeat_ngram_size, first.repetition_penalty) == (0, 1.0)
    assert (second.no_repeat_ngram_size, second.repetition_penalty) == (3, 1.1)
    assert second.beam_size == 7
    assert again == [bad], "only the bad line"


def test_the_first_translation_stays_if_the_second_is_no_better():
    first, second = ids_of("one two"), ids_of("three four")
    engine = Scripted(
        lambda _, settings: hypothesis(
            second if settings.no_repeat_ngram_size else first, is_finished=False
        )
    )
    translation = translator_with(engine).translate(LINE_OF_THREE)
    assert (translation.text, translation.flags) == ("one two", ("length", "retried"))


def test_all_flags_are_reported():
    engine = Scripted(lambda *_: hypothesis(REPEATED * 5, is_finished=False))
    assert translator_with(engine).translate("One.").flags == ("repetition", "length", "retried")


def test_only_the_bad_sentence_of_a_split_line_is_retried():
    bad = ids_of("One two three.")
    engine = Scripted(
        lambda source, settings: hypothesis(
            REPEATED if source == bad and not settings.no_repeat_ngram_size else source
        )
    )
    text = "Five six. One two three.  Seven."
    translation = translator_with(engine, max_source_tokens=8).translate(text)
    assert (translation.text, translation.flags) == (text, ("split", "retried"))
    assert engine.requests[1][1] == [bad]


def test_a_source_that_repeats_itself_is_not_retried():
    engine = Scripted(lambda source, _: hypothesis(source))
    translation = translator_with(engine).translate("no no no no no no no no no")
    assert translation.flags == ()
    assert len(engine.requests) == 1


def test_a_retry_keeps_the_prefix():
    engine = Scripted(
        lambda source, settings: hypothesis(source if settings.no_repeat_ngram_size else REPEATED)
    )
    translator_with(engine).translate(["One.", "Two."], prefixes=["so", ""])
    assert [prefixes for _, _, prefixes in engine.requests] == [[ids_of("so"), []]] * 2


# Prefixes


@pytest.mark.slow
@both_engines
@given(prefix=LINE.map(lambda text: " ".join(text.strip().splitlines())[:6].strip()))
@settings(max_examples=12)
def test_a_translation_begins_with_its_prefix(translators, engine, prefix):
    """The prefix has no line break: a translation of one line is one line."""
    prefixes = [prefix, "", f" {prefix}\t"]
    first, second, third = translators[engine].translate(
        ["One two.", " Three.", "\tsix "], prefixes=prefixes
    )
    assert first.text.startswith(prefix)
    assert second.text == translators[engine].translate(" Three.").text
    assert third.text.startswith(f"\t{prefix}")
    assert third.text.endswith(" ")


@pytest.mark.slow
@both_engines
def test_the_prefix_of_a_split_line_appears_once(translators, engine):
    (free,) = translators[engine].translate(LONG[1:2])
    (prefixed,) = translators[engine].translate(LONG[1:2], prefixes=["Zwölf, 😀"])
    assert {*free.flags} & {*prefixed.flags} >= {"split"}
    assert prefixed.text.startswith("Zwölf, 😀")
    assert prefixed.text.count("Zwölf, 😀") == 1


@pytest.mark.slow
@both_engines
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_prefix_may_contain_what_the_limits_forbid(run, engine, search):
    settings = [
        f"decoding.search={search}",
        "decoding.no_repeat_ngram_size=2",
        "decoding.min_length=20",
    ]
    translator = Translator.load(run, settings, engine=engine)
    translation = translator.translate("One.", prefixes="so so so so so so")
    assert translation.text.startswith("so so so so so so")


def test_impossible_prefixes_are_refused():
    translator = echo()
    with pytest.raises(DataError, match="found 1 prefixes for 2 lines"):
        translator.translate(["one", "two"], prefixes=["x"])
    with pytest.raises(DataError, match="the prefix of line 2 contains a newline"):
        translator.translate(["one", "two"], prefixes=["", "a\nb"])
    with pytest.raises(DataError, match="the prefix of line 1 is not valid text"):
        translator.translate(["one"], prefixes=["\ud83d"])
    with pytest.raises(
        DataError, match=r"the prefix of line 1 has 90 tokens.*expected fewer than 66"
    ):
        translator.translate(["one"], prefixes=["one " * 90])


def test_a_blank_line_with_a_prefix_stays_blank():
    assert texts(echo().translate(["", "one"], prefixes=["so", ""])) == ["", "one"]


def test_a_stream_takes_a_stream_of_prefixes():
    engine = Scripted(lambda source, _: hypothesis(source))
    list(translator_with(engine).stream(iter(["One.", "Two."]), prefixes=iter(["so"])))
    assert engine.requests[0][2] == [ids_of("so"), []]


# Alternatives


@pytest.mark.slow
@both_engines
def test_alternatives_are_different_texts_best_first(run, engine):
    translator = Translator.load(
        run, ["decoding.num_hypotheses=3", "decoding.max_source_tokens=24"], engine=engine
    )
    translations = translator.translate([*LINES, LONG[1], ""])
    for one in translations:
        assert len({one.text, *one.alternatives}) == 1 + len(one.alternatives) <= 3
    assert sum(len(one.alternatives) == 2 for one in translations) > len(LINES) / 2
    answers = translator.engine.translate(translator.source.encode(LINES), translator.settings)
    for one, hypotheses in zip(translations, answers, strict=False):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        if not one.flags:
            decoded = translator.target.decode([hypothesis.tokens for hypothesis in hypotheses])
            # The lines contain no reserved token.
            expected = dict.fromkeys(clean_output(text, "") for text in decoded)
            assert [one.text, *one.alternatives] == list(expected)


@pytest.mark.slow
def test_there_are_no_alternatives_by_default(translators):
    translations = translators["pytorch"].translate(LINES)
    assert not any(translation.alternatives for translation in translations)


# Alignment


def test_positions_of_a_split_line_count_over_all_pieces():
    translation = echo(max_source_tokens=8).translate(LONG[3], with_alignment=True)
    assert "split" in translation.flags
    assert translation.tokens == translation.source_tokens
    positions = range(len(translation.tokens))
    assert translation.alignment == tuple((position, position) for position in positions)


@pytest.mark.slow
def test_every_token_is_aligned_and_both_engines_agree(translators):
    aligned = {
        name: translator.translate([*LINES, *LONG, ""], with_alignment=True)
        for name, translator in translators.items()
    }
    for one in itertools.chain(*aligned.values()):
        assert [target for _, target in one.alignment] == list(range(len(one.tokens)))
        assert all(0 <= source < len(one.source_tokens) for source, _ in one.alignment)
    pytorch, ctranslate2 = aligned.values()
    pairs = [
        pair
        for first, second in zip(pytorch, ctranslate2, strict=True)
        if first.tokens == second.tokens
        for pair in zip(first.alignment, second.alignment, strict=True)
    ]
    same = sum(first == second for first, second in pairs)
    print(f"{same} of {len(pairs)} tokens")
    assert same >= 0.99 * len(pairs)  # Two weights may be almost equal; measured: all.
    last = sum(
        source == len(one.source_tokens) - 1 for one in pytorch for source, _ in one.alignment
    )
    assert last, "the last source token is aligned too"


@pytest.mark.slow
@both_engines
def test_nothing_is_aligned_by_default(translators, engine):
    translations = translators[engine].translate(LINES)
    assert not any(translation.alignment for translation in translations)


# Languages

MANY = ("de", "fr", *(f"x{number}" for number in range(198)))


def test_a_language_is_selected_by_its_token():
    engine = Scripted(lambda source, _: hypothesis(source))
    translator = translator_with(engine, languages=MANY, max_source_tokens=6)
    text = "One two three. Five six seven."
    translation = translator.translate(text, language="x197")
    token = translator.source.id_of(language_token("x197"))
    assert token == len(SPECIAL) + len(MANY) - 1
    assert [source[0] for source in engine.requests[0][1]] == [token, token]
    assert all(len(source) <= 6 for source in engine.requests[0][1])
    assert translation.text == text
    assert translation.source_tokens[0] == "<2x197>"
    assert translator.translate(text).source_tokens[0] != "<2x197>"


def test_an_unknown_language_is_refused():
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
    engine = Scripted(lambda source, _: hypothesis(source))
    translator = translator_with(engine, kind, languages=MANY)
    translation = translator.translate(text, language="de")
    (source,) = engine.requests[0][1]
    control = set(range(len(SPECIAL) + len(MANY))) - {SPECIAL.index("<unk>")}
    assert source[0] == translator.source.id_of("<2de>")
    assert not control & set(source[1:])
    if kind != "words":
        assert translation.text == text


@pytest.mark.slow
@both_engines
def test_a_multilingual_model_translates_into_each_language(tmp_path, engine):
    run = write_run(tmp_path / "run", languages=("de", "fr"))
    translator = Translator.load(run, engine=engine)
    german, french = (translator.translate(LINES, language=code) for code in ("de", "fr"))
    assert len(german) == len(french) == len(LINES)
    assert texts(german) != texts(french)


@pytest.mark.slow
@pytest.mark.parametrize("with_alignment", [False, True])
def test_the_fast_path_for_one_piece_gives_the_same(tmp_path, monkeypatch, with_alignment):
    translator = Translator.load(write_run(tmp_path / "run"), engine="pytorch")
    given_lines = [" one two ", "", "three", "\tx" + " four" * 30]
    fast = translator.translate(given_lines, with_alignment=with_alignment)
    monkeypatch.setattr(Joiner, "join_one", Joiner.join_pieces)
    slow = translator.translate(given_lines, with_alignment=with_alignment)
    for one, other in zip(fast, slow, strict=True):
        assert replace(one, score=0.0) == replace(other, score=0.0)
    # The mean over one piece multiplies and divides once more.
    assert [one.score for one in fast] == pytest.approx([one.score for one in slow])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_line_is_normalized_like_the_corpus(tmp_path, engine):
    """Combining marks, no-break spaces and soft hyphens never reach the model."""
    translator = Translator.load(write_run(tmp_path / "run"), engine=engine)
    plain = ["Caf\u00e9 one two.", "three four", "five"]
    odd = ["Cafe\u0301 one\u00a0two.", "thr\u00adee\u2003four", "\ufefffive"]
    assert texts(translator.translate(odd)) == texts(translator.translate(plain))
    invisible = ["\u200b\u2060", " \u00ad "]
    assert texts(translator.translate(invisible)) == invisible, "kept, not translated"


@pytest.mark.slow
def test_without_the_unicode_filter_a_line_is_not_normalized(tmp_path):
    run = write_run(tmp_path / "run", filters=())
    translator = Translator.load(run, engine="pytorch")
    composed, decomposed = translator.translate(
        ["Caf\u00e9 one.", "Cafe\u0301 one."], with_alignment=True
    )
    assert composed.source_tokens != decomposed.source_tokens


# Settings per call, and closing


def test_decoding_settings_can_be_changed_per_call(run):
    translator = Translator.load(run)
    greedy = Translator.load(run, ["decoding.beam_size=1"])
    assert translator.translate(LINES, beam_size=1) == greedy.translate(LINES)
    assert translator.translate(LINES[0], num_hypotheses=3).alternatives
    assert translator.settings.beam_size == 3, "only that call changes"


def test_wrong_settings_of_a_call_are_refused_with_a_suggestion(run):
    translator = Translator.load(run)
    with pytest.raises(RecipeError, match=r"decoding\.beem_size\n.*did you mean 'beam_size'"):
        translator.translate("one", beem_size=2)
    with pytest.raises(RecipeError, match="found 0, expected"):
        translator.translate("one", beam_size=0)
    with pytest.raises(RecipeError, match="finds at most 3"):
        translator.translate("one", num_hypotheses=4)
    with pytest.raises(ArtifactError, match=r"decoding\.search.*engine='pytorch'"):
        translator.translate("one", search="sample")


@pytest.mark.slow
def test_settings_of_a_call_respect_the_positions_of_the_model(tmp_path):
    model = {"position": {"name": "learned", "maximum": 80}}
    translator = Translator.load(write_run(tmp_path / "run", model=model), engine="pytorch")
    translation = translator.translate(LONG[1], max_source_tokens=500, max_extra_tokens=500)
    assert "split" in translation.flags


@pytest.mark.slow
@both_engines
def test_a_closed_translator_refuses_to_translate(run, engine):
    with Translator.load(run, engine=engine) as translator:
        assert translator.translate("one").text
    translator.close()  # A second time changes nothing.
    with pytest.raises(ArtifactError, match="closed"):
        translator.translate("one")


def test_reserved_tokens_are_written_only_if_the_source_contains_them():
    first, second = SPAN_TOKENS[:2]

    def write_both(source, _):
        return hypothesis([*source, *tokenizer().encode([f"{first}{second}"])[0]])

    translator = translator_with(Scripted(write_both))
    texts = [result.text for result in translator.translate(["one two", f"one {second} two"])]
    assert texts == ["one two", f"one {second} two {second}"]
