"""The demo corpus: a small translation task that is part of the package.

The texts are numbers, years, dates, clock times, prices, and short sentences around them, in
English and German.

3,656,358 pairs exist (`sizes` counts them by kind), every one with its word alignment. The task is
small but real: tens and ones change their order, particles and participles move to the end of the
sentence, `half past two` is `halb drei`, and `one` is ein, eins, eine or einen.

    twenty  -  three        The train leaves at half past two.
         ╲  │  ╱            Der Zug   fährt  um halb      drei  ab.
    drei  und  zwanzig                └───── leaves ────────────┘

The grammar is synchronous: one rule generates both sides at once. In a rule, units with the same
raised number are linked, `<name>` is a slot for another pair, and `·` joins a unit to the one
before it without a space:

    <tens> ·-¹ ·<ones>                 <ones> ·und¹ ·<tens>
    leaves¹ at² <time> ·.³             fährt¹ um² <time> ab¹ ·.³

No text has two translations, so a perfect model makes no mistake in either direction.
"""

from __future__ import annotations

import random
import re
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import accumulate, islice, product
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

from dragoman.errors import DataError, suggest

Split = Literal["train", "validation", "test"]
Value = TypeVar("Value")

FUNCTION_WORDS = frozenset(
    ("a", "and", "at", "cent", "cents", "in", "of", "oh", "the", "Jahr", ",")
)
"""Units that may have no link, because the other language leaves them out."""


@dataclass(frozen=True, slots=True)
class Item:
    """A text, its translation, and the alignment of their units.

    Units are words, punctuation, and the morphemes of numbers. Joined, they are the text without
    its spaces. Every unit has a link, except some of the function words.
    """

    source: str
    target: str
    source_units: tuple[str, ...]
    target_units: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]
    """Pairs of positions in the units, source before target, sorted."""

    def reversed(self) -> Item:
        """Return the item for the other direction."""
        return Item(
            source=self.target,
            target=self.source,
            source_units=self.target_units,
            target_units=self.source_units,
            alignment=tuple(sorted((j, i) for i, j in self.alignment)),
        )


def items(seed: int, count: int, split: Split, reverse: bool = False) -> Iterator[Item]:
    """Return `count` different items of a split, from English to German unless `reverse`.

    The splits share no source and no target, whatever the seeds. All kinds of the grammar are
    equally likely, and so are all rules of a kind, until a rule is exhausted.
    """
    if split not in get_args(Split):
        raise DataError(
            f"the demo corpus has no split {split!r}: {suggest(split, get_args(Split))}"
        )
    if count < 0:
        raise DataError(f"found {count} items of the demo corpus, expected 0 or more")
    return _items(seed, count, split, reverse)


def _items(seed: int, count: int, split: Split, reverse: bool) -> Iterator[Item]:
    # The seed is text, because Random treats -1 like 1. Only `random()` is used, because Python
    # does not guarantee the results of other methods for later versions.
    rng = random.Random(str(seed))  # noqa: S311  (nothing secret)
    generated = 0
    kinds = [
        mixed([members(phrases, split, rng) for phrases in rules], rng)
        for rules in GRAMMAR.values()
    ]
    for pair in islice(mixed(kinds, rng), count):
        generated += 1
        yield pair.item().reversed() if reverse else pair.item()
    if generated < count:
        raise DataError(
            f"the demo corpus has {generated} different {split} items, not {count}: request fewer"
        )


def sizes() -> dict[str, int]:
    """Count the pairs of every kind in all splits together: 8 in 10 are for training."""
    return {kind: sum(phrases.size for phrases in rules) for kind, rules in GRAMMAR.items()}


def write(folder: Path, seed: int, counts: Mapping[Split, int]) -> None:
    """Write `train.en`, `train.de` and so on, line by line: all requested splits or none."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".demo-", dir=folder) as unfinished:
        for split, count in counts.items():
            english, german = (Path(unfinished, f"{split}.{language}") for language in ("en", "de"))
            with (
                english.open("w", encoding="utf-8", newline="\n") as sources,
                german.open("w", encoding="utf-8", newline="\n") as targets,
            ):
                for item in items(seed, count, split):
                    sources.write(f"{item.source}\n")
                    targets.write(f"{item.target}\n")
        for file in sorted(Path(unfinished).iterdir()):
            file.replace(folder / file.name)


# Sampling of items


def mixed(streams: list[Iterator[Pair]], rng: random.Random) -> Iterator[Pair]:
    """Yield pairs from streams chosen at random, with equal probability, until all have ended."""
    while streams:
        index = int(rng.random() * len(streams))
        pair = next(streams[index], None)
        if pair is None:
            del streams[index]
        else:
            yield pair


def members(phrases: Phrases, split: Split, rng: random.Random) -> Iterator[Pair]:
    """Yield the pairs of a split once each, in random order.

    The shuffle stores only the positions that it has changed, so a million pairs cost nothing
    until they are requested.
    """
    moved: dict[int, int] = {}
    for last in reversed(range(phrases.size)):
        index = int(rng.random() * (last + 1))
        pair = phrases.at(moved.get(index, index))
        moved[index] = moved.pop(last, last)
        if split_of(pair) == split:
            yield pair


def split_of(pair: Pair) -> Split:
    """Return the split of a pair: one tenth is validation, one tenth is test.

    It depends only on the German text. Equal targets are in one split, and so are equal sources,
    because a source has one target.
    """
    digest = blake2b(pair.german.encode(), digest_size=4).digest()
    bucket = int.from_bytes(digest, "big") % 10
    return "test" if bucket == 0 else "validation" if bucket == 1 else "train"


# The synchronous grammar


class Pair:
    """A rule and the pairs that fill its slots.

    The texts are generated immediately; units and links only for the pairs that are used.
    """

    __slots__ = ("english", "german", "rule", "slots")

    def __init__(self, english: str, german: str, **slots: Pair) -> None:
        self.rule = (english, german)
        self.slots = slots
        english_texts = {name: pair.english for name, pair in slots.items()}
        german_texts = {name: pair.german for name, pair in slots.items()}
        self.english: str = template(english).format_map(english_texts)
        self.german: str = template(german).format_map(german_texts)

    def item(self) -> Item:
        """Link all units with the same number, and shift the links inside the slots."""
        inner = {name: pair.item() for name, pair in self.slots.items()}
        left = fill(self.rule[0], {name: item.source_units for name, item in inner.items()})
        right = fill(self.rule[1], {name: item.target_units for name, item in inner.items()})
        assert left.positions.keys() == right.positions.keys(), f"unlinked: {self.rule}"
        links = [
            (first + i, second + j)
            for name in left.positions
            for first, second in product(left.positions[name], right.positions[name])
            for i, j in (inner[name].alignment if name in inner else ((0, 0),))
        ]
        return Item(self.english, self.german, (*left.units,), (*right.units,), (*sorted(links),))


class Side(NamedTuple):
    """One side of a pair."""

    units: list[str]
    positions: dict[str, list[int]]
    """The positions of the rule's numbers and slots among the units."""


class Symbol(NamedTuple):
    """A symbol of a rule: a slot or a unit, optionally joined to the left, optionally numbered."""

    joined: str
    slot: str
    unit: str
    number: str


SYMBOL = re.compile(r"(·?)(?:<(\w+)>|(.+?)([⁰¹²³⁴⁵⁶⁷⁸⁹]?))")


@cache  # a few thousand rules and words
def symbols(side: str) -> list[Symbol]:
    """Parse one side of a rule."""
    matches = (SYMBOL.fullmatch(symbol) for symbol in side.split())
    return [Symbol(*match.groups(default="")) for match in matches if match]


@cache
def template(side: str) -> str:
    """Return one side of a rule in normal orthography, with its slots in braces."""
    words = (symbol.joined + (symbol.unit or f"{{{symbol.slot}}}") for symbol in symbols(side))
    return " ".join(words).replace(" ·", "")


def fill(side: str, slots: Mapping[str, tuple[str, ...]]) -> Side:
    """Return one side of a rule as units, with its slots filled."""
    units: list[str] = []
    positions: dict[str, list[int]] = {}
    for _, slot, unit, number in symbols(side):
        if slot or number:
            positions.setdefault(slot or number, []).append(len(units))
        units += slots[slot] if slot else (unit,)
    return Side(units, positions)


def word(english: str, german: str) -> Pair:
    """Pair one unit with one unit."""
    return Pair(f"{english}¹", f"{german}¹")


def words(entries: str) -> list[Pair]:
    """Parse pairs of words, such as `Monday/Montag Tuesday/Dienstag`."""
    return [word(*entry.split("/")) for entry in entries.split()]


@dataclass(frozen=True, slots=True)
class Phrases:
    """A finite set of pairs, numbered from 0, that are generated on request."""

    size: int
    at: Callable[[int], Pair]


def over(values: Sequence[Value], make: Callable[[Value], Pair]) -> Phrases:
    """Make one pair of each value; the pairs of a small set are cached."""

    def at(index: int) -> Pair:
        return make(values[index])

    return Phrases(len(values), cache(at) if len(values) <= 10_000 else at)


def one_of(pairs: Sequence[Pair]) -> Phrases:
    """Make a set from a list of pairs."""
    return Phrases(len(pairs), pairs.__getitem__)


def either(*choices: Phrases) -> Phrases:
    """Join sets that have no pair in common."""
    ends = list(accumulate(phrases.size for phrases in choices))

    def at(index: int) -> Pair:
        chosen = bisect_right(ends, index)
        return choices[chosen].at(index - ends[chosen] + choices[chosen].size)

    return Phrases(ends[-1], at)


def rule(english: str, german: str, **slots: Phrases) -> Phrases:
    """Fill the slots of a rule with every combination of pairs."""
    size = 1
    for phrases in slots.values():
        size *= phrases.size

    def at(index: int) -> Pair:
        filled = {}
        for name, phrases in slots.items():
            index, digit = divmod(index, phrases.size)
            filled[name] = phrases.at(digit)
        return Pair(english, german, **filled)

    return Phrases(size, at)


def sentence(english: str, german: str, **slots: Phrases) -> Phrases:
    """Fill the slots of a rule and add a full stop."""
    return rule(f"{english} ·.⁰", f"{german} ·.⁰", **slots)


# Numbers


def numbered(numbers: Iterable[int], words: str) -> dict[int, str]:
    """Map numbers to words."""
    return dict(zip(numbers, words.split(), strict=True))


BASIC = (*range(20), *range(20, 100, 10))
ENGLISH = numbered(
    BASIC,
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety",
)
GERMAN = numbered(
    BASIC,
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig "
    "achtzig neunzig",
)
ENGLISH_ORDINALS = numbered((1, 2, 3, 5, 8, 9, 12), "first second third fifth eighth ninth twelfth")
GERMAN_ORDINALS = numbered((1, 3, 7, 8), "erst dritt siebt acht")
"""Irregular forms."""


@lru_cache(maxsize=4096)  # two forms of every number below 1000, the parts of all others
def cardinal(number: int, one: str = "eins") -> Pair:
    """Spell out a number below a million; `one` is the form of a final 1: eins, or ein."""
    for scale, english, german in ((1000, "thousand", "tausend"), (100, "hundred", "hundert")):
        count, rest = divmod(number, scale)
        if count:
            head = Pair(f"<count> {english}¹", f"<count> ·{german}¹", count=cardinal(count, "ein"))
            if not rest:
                return head
            conjunction = "and " if rest < 100 else ""
            tail = cardinal(rest, one)
            return Pair(f"<head> {conjunction}<tail>", "<head> ·<tail>", head=head, tail=tail)
    if number == 1:
        return word(ENGLISH[1], one)
    if number in ENGLISH:
        return word(ENGLISH[number], GERMAN[number])
    ones = number % 10
    return Pair(
        "<tens> ·-¹ ·<ones>",
        "<ones> ·und¹ ·<tens>",
        tens=cardinal(number - ones),
        ones=cardinal(ones, "ein"),
    )


@lru_cache(maxsize=1024)  # all of them
def ordinal(number: int, ending: str) -> Pair:
    """Spell out an ordinal number below 100: dritte, dritten or dritter."""
    ones = number % 10
    if number < 20:
        english = ENGLISH_ORDINALS.get(number, f"{ENGLISH[number]}th")
        return word(english, GERMAN_ORDINALS.get(number, f"{GERMAN[number]}t") + ending)
    if not ones:
        return Pair(f"{ENGLISH[number][:-1]}ieth¹", f"{GERMAN[number]}¹ ·st{ending}¹")
    return Pair(
        f"<tens> ·-¹ ·{ordinal(ones, ending).english}²",
        f"{cardinal(ones, 'ein').german}² ·und¹ ·<tens> ·st{ending}²",
        tens=cardinal(number - ones),
    )


@lru_cache(maxsize=1024)  # all of them
def year(number: int) -> Pair:
    """Spell out a year from 1100 to 2099; from 2000 on, years are ordinary numbers."""
    century, rest = divmod(number, 100)
    if century >= 20:
        return cardinal(number)
    english, german = ENGLISH[century], GERMAN[century]
    if not rest:
        return Pair(f"{english}¹ hundred²", f"{german}¹ ·hundert²")
    zero = "oh " if rest < 10 else ""
    return Pair(f"{english}¹ {zero}<rest>", f"{german}¹ ·hundert¹ ·<rest>", rest=cardinal(rest))


def digits(number: int) -> Pair:
    """Write a number in digits, the same in both languages."""
    return word(str(number), str(number))


# Dates

MONTHS = words(
    "January/Januar February/Februar March/März April/April May/Mai June/Juni July/Juli "
    "August/August September/September October/Oktober November/November December/Dezember"
)
WEEKDAYS = words(
    "Monday/Montag Tuesday/Dienstag Wednesday/Mittwoch Thursday/Donnerstag Friday/Freitag "
    "Saturday/Samstag Sunday/Sonntag"
)


@lru_cache(maxsize=1024)  # all of them
def day_and_month(day: int, month: int, ending: str) -> Pair:
    """Spell out a day without its article: third of May, dritte Mai."""
    number = ordinal(day, ending)
    return Pair("<day> of <month>", "<day> <month>", day=number, month=MONTHS[month - 1])


def date_with_year(day: date, ending: str, year_pair: Callable[[int], Pair]) -> Pair:
    """Spell out a date without its article; `year_pair` makes the year (words or digits)."""
    start = day_and_month(day.day, day.month, ending)
    return Pair("<day> ·, <year>", "<day> <year>", day=start, year=year_pair(day.year))


def date_with_weekday(day: date, ending: str, year_pair: Callable[[int], Pair]) -> Pair:
    """Spell out a date with its correct weekday."""
    weekday, rest = WEEKDAYS[day.weekday()], date_with_year(day, ending, year_pair)
    return Pair(
        "<weekday> ·,¹ the² <date>", "<weekday> ·,¹ der² <date>", weekday=weekday, date=rest
    )


def calendar(first: int, last: int, make: Callable[[date], Pair]) -> Phrases:
    """Make a pair of every day from the first year to the last."""
    days = range(date(first, 1, 1).toordinal(), date(last, 12, 31).toordinal() + 1)
    return over(days, lambda number: make(date.fromordinal(number)))


def days(ending: str) -> Phrases:
    """Return every day of a leap year, without the year."""
    return calendar(2000, 2000, lambda day: day_and_month(day.day, day.month, ending))


def dates(make: Callable[[date, str, Callable[[int], Pair]], Pair], ending: str) -> Phrases:
    """Return every day of 266 years, with the year in words and in digits."""
    return either(
        calendar(1760, 2025, lambda day: make(day, ending, year)),
        calendar(1760, 2025, lambda day: make(day, ending, digits)),
    )


# Clock times


def clock(minutes: int) -> Pair:
    """Spell out the time this number of minutes after twelve."""
    hour, minute = minutes // 60 % 12 or 12, minutes % 60
    if minute == 0:
        return Pair("<hour> o'clock¹", "<hour> Uhr¹", hour=cardinal(hour, "ein"))
    next_hour = hour % 12 + 1
    this, following = cardinal(hour), cardinal(next_hour)
    # Around the half hour, German names the next hour, and English does so only after it.
    half_hour = word(ENGLISH[hour], GERMAN[next_hour])
    if minute == 30:
        return Pair("half¹ past¹ <hour>", "halb¹ <hour>", hour=half_hour)
    if minute == 25:
        return Pair("twenty¹ ·-¹ ·five² past³ <hour>", "fünf² vor³ halb¹ <hour>", hour=half_hour)
    if minute == 35:
        return Pair("twenty¹ ·-¹ ·five² to³ <hour>", "fünf² nach³ halb¹ <hour>", hour=following)
    if minute < 30:
        return Pair("<span> past¹ <hour>", "<span> nach¹ <hour>", span=span(minute), hour=this)
    return Pair("<span> to¹ <hour>", "<span> vor¹ <hour>", span=span(60 - minute), hour=following)


def span(minutes: int) -> Pair:
    """Spell out the distance from the hour."""
    if minutes == 15:
        return Pair("a quarter¹", "Viertel¹")
    if minutes == 1:
        return Pair("one¹ minute²", "eine¹ Minute²")
    if minutes % 5:
        return Pair("<count> minutes¹", "<count> Minuten¹", count=cardinal(minutes))
    return cardinal(minutes)


def times_of_day(hours: range, english: str, german: str) -> Phrases:
    """Return every fifth minute of some hours, with their time of day."""
    times = over(range(60 * hours.start, 60 * hours.stop, 5), clock)
    return rule(f"<time> {english}", f"<time> {german}", time=times)


ROUND_TIMES = over(range(0, 720, 5), clock)
TIMES_OF_DAY = either(
    times_of_day(range(1, 10), "in the morning¹", "morgens¹"),
    times_of_day(range(14, 18), "in the afternoon¹", "nachmittags¹"),
    times_of_day(range(18, 23), "in the evening¹", "abends¹"),
    times_of_day(range(23, 25), "at night¹", "nachts¹"),
)
"""Only the hours whose time of day is unambiguous in both languages."""
TIMES = either(ROUND_TIMES, TIMES_OF_DAY)


# Prices and countable things

NOMINATIVE = {"der": ("der", "ein"), "die": ("die", "eine"), "das": ("das", "ein")}
ACCUSATIVE = NOMINATIVE | {"der": ("den", "einen")}
"""The definite article and the word for one, by gender."""


def price(cents: int, case: Mapping[str, tuple[str, str]] = NOMINATIVE) -> Pair:
    """Spell out a price below a hundred euros; Euro and Cent are masculine."""
    (whole, rest), (_, one) = divmod(cents, 100), case["der"]
    euro, cent = "euro" if whole == 1 else "euros", "cent" if rest == 1 else "cents"
    if not whole:
        return Pair(f"<rest> {cent}¹", "<rest> Cent¹", rest=cardinal(rest, one))
    euros = Pair(f"<whole> {euro}¹", "<whole> Euro¹", whole=cardinal(whole, one))
    if not rest:
        return euros
    return Pair(f"<euros> and <rest> {cent}", "<euros> <rest>", euros=euros, rest=cardinal(rest))


def count_of(number: int, noun: str, case: Mapping[str, tuple[str, str]]) -> Pair:
    """Spell out a number of things; the noun is given as `chair/der/Stuhl/Stühle`."""
    english, gender, german, plural = noun.split("/")
    if number == 1:
        return Pair(f"one¹ {english}²", f"{case[gender][1]}¹ {german}²")
    return Pair(f"<count> {english}s¹", f"<count> {plural}¹", count=cardinal(number))


def nouns(entries: str, case: Mapping[str, tuple[str, str]], first: bool = False) -> Phrases:
    """Return nouns with their articles; `first` = at the beginning of a sentence."""

    def noun(entry: str) -> Pair:
        english, gender, german, *_ = entry.split("/")
        the, article = "the", case[gender][0]
        if first:
            the, article = the.capitalize(), article.capitalize()
        return Pair(f"{the}¹ {english}²", f"{article}¹ {german}²")

    return over(entries.split(), noun)


def counts(case: Mapping[str, tuple[str, str]]) -> Phrases:
    """Return every thing in every number up to a hundred."""
    combinations = [(number, noun) for number in range(1, 101) for noun in THINGS.split()]
    return over(combinations, lambda combination: count_of(*combination, case))


VEHICLES = "train/der/Zug bus/der/Bus ferry/die/Fähre ship/das/Schiff tram/die/Straßenbahn"
EVENTS = "film/der/Film concert/das/Konzert meeting/die/Besprechung game/das/Spiel party/die/Feier"
SHOPS = "shop/der/Laden museum/das/Museum bakery/die/Bäckerei library/die/Bibliothek bank/die/Bank"
BUILDINGS = "house/das/Haus church/die/Kirche bridge/die/Brücke tower/der/Turm castle/das/Schloss"
THINGS = (
    "book/das/Buch/Bücher chair/der/Stuhl/Stühle lamp/die/Lampe/Lampen table/der/Tisch/Tische "
    "newspaper/die/Zeitung/Zeitungen picture/das/Bild/Bilder"
)


# The grammar

MONTH, WEEKDAY = one_of(MONTHS), one_of(WEEKDAYS)
CITY = one_of(words("Berlin/Berlin Vienna/Wien Munich/München Cologne/Köln Rome/Rom Zurich/Zürich"))
PERSON = one_of(words("She/Sie He/Er Anna/Anna Peter/Peter Maria/Maria Paul/Paul"))
YEAR_IN_WORDS, YEAR_IN_DIGITS = over(range(1100, 2100), year), over(range(1100, 2100), digits)
PRICE = over(range(1, 10_000), lambda cents: price(cents, ACCUSATIVE))
# Without a year, any weekday is possible.
DAY_WITH_WEEKDAY = rule(
    "<weekday> ·,¹ the² <day>", "<weekday> ·,¹ dem² <day>", weekday=WEEKDAY, day=days("en")
)

GRAMMAR: dict[str, tuple[Phrases, ...]] = {
    "numbers": (
        over(range(100), cardinal),
        over(range(100, 1000), cardinal),
        over(range(1000, 10_000), cardinal),
        over(range(10_000, 1_000_000), cardinal),
    ),
    "years": (
        over(range(1100, 2000), year),  # from 2000 on, years are in the numbers already
        rule("in¹ <year>", "im¹ Jahr <year>", year=YEAR_IN_WORDS),
        rule("in¹ <year>", "im¹ Jahr <year>", year=YEAR_IN_DIGITS),
        rule("in¹ <month> <year>", "im¹ <month> <year>", month=MONTH, year=YEAR_IN_DIGITS),
    ),
    "dates": (
        either(MONTH, WEEKDAY),
        rule("in¹ <month>", "im¹ <month>", month=MONTH),
        rule("on¹ <weekday>", "am¹ <weekday>", weekday=WEEKDAY),
        rule("the¹ <day>", "der¹ <day>", day=days("e")),
        rule("on¹ the¹ <day>", "am¹ <day>", day=days("en")),
        rule("on¹ <day>", "am¹ <day>", day=DAY_WITH_WEEKDAY),
        rule("the¹ <date>", "der¹ <date>", date=dates(date_with_year, "e")),
        dates(date_with_weekday, "e"),
    ),
    "times": (
        ROUND_TIMES,
        over([minute for minute in range(720) if minute % 5], clock),
        TIMES_OF_DAY,
        rule("at¹ <time>", "um¹ <time>", time=TIMES),
        rule("on¹ <day> at² <time>", "am¹ <day> um² <time>", day=WEEKDAY, time=ROUND_TIMES),
    ),
    "prices": (
        over(range(1, 100), price),
        over(range(100, 10_000, 100), price),
        over([cents for cents in range(100, 10_000) if cents % 100], price),
        counts(NOMINATIVE),
    ),
    "sentences about times": (
        sentence("It¹ is² <time>", "Es¹ ist² <time>", time=TIMES),
        sentence("I¹ get² up³ at⁴ <time>", "Ich¹ stehe² um⁴ <time> auf³", time=TIMES),
        sentence("We¹ get² up³ at⁴ <time>", "Wir¹ stehen² um⁴ <time> auf³", time=TIMES),
        sentence("We¹ have² to² go³ at⁴ <time>", "Wir¹ müssen² um⁴ <time> gehen³", time=TIMES),
        sentence(
            "<it> leaves¹ at² <time>",
            "<it> fährt¹ um² <time> ab¹",
            it=nouns(VEHICLES, NOMINATIVE, first=True),
            time=TIMES,
        ),
        sentence(
            "<it> arrives¹ at² <time>",
            "<it> kommt¹ um² <time> an¹",
            it=nouns(VEHICLES, NOMINATIVE, first=True),
            time=TIMES,
        ),
        sentence(
            "<it> starts¹ at² <time>",
            "<it> fängt¹ um² <time> an¹",
            it=nouns(EVENTS, NOMINATIVE, first=True),
            time=TIMES,
        ),
        sentence(
            "<it> opens¹ at² <time>",
            "<it> macht¹ um² <time> auf¹",
            it=nouns(SHOPS, NOMINATIVE, first=True),
            time=TIMES,
        ),
        sentence(
            "<it> closes¹ at² <time>",
            "<it> macht¹ um² <time> zu¹",
            it=nouns(SHOPS, NOMINATIVE, first=True),
            time=TIMES,
        ),
        sentence(
            "<who> calls¹ me² at³ <time>",
            "<who> ruft¹ mich² um³ <time> an¹",
            who=PERSON,
            time=TIMES,
        ),
        sentence(
            "I¹ think² that³ <it> arrives⁴ at⁵ <time>",
            "Ich¹ glaube² ·, dass³ <it> um⁵ <time> ankommt⁴",
            it=nouns(VEHICLES, NOMINATIVE),
            time=TIMES,
        ),
        sentence(
            "On¹ the¹ <day> <it> leaves² at³ <time>",
            "Am¹ <day> fährt² <it> um³ <time> ab²",
            day=days("en"),
            it=nouns(VEHICLES, NOMINATIVE),
            time=TIMES,
        ),
    ),
    "sentences about dates": (
        sentence("Today¹ is² <date>", "Heute¹ ist² <date>", date=dates(date_with_weekday, "e")),
        sentence("Today¹ is² the³ <day>", "Heute¹ ist² der³ <day>", day=days("e")),
        sentence(
            "Today¹ is² her³ <which> birthday⁴",
            "Heute¹ ist² ihr³ <which> Geburtstag⁴",
            which=over(range(1, 100), lambda number: ordinal(number, "er")),
        ),
        sentence(
            "<who> lives¹ on² the² <which> floor³",
            "<who> wohnt¹ im² <which> Stock³",
            who=PERSON,
            which=over(range(1, 31), lambda number: ordinal(number, "en")),
        ),
        sentence(
            "<who> was¹ born² on³ the³ <date>",
            "<who> wurde¹ am³ <date> geboren²",
            who=PERSON,
            date=dates(date_with_year, "en"),
        ),
        sentence(
            "<who> moved¹ to² <city> in³ <year>",
            "<who> ist¹ im³ Jahr <year> nach² <city> gezogen¹",
            who=PERSON,
            city=CITY,
            year=over(range(1900, 2026), year),
        ),
        sentence(
            "<it> was¹ built² in³ <year>",
            "<it> wurde¹ im³ Jahr <year> gebaut²",
            it=nouns(BUILDINGS, NOMINATIVE, first=True),
            year=over(range(1100, 2026), year),
        ),
        sentence(
            "We¹ are² going² to³ <city> in⁴ <month>",
            "Wir¹ fahren² im⁴ <month> nach³ <city>",
            city=CITY,
            month=MONTH,
        ),
        sentence(
            "We¹ are² going² to³ <city> on⁴ the⁴ <day>",
            "Wir¹ fahren² am⁴ <day> nach³ <city>",
            city=CITY,
            day=days("en"),
        ),
        sentence(
            "We¹ have² postponed³ <it> to⁴ the⁵ <day>",
            "Wir¹ haben² <it> auf⁴ den⁵ <day> verschoben³",
            it=nouns(EVENTS, ACCUSATIVE),
            day=days("en"),
        ),
        sentence(
            "<it> begins¹ on² <day>",
            "<it> beginnt¹ am² <day>",
            it=nouns(EVENTS, NOMINATIVE, first=True),
            day=DAY_WITH_WEEKDAY,
        ),
    ),
    "sentences about prices": (
        sentence(
            "<it> costs¹ <price>",
            "<it> kostet¹ <price>",
            it=nouns(THINGS, NOMINATIVE, first=True),
            price=PRICE,
        ),
        sentence(
            "I¹ paid² <price> for³ <it>",
            "Ich¹ habe² für³ <it> <price> bezahlt²",
            price=PRICE,
            it=nouns(THINGS, ACCUSATIVE),
        ),
        rule(
            "Can¹ you² lend³ me⁴ <price> ·?⁵",
            "Kannst¹ du² mir⁴ <price> leihen³ ·?⁵",
            price=PRICE,
        ),
        sentence(
            "We¹ have² sold³ <count>", "Wir¹ haben² <count> verkauft³", count=counts(ACCUSATIVE)
        ),
        sentence(
            "About¹ <count> people² live³ here⁴",
            "Ungefähr¹ <count> Menschen² wohnen³ hier⁴",
            count=over(range(1000, 1_000_000, 1000), cardinal),
        ),
    ),
}
"""The rules of every kind. No two rules generate the same text in either language."""
