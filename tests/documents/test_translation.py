"""Units of documents: guarded, split, translated, restored and verified."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents import form, segments
from dragoman.documents.guarding import check, guard, is_nested, items_of, to_content
from dragoman.documents.memory import TranslationMemory
from dragoman.documents.segments import split_segments
from dragoman.documents.translation import COPIED, PIECES, DocumentTranslator, Options, UnitResult
from dragoman.formats.base.document import Code, Content, Unit, merged, plain_text
from dragoman.inference.joining import Translation
from dragoman.text.glossary import Glossary
from dragoman.tokenizer.interface import SPAN_TOKENS
from support.segment_models import FunctionModel, drop, echo, hostile, translation

B, B_END = Code("<b>", "open", 1), Code("</b>", "close", 1)
BR = Code("<br/>")
WITH_TOKENS = Options("en", "de", has_span_tokens=True, max_hypotheses=2)
WITHOUT_TOKENS = Options("en", "de")


def translate(source, function, options=WITH_TOKENS, **more) -> UnitResult:
    content = (source,) if isinstance(source, str) else source
    unit = Unit("key", content, 1, collapses_space=more.pop("collapses_space", False))
    (result,) = DocumentTranslator(FunctionModel(function), options, **more).translate([unit])
    return result


def text_of(result: UnitResult) -> str:
    assert result.target is not None
    return "".join(part if isinstance(part, str) else part.raw for part in result.target.content)


def contents() -> st.SearchStrategy[Content]:
    """Texts with spans, tags and codes, well nested."""
    words = st.sampled_from(
        ["File", "%s", "not found.", "{name}", "Open", "100 %", "https://a.example/b", "NEW",
         "<i>", "</i>", "&nbsp;", "a\nb", "Änderung", "$1", "x@example.org", "…", "<br/>"]
    )  # fmt: skip
    plain = st.lists(words, max_size=8).map(" ".join)
    nested = st.tuples(plain, plain, plain).map(
        lambda parts: (parts[0], B, parts[1], B_END, parts[2])
    )
    breaks = st.tuples(plain, plain).map(lambda parts: (parts[0], BR, parts[1]))
    return st.one_of(plain.map(lambda text: (text,)), nested, breaks).map(merged)


@given(contents(), st.booleans())
def test_segments_join_to_the_unit(content, collapses_space):
    guarded = guard(content)
    parts = []
    for segment in split_segments(guarded, "en", collapses_space=False):
        parts += [*segment.leading, *segment.body, *segment.trailing]
    assert to_content(tuple(parts)) == content


@settings(deadline=None)
@given(contents())
def test_an_echo_gives_the_source_without_a_flag(content):
    result = translate(content, echo)
    has_tokens_for_all = len(items_of(guard(content))) <= len(SPAN_TOKENS)
    if result.target is not None and result.origin == "machine" and has_tokens_for_all:
        assert merged(result.target.content) == content
        assert result.flags == ()


@settings(deadline=None)
@given(contents(), st.sampled_from([WITH_TOKENS, WITHOUT_TOKENS]), st.integers(0, 2**32))
def test_no_model_breaks_a_unit(content, options, seed):
    for function in (str.upper, drop, lambda _: "", hostile(seed)):
        result = translate(content, function, options)
        if result.target is None:
            continue
        target = result.target.content
        assert not check(content, target)
        assert "\0" not in plain_text(target)
        assert plain_text(target).count("\n") == plain_text(content).count("\n")
        if is_nested(guard(content)):
            assert is_nested(guard(target))


def test_a_model_with_span_tokens_moves_them():
    first, second = SPAN_TOKENS[:2]
    result = translate(
        "Copy %s to {target} now.", lambda _: f"Jetzt {second} nach {first} kopieren."
    )
    assert text_of(result) == "Jetzt {target} nach %s kopieren."
    assert (result.flags, result.methods) == ((), ("tokens",))


def test_a_lost_token_is_placed_by_alignment_and_flagged():
    result = translate("Open %s now", lambda text: text.replace(SPAN_TOKENS[0], "").upper())
    assert text_of(result) == "OPEN %s NOW"
    assert result.flags == ("spans_aligned",)


def test_a_model_that_always_drops_words_is_translated_in_pieces_or_copied():
    def drop_tokens_and_alignment(text: str) -> str:
        return "" if " " in text else text.upper()

    result = translate("Open %s now", drop_tokens_and_alignment)
    assert (text_of(result), result.flags) == ("OPEN %s NOW", (PIECES,))
    result = translate("Open %s now", lambda _: "%d")
    assert (text_of(result), result.flags) == ("Open %s now", (COPIED,))


def test_formatting_goes_to_the_aligned_words_in_models_without_tokens():
    source = ("A ", B, "red", B_END, " house.")
    result = translate(source, str.upper, WITHOUT_TOKENS)
    assert text_of(result) == "A <b>RED</b> HOUSE."
    assert (result.flags, result.methods) == ((), ("aligned",))
    last = ("A red ", B, "house", B_END, ".")
    assert text_of(
        translate(last, str.upper, WITHOUT_TOKENS)
    ) == "A red <b>house</b>.".upper().replace("B>", "b>")


def test_a_pair_around_a_whole_target_without_spaces_is_flagged():
    class Unspaced:
        def translate_segments(self, texts, *, with_alignment, num_hypotheses):
            words = [text.split() for text in texts]
            links = [tuple((source, 0) for source in range(len(line))) for line in words]
            return [
                Translation(
                    "赤い家。", 0.0, tuple("▁" + word for word in line), ("▁赤い家。",), links
                )
                for line, links in zip(words, links, strict=True)
            ]

    engine = DocumentTranslator(Unspaced(), Options("en", "ja"))
    (result,) = engine.translate([Unit("key", ("A ", B, "red", B_END, " house."), 1)])
    assert (text_of(result), result.flags) == ("<b>赤い家</b>。", ("spans_aligned",))
    (result,) = engine.translate([Unit("key", (B, "A red house", B_END, "."), 1)])
    assert (text_of(result), result.flags) == ("<b>赤い家</b>。", ())


def test_a_break_between_two_words_separates_them():
    model = FunctionModel(str.upper)
    unit = Unit(
        "key",
        (
            "Line one",
            BR,
            BR,
            "and line two",
        ),
        1,
    )
    (result,) = DocumentTranslator(model, WITHOUT_TOKENS).translate([unit])
    assert model.texts == ["Line one and line two"]
    assert text_of(result) == "LINE ONE<br/><br/>AND LINE TWO"


def test_a_line_break_of_the_file_stays_between_words():
    def move_to_the_end(text: str) -> str:
        token = SPAN_TOKENS[0]
        return text.replace(token, "") + token * text.count(token)

    result = translate(("One", Code("  \n"), "two"), move_to_the_end)
    assert (text_of(result), result.flags) == ("One  \ntwo", ("spans_aligned",))


def test_a_pair_around_a_sentence_is_not_shown_to_the_model():
    model = FunctionModel(str.upper)
    unit = Unit("key", (B, "Hello world.", B_END, BR), 1)
    (result,) = DocumentTranslator(model, WITH_TOKENS).translate([unit])
    assert model.texts == ["Hello world."]
    assert text_of(result) == "<b>HELLO WORLD.</b><br/>"


def test_paragraphs_are_split_and_joined_with_their_own_whitespace():
    model = FunctionModel(str.upper)
    unit = Unit("key", ("  One here.  Two there.\n\tThree.\n",), 1)
    (result,) = DocumentTranslator(model, WITH_TOKENS).translate([unit])
    assert model.texts == ["One here.", "Two there.", "Three."]
    assert text_of(result) == "  ONE HERE.  TWO THERE.\n\tTHREE.\n"


def test_a_newline_is_a_space_where_the_format_says_so():
    model = FunctionModel(echo)
    unit = Unit("key", ("One\n   line here.",), 1, collapses_space=True)
    (result,) = DocumentTranslator(model, WITH_TOKENS).translate([unit])
    assert model.texts == ["One line here."]
    assert text_of(result) == "One line here."


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("SAVE FILE", "Datei speichern", "DATEI SPEICHERN"),
        ("HTML", "HTML", "HTML"),
        ("Open", "öffnen", "Öffnen"),
        ("Heading", "Überschrift.", "Überschrift"),
        ("Name:", "Name", "Name:"),
        ("Loading…", "Lade", "Lade…"),
        ("A sentence.", "Ein Satz.", "Ein Satz."),
        ("open", "öffnen", "öffnen"),
        ("Heading", "見出し。", "見出し"),
        ("Loading…", "読み込み中。", "読み込み中…"),
        ("Open", "გახსნა", "გახსნა"),
        ("HTMLファイル", "The HTML file", "The HTML file"),
    ],
)
def test_short_texts_keep_their_form(source, output, expected):
    assert text_of(translate(source, lambda _: output)) == expected


def test_capital_letters_are_those_of_the_language():
    options = Options("en", "tr-TR")
    assert text_of(translate("Download", lambda _: "indir", options)) == "İndir"
    assert text_of(translate("DOWNLOAD", lambda _: "indir ısı", options)) == "İNDİR ISI"
    assert form.keep_form("Download", "indir", "tr_TR", is_alone=True) == "İndir"


def test_a_sentence_with_names_is_no_title():
    options = Options("de", "en")
    result = translate("Frau Müller ist da.", lambda _: "Mrs Müller is here.", options)
    assert text_of(result) == "Mrs Müller is here."
    assert text_of(translate("Neue Datei", lambda _: "new file", options)) == "New File"


def test_a_mark_that_the_model_writes_does_no_harm():
    units = [Unit("1", ("Open %s",), 1), Unit("2", ("Close",), 2)]
    model = FunctionModel(lambda text: "\ufffc" + text.lower())
    results = list(DocumentTranslator(model, WITH_TOKENS).translate(units))
    assert [text_of(result) for result in results] == ["\ufffcopen %s", "\ufffcclose"]


@pytest.mark.parametrize("source", ["Delete the file %s?", "Delete"])
def test_a_translation_without_words_is_refused(source):
    token = SPAN_TOKENS[0]
    result = translate(source, lambda text: token if token in text else ".")
    assert (text_of(result), result.flags) == (source, (COPIED,))


def test_a_pair_around_two_sentences_is_not_shown_to_the_model():
    for options in (WITH_TOKENS, WITHOUT_TOKENS):
        result = translate((B, "One is here. Two is there.", B_END), str.upper, options)
        assert text_of(result) == "<b>ONE IS HERE. TWO IS THERE.</b>"
        assert (result.flags, result.methods) == ((), ("plain", "plain"))


def test_tabs_and_no_break_spaces_stay():
    assert text_of(translate("Open\tCtrl+O", lambda text: " ".join(text.split()))) == "Open\tCtrl+O"
    result = translate("10\u00a0MB \n free", echo, collapses_space=True)
    assert text_of(result) == "10\u00a0MB free"


def test_sentences_are_separated_where_only_the_target_language_has_spaces():
    words = {"你好。": "Hello.", "再见。": "Bye."}
    source = ("你好。", B, "再见。", B_END, "你好。\n再见。")
    result = translate(source, words.__getitem__, Options("zh", "en"))
    assert text_of(result) == "Hello. <b>Bye.</b> Hello.\nBye."


def test_the_words_of_a_message_are_flagged_because_nobody_translates_them():
    message = "{n, plural, one {# file} other {# files}}"
    assert translate(message, echo).flags == ("message_copied",)
    assert translate(f"Found {message} here", echo).flags == ("message_copied",)
    assert translate("Found {n, number} and {{x.y}} here", echo).flags == ()


def test_the_flags_of_a_method_that_failed_do_not_count():
    class Repeating(FunctionModel):
        def translate_segments(self, texts, *, with_alignment, num_hypotheses):
            answers = super().translate_segments(
                texts, with_alignment=with_alignment, num_hypotheses=num_hypotheses
            )
            flags = () if with_alignment else ("repetition",)
            return [replace(answer, flags=flags) for answer in answers]

    unit = Unit("key", ("A ", B, "red", B_END, " house"), 1)
    model = Repeating(lambda text: text.replace(SPAN_TOKENS[0], ""))
    (result,) = DocumentTranslator(model, WITH_TOKENS).translate([unit])
    assert (result.methods, result.flags) == (("aligned",), ())


def test_text_without_words_is_copied_and_not_sent_to_the_model():
    model = FunctionModel(str.upper)
    units = [Unit(str(number), (text,), 1) for number, text in enumerate(["%s: %d", "1,000", "—"])]
    results = list(DocumentTranslator(model, WITH_TOKENS).translate(units))
    assert model.texts == []
    assert [result.origin for result in results] == ["nothing"] * 3


def test_existing_and_locked_translations_are_left_alone():
    units = [
        Unit("1", ("One",), 1, ("Eins",), "translated"),
        Unit("2", ("Two",), 2, ("Zwei?",), "needs_review"),
        Unit("3", ("Three",), 3, None, "locked"),
        Unit("4", ("Four",), 4),
    ]
    engine = DocumentTranslator(FunctionModel(str.upper), WITH_TOKENS)
    results = list(engine.translate(units))
    assert [result.origin for result in results] == ["existing"] * 3 + ["machine"]
    again = DocumentTranslator(FunctionModel(str.upper), Options(overwrite=True))
    origins = [result.origin for result in again.translate(units)]
    assert origins == ["machine", "machine", "existing", "machine"]


def test_terms_are_written_as_the_glossary_says():
    glossary = Glossary({"folder": "Ordner", "home folder": "Persönlicher Ordner"})
    result = translate("Open the home folder.", str.upper, glossary=glossary)
    assert text_of(result) == "OPEN THE Persönlicher Ordner."
    assert (result.terms, result.terms_used) == (1, 1)
    model = FunctionModel(lambda text: text)
    options = Options("en", "de", has_span_tokens=True, has_term_tokens=True)
    engine = DocumentTranslator(model, options, glossary)
    list(engine.translate([Unit("1", ("The folder %s",), 1)]))
    assert model.texts[0] == f"The \ue010folder\ue011Ordner\ue012 {SPAN_TOKENS[0]}"


def test_a_term_has_the_form_of_its_place():
    glossary = Glossary({"folder": "dossier"})
    for source, expected in [
        ("Folder not found", "Dossier not found"),
        ("OPEN FOLDER", "OPEN DOSSIER"),
        ("the folder", "the dossier"),
    ]:
        assert text_of(translate(source, echo, glossary=glossary)) == expected


def test_a_term_that_the_model_does_not_use_is_restored_or_flagged():
    glossary = Glossary({"folder": "dossier"})

    def ignore_terms(text: str) -> str:
        return text.replace("dossier", "truc")

    result = translate("Open the folder", ignore_terms, WITHOUT_TOKENS, glossary=glossary)
    assert (text_of(result), result.flags) == ("Open the dossier", ("spans_aligned",))
    options = Options("en", "fr", has_span_tokens=True, has_term_tokens=True)
    result = translate("Open the folder", lambda _: "Ouvrir le truc", options, glossary=glossary)
    assert (text_of(result), result.flags) == ("Ouvrir le truc", ("term_missing",))
    # What is inside of a protected span is no term.
    result = translate("See docs/folder.txt now", echo, glossary=glossary)
    assert (result.terms, result.flags) == (0, ())


def test_the_memory_comes_first_with_its_score_and_origin():
    memory = TranslationMemory(threshold=0.85)
    memory.add(
        ("Open the file ", B, "%s", B_END, "."), ("Datei ", B, "%s", B_END, " öffnen."), "a.tmx:7"
    )
    other = Code("<i>", "open", 1), Code("</i>", "close", 1)
    exact = ("Open the file ", other[0], "%s", other[1], ".")
    result = translate(exact, str.upper, memory=memory)
    assert text_of(result) == "Datei <i>%s</i> öffnen."
    assert (result.origin, result.score, result.memory) == ("memory", 1.0, "a.tmx:7")
    near = ("Open the files ", other[0], "%s", other[1], ".")
    result = translate(near, str.upper, memory=memory)
    assert (result.origin, text_of(result)) == ("fuzzy", "Datei <i>%s</i> öffnen.")
    assert 0.85 <= result.score < 1
    assert result.flags == ("fuzzy_match",)
    # A match with other placeholders would break the string.
    result = translate(("Open the file ", other[0], "%d", other[1], "."), str.upper, memory=memory)
    assert result.origin == "machine"


class Ranked(FunctionModel):
    """Gives further translations that differ in their last word."""

    def translate_segments(self, texts, *, with_alignment, num_hypotheses):
        return [
            translation(text, text, [f"{text} {rank}" for rank in range(1, num_hypotheses)])
            for text in texts
        ]


def test_alternatives_are_joined_and_verified():
    unit = Unit("1", ("Open it. Save %s now.",), 1)
    engine = DocumentTranslator(Ranked(str), Options("en", "de", num_alternatives=2))
    (result,) = engine.translate([unit])
    assert plain_text(result.target.content) == "Open it. Save %s now."
    # The segment with a span was copied by the model, which gave no alternatives for it.
    assert [plain_text(content) for content in result.alternatives] == [
        "Open it. 1 Save %s now.",
        "Open it. 2 Save %s now.",
    ]
    assert result.translation is None
    (alone,) = engine.translate([Unit("2", ("Open it.",), 1)])
    assert alone.translation is not None
    assert len(alone.alternatives) == 2


def test_long_sentences_are_split_when_the_caller_says_so():
    text = "word " * 100 + "end."
    model = FunctionModel(str.upper)
    options = Options("en", "de", max_segment_characters=80)
    (result,) = DocumentTranslator(model, options).translate([Unit("1", (text,), 1)])
    assert max(map(len, model.texts)) <= 80
    assert plain_text(result.target.content).upper() == text.upper()
    whole = FunctionModel(str)
    no_split = Options("en", "de", splits_sentences=False)
    list(DocumentTranslator(whole, no_split).translate([Unit("1", ("One. Two.",), 1)]))
    assert whole.texts == ["One. Two."]


@pytest.mark.parametrize(
    "text", [" " * 100_000 + "x", "x" + " \n" * 50_000 + "y", "\u2028" * 90_000]
)
def test_long_white_space_is_split_in_linear_time(text):
    started = time.process_time()
    segments = split_segments((text,), "en", collapses_space=False)
    parts = [part for one in segments for part in (*one.leading, *one.body, *one.trailing)]
    assert "".join(map(str, parts)) == text
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Use ⟦bold⟦ text", "USE ⟦BOLD⟦ TEXT"),
        ("Hello ⟦, you have ⟦ new files.", "HELLO ⟦, YOU HAVE ⟦ NEW FILES."),
        ('from (⟦) to "⟦" now', 'FROM (⟦) TO "⟦" NOW'),
        ("a ⟦-⟦ b", "A ⟦-⟦ B"),
        ("name: ⟦ and more", "NAME: ⟦ AND MORE"),
    ],
)
def test_a_code_stays_beside_what_it_touches(source, expected):
    first, *others = source.split("⟦")
    content = (first, *(part for text in others for part in (BR, text)))
    result = translate(content, str.upper, WITHOUT_TOKENS)
    assert text_of(result) == expected.replace("⟦", "<br/>")


_ENDINGS = re.compile(r"(?:\.{3}|…|[.!?:;。！？：।۔])?\s*$")


@given(st.text("a. …:!\n。", max_size=6))
def test_the_ending_of_a_text_is_what_the_pattern_finds(text):
    match = _ENDINGS.search(text)
    ending = form._ending(text)
    assert match is not None
    assert (ending, len(text.rstrip()) - len(ending)) == (match[0].strip(), match.start())


@given(st.text("a \xa0\t\n\r\u2028\u3000", max_size=10))
def test_breaks_are_found_in_linear_time_as_the_simple_pattern_finds_them(text):
    simple = re.compile(r"(\s*[\t\n\v\f\r\x85\u2028\u2029]\s*)")
    assert segments._BREAKS.split(text) == simple.split(text)


@pytest.mark.parametrize("piece", [" ", "\n", "\t ", "<b>", "</b>", "<b>x</b> ", "a ", "%s ", "x."])
def test_hostile_texts_take_linear_time(piece):
    text = "A " + piece * (10_000 // len(piece)) + " b"
    started = time.process_time()
    translate(text, echo, WITHOUT_TOKENS)
    assert time.process_time() - started < 3


def test_a_thousand_nested_tags_take_linear_time():
    tags = [Code("<b>", "open", 1 + number) for number in range(1000)]
    ends = [Code("</b>", "close", tag.pair) for tag in reversed(tags)]
    started = time.process_time()
    for content in ((*tags, "word", *ends), ("a ", *tags, "word", *ends, " b")):
        translate(content, echo, WITHOUT_TOKENS)
    assert time.process_time() - started < 3


def test_a_plain_sentence_costs_little_besides_the_model():
    """About 50 µs on an idle machine; here, other tests may run in parallel."""
    units = [
        Unit(str(number), (f"The file number {number} was saved, and the disk is full.",), 1)
        for number in range(500)
    ]

    class Echo:
        def translate_segments(self, texts, *, with_alignment, num_hypotheses):
            return [Translation(text, 0.0) for text in texts]

    translator = DocumentTranslator(Echo(), WITHOUT_TOKENS)
    taken = []
    for _ in range(3):
        started = time.process_time()
        assert len(list(translator.translate(units))) == len(units)
        taken.append((time.process_time() - started) / len(units))
    assert min(taken) < 300e-6


def test_codes_that_would_be_read_as_one_are_not_joined():
    source = ("use ", Code("`a`"), " or ", Code("`b`"), " now")
    target = ("nimm ", Code("`a`"), Code("`b`"), " oder")
    assert check(source, target) == "joined code"
    assert check(target, target) == ""


def test_a_line_break_from_the_model_becomes_a_space_and_does_not_join_words():
    model = FunctionModel(lambda _: "eins\u2028zwei\vdrei\tv\x00ier\n")
    (result,) = DocumentTranslator(model, Options("en", "de")).translate([Unit("1", ("One",), 1)])
    assert result.target.content == ("Eins zwei drei vier",)
