"""The demo corpus is correct German, correctly aligned, and its splits share nothing."""

import hashlib
import os
import random
import re
import subprocess
import sys
import unicodedata
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.corpus import demo
from dragoman.errors import DataError

NUMBERS = st.one_of(st.integers(0, 99), st.integers(0, 9_999), st.integers(0, 999_999))


@pytest.fixture(scope="module")
def corpora():
    """Items by split and seed: ten thousand of every split, and some of other seeds."""
    counts = {
        ("train", 1): 10_000,
        ("train", 2): 10_000,
        ("train", 3): 10_000,
        ("validation", 1): 10_000,
        ("validation", 2): 500,
        ("validation", 4): 500,
        ("test", 5): 10_000,
        ("test", 1): 500,
        ("test", 2): 500,
    }
    return {
        (split, seed): list(demo.items(seed, count, split))
        for (split, seed), count in counts.items()
    }


@pytest.fixture(scope="module")
def sample():
    """Some pairs of every rule, however small its probability."""
    rng = random.Random(7)
    return [
        phrases.at(rng.randrange(phrases.size)).item()
        for rules in demo.GRAMMAR.values()
        for phrases in rules
        for _ in range(200)
    ]


# Correct texts

GOLDEN = """
zero = null
one = eins
two = zwei
six = sechs
seven = sieben
ten = zehn
eleven = elf
twelve = zwölf
sixteen = sechzehn
seventeen = siebzehn
twenty = zwanzig
twenty-one = einundzwanzig
twenty-three = dreiundzwanzig
thirty = dreißig
thirty-six = sechsunddreißig
sixty = sechzig
seventy-seven = siebenundsiebzig
eighty-eight = achtundachtzig
ninety-nine = neunundneunzig
one hundred = einhundert
one hundred and one = einhunderteins
one hundred and five = einhundertfünf
one hundred and sixteen = einhundertsechzehn
two hundred and thirty-one = zweihunderteinunddreißig
one thousand = eintausend
one thousand and one = eintausendeins
one thousand nine hundred and eighty-seven = eintausendneunhundertsiebenundachtzig
seven thousand and seventy = siebentausendsiebzig

eleven hundred = elfhundert
fourteen ninety-two = vierzehnhundertzweiundneunzig
sixteen sixty-six = sechzehnhundertsechsundsechzig
nineteen oh one = neunzehnhunderteins
nineteen oh five = neunzehnhundertfünf
nineteen eighty-seven = neunzehnhundertsiebenundachtzig
in nineteen hundred = im Jahr neunzehnhundert
in seventeen seventeen = im Jahr siebzehnhundertsiebzehn
in two thousand = im Jahr zweitausend
in two thousand and one = im Jahr zweitausendeins
in two thousand and twenty-three = im Jahr zweitausenddreiundzwanzig
in 1987 = im Jahr 1987
in May 1987 = im Mai 1987
in March 2024 = im März 2024

May = Mai
Wednesday = Mittwoch
in May = im Mai
on Saturday = am Samstag
the first of January = der erste Januar
the second of February = der zweite Februar
the third of May = der dritte Mai
the seventh of July = der siebte Juli
the eighth of August = der achte August
the twelfth of June = der zwölfte Juni
the sixteenth of October = der sechzehnte Oktober
the nineteenth of March = der neunzehnte März
the twentieth of April = der zwanzigste April
the twenty-first of May = der einundzwanzigste Mai
the thirtieth of June = der dreißigste Juni
the thirty-first of December = der einunddreißigste Dezember
the twenty-ninth of February = der neunundzwanzigste Februar
on the third of May = am dritten Mai
on the first of May = am ersten Mai
on the seventeenth of May = am siebzehnten Mai
on Monday, the third of May = am Montag, dem dritten Mai

one o'clock = ein Uhr
two o'clock = zwei Uhr
twelve o'clock = zwölf Uhr
half past twelve = halb eins
half past one = halb zwei
half past two = halb drei
half past eleven = halb zwölf
a quarter past one = Viertel nach eins
a quarter to one = Viertel vor eins
a quarter to five = Viertel vor fünf
twenty to six = zwanzig vor sechs
five past one = fünf nach eins
ten past seven = zehn nach sieben
twenty-five past two = fünf vor halb drei
twenty-five to three = fünf nach halb drei
twenty-five past twelve = fünf vor halb eins
one minute past two = eine Minute nach zwei
one minute to one = eine Minute vor eins
twenty-one minutes to six = einundzwanzig Minuten vor sechs
at one o'clock = um ein Uhr
at half past two in the afternoon = um halb drei nachmittags
one o'clock in the morning = ein Uhr morgens
a quarter to seven in the evening = Viertel vor sieben abends
half past twelve at night = halb eins nachts
on Monday at ten to one = am Montag um zehn vor eins

one cent = ein Cent
fifty cents = fünfzig Cent
one euro = ein Euro
four euros = vier Euro
twenty-one euros = einundzwanzig Euro
one euro and one cent = ein Euro eins
four euros and fifty cents = vier Euro fünfzig
ninety-nine euros and seventeen cents = neunundneunzig Euro siebzehn
one book = ein Buch
one chair = ein Stuhl
one newspaper = eine Zeitung
twenty-one lamps = einundzwanzig Lampen
one hundred tables = einhundert Tische

It is one o'clock. = Es ist ein Uhr.
It is half past twelve. = Es ist halb eins.
I get up at a quarter to six in the morning. = Ich stehe um Viertel vor sechs morgens auf.
We get up at twenty to seven. = Wir stehen um zwanzig vor sieben auf.
We have to go at one o'clock. = Wir müssen um ein Uhr gehen.
The train leaves at half past two. = Der Zug fährt um halb drei ab.
The tram leaves at one o'clock. = Die Straßenbahn fährt um ein Uhr ab.
The ship arrives at ten past one. = Das Schiff kommt um zehn nach eins an.
The meeting starts at twenty-five to ten. = Die Besprechung fängt um fünf nach halb zehn an.
The bank opens at ten past four in the morning. = Die Bank macht um zehn nach vier morgens auf.
The shop closes at six o'clock. = Der Laden macht um sechs Uhr zu.
She calls me at half past three. = Sie ruft mich um halb vier an.
I think that the ferry arrives at two o'clock. = Ich glaube, dass die Fähre um zwei Uhr ankommt.
Today is the seventh of July. = Heute ist der siebte Juli.
Today is her first birthday. = Heute ist ihr erster Geburtstag.
Today is her thirtieth birthday. = Heute ist ihr dreißigster Geburtstag.
Today is her eighty-first birthday. = Heute ist ihr einundachtzigster Geburtstag.
Peter lives on the third floor. = Peter wohnt im dritten Stock.
She moved to Vienna in nineteen oh nine. = Sie ist im Jahr neunzehnhundertneun nach Wien gezogen.
The castle was built in twelve oh one. = Das Schloss wurde im Jahr zwölfhunderteins gebaut.
We are going to Munich in May. = Wir fahren im Mai nach München.
We are going to Cologne on the first of May. = Wir fahren am ersten Mai nach Köln.
We have postponed the film to the third of May. = Wir haben den Film auf den dritten Mai verschoben.
The party begins on Friday, the tenth of June. = Die Feier beginnt am Freitag, dem zehnten Juni.
Can you lend me twenty-one euros? = Kannst du mir einundzwanzig Euro leihen?
Can you lend me one cent? = Kannst du mir einen Cent leihen?
We have sold one chair. = Wir haben einen Stuhl verkauft.
We have sold one lamp. = Wir haben eine Lampe verkauft.
We have sold twenty-three books. = Wir haben dreiundzwanzig Bücher verkauft.
About one thousand people live here. = Ungefähr eintausend Menschen wohnen hier.
"""
GOLDEN_PAIRS = [tuple(line.split(" = ")) for line in GOLDEN.splitlines() if line]


def day(year, month, number):
    """Return the index of a date in the calendar of the grammar, with the year in words."""
    return (date(year, month, number) - date(1760, 1, 1)).days


IN_DIGITS = day(2026, 1, 1)
# Sets that are too large to search: kind, rule, and the index computed from the meaning.
LARGE_GOLDEN_PAIRS = [
    ("numbers", 3, 11_000, "twenty-one thousand", "einundzwanzigtausend"),
    (
        "numbers",
        3,
        91_101,
        "one hundred and one thousand one hundred and one",
        "einhunderteintausendeinhunderteins",
    ),
    (
        "numbers",
        3,
        989_999,
        "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
    ("dates", 6, IN_DIGITS + day(1987, 5, 3), "the third of May, 1987", "der dritte Mai 1987"),
    (
        "dates",
        6,
        day(1987, 5, 3),
        "the third of May, nineteen eighty-seven",
        "der dritte Mai neunzehnhundertsiebenundachtzig",
    ),
    (
        "dates",
        7,
        day(2000, 2, 29),
        "Tuesday, the twenty-ninth of February, two thousand",
        "Dienstag, der neunundzwanzigste Februar zweitausend",
    ),
    (
        "sentences about times",
        11,
        # The 124th day of a leap year, the second vehicle, the 31st five minutes.
        123 + 366 * (1 + 5 * 30),
        "On the third of May the bus leaves at half past two.",
        "Am dritten Mai fährt der Bus um halb drei ab.",
    ),
    (
        "sentences about dates",
        0,
        IN_DIGITS + day(1987, 5, 3),
        "Today is Sunday, the third of May, 1987.",
        "Heute ist Sonntag, der dritte Mai 1987.",
    ),
    (
        "sentences about dates",
        4,
        1 + 6 * (IN_DIGITS + day(1999, 3, 8)),
        "He was born on the eighth of March, 1999.",
        "Er wurde am achten März 1999 geboren.",
    ),
    (
        "sentences about prices",
        0,
        0 + 6 * (450 - 1),
        "The book costs four euros and fifty cents.",
        "Das Buch kostet vier Euro fünfzig.",
    ),
    (
        "sentences about prices",
        0,
        5 + 6 * (100 - 1),
        "The picture costs one euro.",
        "Das Bild kostet einen Euro.",
    ),
    (
        "sentences about prices",
        1,
        (110 - 1) + 9_999 * 3,
        "I paid one euro and ten cents for the table.",
        "Ich habe für den Tisch einen Euro zehn bezahlt.",
    ),
]


@pytest.fixture(scope="module")
def small_pairs():
    """Every pair of every rule with fewer than 15,000 pairs."""
    rules = [phrases for rules in demo.GRAMMAR.values() for phrases in rules]
    return [
        (pair.english, pair.german)
        for phrases in rules
        if phrases.size < 15_000
        for pair in map(phrases.at, range(phrases.size))
    ]


def test_golden_pairs_are_generated(small_pairs):
    known = dict(small_pairs)
    assert {english: known.get(english) for english, _ in GOLDEN_PAIRS} == dict(GOLDEN_PAIRS)


@pytest.mark.parametrize(("kind", "number", "index", "english", "german"), LARGE_GOLDEN_PAIRS)
def test_golden_pairs_of_large_sets_are_generated(kind, number, index, english, german):
    pair = demo.GRAMMAR[kind][number].at(index)
    assert (pair.english, pair.german) == (english, german)


SMALL = [*range(20), *range(20, 100, 10)]
ENGLISH_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
GERMAN_WORDS = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig "
    "neunzig"
)
ENGLISH_VALUES = dict(zip(ENGLISH_WORDS.split(), SMALL, strict=True))
GERMAN_VALUES = dict(zip(GERMAN_WORDS.split(), SMALL, strict=True))


def english_value(text):
    """Parse words from left to right: a scale multiplies the group before it."""
    total = group = 0
    for word in text.replace("-", " ").split():
        if word == "thousand":
            total, group = total + 1000 * group, 0
        elif word == "hundred":
            group *= 100
        elif word != "and":
            group += ENGLISH_VALUES[word]
    return total + group


def german_value(text):
    """Split the word at its largest scale."""
    for scale, word in ((1000, "tausend"), (100, "hundert")):
        before, separator, after = text.partition(word)
        if separator:
            return scale * german_value(before) + (german_value(after) if after else 0)
    if text == "eins":
        return 1
    if text in GERMAN_VALUES:
        return GERMAN_VALUES[text]
    ones, _, tens = text.partition("und")
    assert GERMAN_VALUES[ones] < 10 <= GERMAN_VALUES[tens]
    return GERMAN_VALUES[ones] + GERMAN_VALUES[tens]


@given(NUMBERS)
@example(0)
@example(1)
@example(101_001)
@example(999_999)
def test_numbers_can_be_parsed_back(number):
    pair = demo.cardinal(number)
    assert english_value(pair.english) == german_value(pair.german) == number


def test_years_can_be_parsed_back():
    for year in range(1100, 2100):
        assert german_value(demo.year(year).german) == year


def english_minutes(text):
    """Parse a time into minutes after twelve."""
    if text.endswith(" o'clock"):
        return english_value(text.removesuffix(" o'clock")) % 12 * 60
    span, direction, hour = re.fullmatch(r"(.+) (past|to) (.+)", text).groups()
    names = {"half": 30, "a quarter": 15}
    minutes = names.get(span) or english_value(re.sub(" minutes?$", "", span))
    return (english_value(hour) % 12 * 60 + minutes * (1 if direction == "past" else -1)) % 720


def german_minutes(text):
    """Parse a time from the left."""
    if text.endswith(" Uhr"):
        return german_value(text.removesuffix(" Uhr")) % 12 * 60
    if text.startswith("halb "):
        return (german_value(text.removeprefix("halb ")) % 12 * 60 - 30) % 720
    span, direction, rest = re.fullmatch(r"(.+?) (nach|vor) (.+)", text).groups()
    names = {"Viertel": 15, "eine Minute": 1}
    minutes = names.get(span) or german_value(span.removesuffix(" Minuten"))
    start = german_minutes(rest if rest.startswith("halb ") else f"{rest} Uhr")
    return (start + minutes * (1 if direction == "nach" else -1)) % 720


def test_all_times_can_be_parsed_back():
    for minutes in range(720):
        pair = demo.clock(minutes)
        assert english_minutes(pair.english) == german_minutes(pair.german) == minutes


@pytest.mark.parametrize("language", ["en", "de"])
def test_numbers_agree_with_num2words(language):
    num2words = pytest.importorskip("num2words").num2words
    side = {"en": "english", "de": "german"}[language]

    def reference(number, form):
        # num2words writes commas, `oh-five`, and `einhunderteinstausend` with a wrong s.
        text = num2words(number, lang=language, to=form)
        return text.replace(",", "").replace("oh-", "oh ").replace("einstausend", "eintausend")

    rng = random.Random(3)
    numbers = [*range(1000), *(rng.randrange(1_000_000) for _ in range(1000)), 101_000, 999_999]
    assert [getattr(demo.cardinal(n), side) for n in numbers] == [
        reference(n, "cardinal") for n in numbers
    ]
    assert [getattr(demo.ordinal(n, "e"), side) for n in range(1, 100)] == [
        reference(n, "ordinal") for n in range(1, 100)
    ]
    years = range(1100, 2010)  # for later years, num2words gives `twenty ten`
    assert [getattr(demo.year(n), side) for n in years] == [reference(n, "year") for n in years]


# Correct alignment


def linked(item):
    return {(item.source_units[i], item.target_units[j]) for i, j in item.alignment}


def test_tens_and_ones_cross():
    item = demo.cardinal(23).item()
    assert item.source_units == ("twenty", "-", "three")
    assert item.target_units == ("drei", "und", "zwanzig")
    assert item.alignment == ((0, 2), (1, 1), (2, 0))


def test_an_ordinal_is_linked_with_two_units():
    item = demo.ordinal(23, "e").item()
    assert item.target_units == ("drei", "und", "zwanzig", "ste")
    assert item.alignment == ((0, 2), (1, 1), (2, 0), (2, 3))


def test_a_verb_is_linked_with_its_particle():
    leaves = demo.GRAMMAR["sentences about times"][4]
    item = leaves.at(5 * 30).item()
    assert item.source == "The train leaves at half past two."
    assert item.source_units == ("The", "train", "leaves", "at", "half", "past", "two", ".")
    assert item.target_units == ("Der", "Zug", "fährt", "um", "halb", "drei", "ab", ".")
    assert item.alignment == (
        (0, 0), (1, 1), (2, 2), (2, 6), (3, 3), (4, 4), (5, 4), (6, 5), (7, 7)
    )  # fmt: skip


def test_a_fronted_date_inverts_the_sentence():
    fronted = demo.GRAMMAR["sentences about times"][11]
    links = linked(fronted.at(123 + 366 * (1 + 5 * 30)).item())
    assert links == {
        ("On", "Am"), ("the", "Am"), ("third", "dritten"), ("May", "Mai"), ("the", "der"),
        ("bus", "Bus"), ("leaves", "fährt"), ("leaves", "ab"), ("at", "um"), ("half", "halb"),
        ("past", "halb"), ("two", "drei"), (".", "."),
    }  # fmt: skip


@pytest.mark.slow
def test_every_unit_except_function_words_is_linked(sample):
    for item in sample:
        assert item.alignment == tuple(sorted(set(item.alignment)))
        sources, targets = ({*positions} for positions in zip(*item.alignment, strict=True))
        for units, positions in ((item.source_units, sources), (item.target_units, targets)):
            assert positions <= {*range(len(units))}
            unlinked = {unit for index, unit in enumerate(units) if index not in positions}
            assert unlinked <= demo.FUNCTION_WORDS, item


def test_units_are_the_text_without_spaces(sample):
    for item in sample:
        assert "".join(item.source_units) == item.source.replace(" ", "")
        assert "".join(item.target_units) == item.target.replace(" ", "")


def test_linked_numbers_are_equal(sample):
    """Except the hour: `half past two` names the current hour, `halb drei` the next one."""
    for item in sample:
        for english, german in linked(item) if "halb" not in item.target_units else ():
            if english in ENGLISH_VALUES and german in GERMAN_VALUES:
                assert ENGLISH_VALUES[english] == GERMAN_VALUES[german], item


# The splits


@pytest.mark.slow
def test_splits_share_nothing(corpora):
    for side in ("source", "target"):
        texts = {
            split: {
                getattr(item, side).casefold()
                for (item_split, _), items in corpora.items()
                if item_split == split
                for item in items
            }
            for split in ("train", "validation", "test")
        }
        assert not texts["train"] & texts["validation"]
        assert not texts["train"] & texts["test"]
        assert not texts["validation"] & texts["test"]


@pytest.mark.slow
def test_there_are_no_duplicates(corpora):
    for items in corpora.values():
        assert len({item.source for item in items}) == len(items)
        assert len({item.target for item in items}) == len(items)


@pytest.mark.slow
def test_no_text_has_two_translations(small_pairs, corpora):
    pairs = {*small_pairs, *((i.source, i.target) for items in corpora.values() for i in items)}
    assert (
        len({source for source, _ in pairs}) == len({target for _, target in pairs}) == len(pairs)
    )
    assert len({*small_pairs}) == len(small_pairs), "two rules generate the same pair"


@pytest.mark.slow
def test_different_seeds_give_different_items(corpora):
    first, second = corpora["train", 1], corpora["train", 2]
    assert first != second
    assert next(demo.items(-1, 1, "test")) != next(demo.items(1, 1, "test"))


@pytest.mark.slow
def test_kinds_are_mixed(corpora):
    """Short and long texts, sentences and phrases are mixed from the beginning."""
    for items, short in ((corpora["train", 1][:1000], 0.3), (corpora["train", 1], 0.2)):
        lengths = [len(item.source.split()) for item in items]
        assert short < sum(length <= 3 for length in lengths) / len(items) < 0.6
        assert 0.25 < sum(item.source.endswith((".", "?")) for item in items) / len(items) < 0.6
        assert max(lengths) < 20


@pytest.mark.slow
def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(corpora):
    assert list(demo.items(1, 50, "train")) == corpora["train", 1][:50]


@pytest.mark.slow
def test_reverse_swaps_source_and_target(corpora):
    swapped = list(demo.items(2, 300, "train", reverse=True))
    for item, reverse in zip(corpora["train", 2][:300], swapped, strict=True):
        assert (reverse.source, reverse.target) == (item.target, item.source)
        assert reverse.source_units == item.target_units
        assert reverse.target_units == item.source_units
        assert reverse.alignment == tuple(sorted((j, i) for i, j in item.alignment))


@pytest.mark.slow
def test_texts_are_clean(corpora, sample):
    for items in (*corpora.values(), sample):
        for item in items:
            for text in (item.source, item.target):
                assert re.fullmatch(r"\S+( \S+)*", text)
                assert unicodedata.is_normalized("NFC", text)
                assert not set(text) & set("<>·{}⁰¹²³⁴⁵⁶⁷⁸⁹\n"), (
                    "symbols of the grammar must not appear"
                )


def test_the_docstring_states_the_number_of_pairs():
    sizes = demo.sizes()
    assert sizes.keys() == demo.GRAMMAR.keys()
    assert f"\n{sum(sizes.values()):,} pairs" in demo.__doc__


def test_there_are_more_than_200_000_items_for_training():
    """A full count gave 2,924,615 different pairs in train, of 3,656,358.

    This test counts a sample of the numbers, which are all different.
    """
    numbers = demo.GRAMMAR["numbers"][-1]
    train = sum(demo.split_of(numbers.at(99 * index)) == "train" for index in range(10_000))
    assert numbers.size == 990_000
    assert 0.78 < train / 10_000 < 0.82


def test_requesting_too_many_items_is_refused(monkeypatch):
    monkeypatch.setattr(demo, "GRAMMAR", {"numbers": demo.GRAMMAR["numbers"][:1]})
    with pytest.raises(DataError, match=r"has \d+ different test items, not 50: request fewer"):
        list(demo.items(1, 50, "test"))
    everything = [
        item.source
        for split, count in (("train", 70), ("validation", 6), ("test", 6))
        for item in demo.items(1, count, split)
    ]
    assert len({*everything}) == len(everything)


def test_an_unknown_split_is_refused():
    with pytest.raises(DataError, match="did you mean 'train'"):
        demo.items(1, 1, "training")
    with pytest.raises(DataError, match="-1"):
        demo.items(1, -1, "train")


# Reproducibility

FINGERPRINT = "85e75b3f0dbc33ee"


def fingerprint(items):
    return hashlib.sha256("\n".join(map(repr, items)).encode()).hexdigest()[:16]


@pytest.mark.slow
def test_the_corpus_has_not_changed(corpora):
    """Scores on this corpus are compared over time: a change needs a line in CHANGELOG.md."""
    assert fingerprint(corpora["train", 1]) == FINGERPRINT


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_every_process_generates_the_same_items(corpora, hash_seed):
    code = (
        "import sys; from dragoman.corpus import demo\n"
        "for item in demo.items(1, 500, 'train'): sys.stdout.buffer.write(f'{item}\\n'.encode())"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "LC_ALL": "C"},
    )
    assert process.stdout.decode().splitlines() == [str(item) for item in corpora["train", 1][:500]]


def test_files_are_line_aligned_and_reproducible(tmp_path):
    counts = {"train": 200, "validation": 20, "test": 10}
    for folder in (tmp_path / "one", tmp_path / "deep" / "two"):
        demo.write(folder, 7, counts)
    names = {f"{split}.{language}" for split in counts for language in ("en", "de")}
    for folder in (tmp_path / "one", tmp_path / "deep" / "two"):
        assert {file.name for file in folder.iterdir()} == names
    for name in names:
        written = (tmp_path / "one" / name).read_bytes()
        assert written == (tmp_path / "deep" / "two" / name).read_bytes()
        assert b"\r" not in written
    for split, count in counts.items():
        lines = [
            (tmp_path / "one" / f"{split}.{language}").read_text(encoding="utf-8").split("\n")
            for language in ("en", "de")
        ]
        expected = [(item.source, item.target) for item in demo.items(7, count, split)]
        assert list(zip(*lines, strict=True)) == [*expected, ("", "")]


def test_all_files_are_replaced_or_none(tmp_path):
    demo.write(tmp_path, 1, {"train": 5})
    before = (tmp_path / "train.en").read_bytes()
    with pytest.raises(DataError):
        demo.write(tmp_path, 2, {"train": 5, "training": 5})
    assert {file.name for file in tmp_path.iterdir()} == {"train.en", "train.de"}
    assert (tmp_path / "train.en").read_bytes() == before
    demo.write(tmp_path, 2, {"train": 5})
    assert (tmp_path / "train.en").read_bytes() != before
