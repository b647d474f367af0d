"""How does the report look?

One page that needs nothing else: no script from elsewhere, no font, no network. Bars and curves are
SVG; colours are told apart by colour-blind people, and nothing is said by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5c6670; --line: #d7dce1;
  --paper: #fff; --one: #0b6e99; --two: #d9730d; --kept: #2f7d4f; --warn: #fff4e0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa5b0; --line: #39424c;
  --paper: #14181c; --one: #56b4e9; --two: #e69f00; --kept: #5fbf86; --warn: #3a2f1a; } }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem }
h1 { font-size: 1.7rem; margin: 0 0 .25rem } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem }
p, .soft { color: var(--soft); margin: .25rem 0 1rem }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.5rem 0 }
.figure { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem;
  min-width: 9rem }
.figure b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums }
.advice { background: var(--warn); border-radius: .5rem; padding: .8rem 1.1rem; margin: 1rem 0 }
.advice ul { margin: .3rem 0; padding-left: 1.2rem }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap } td.bar { width: 35% }
.bar i { display: block; height: .8rem; background: var(--one); border-radius: 2px; min-width: 1px }
.bar i.kept { background: var(--kept) }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 2rem }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
details { margin: .4rem 0 } summary { cursor: pointer }
td.text { overflow-wrap: anywhere; unicode-bidi: plaintext }
.key { font-size: .85rem; color: var(--soft) } .key i { display: inline-block; width: .8rem;
  height: .8rem; border-radius: 2px; margin: 0 .3rem 0 .8rem; vertical-align: -1px }
"""


def render(report: dict[str, Any]) -> str:
    """Draw the page."""
    languages = report["languages"]
    title = f"Corpus report: {escape(languages['source'])} → {escape(languages['target'])}"
    body = [
        f"<h1>{title}</h1>",
        "<p>What came in, what was kept, and why the rest was dropped.</p>",
        _figures(report),
        _advice(report),
        _flow(report),
        _plots(report),
        _vocabulary(report),
        _samples(report),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>\n{''.join(body)}\n</body></html>\n"
    )


def _figures(report: dict[str, Any]) -> str:
    training = [corpus for corpus in report["corpora"] if corpus["side"] == "train"]
    rows, kept = sum(c["rows"] for c in training), sum(c["kept"] for c in training)
    words = report["statistics"]
    boxes = [
        (f"{rows:,}", "training pairs read"),
        (f"{kept:,}", f"kept ({_share(kept, rows)})"),
        (f"{report['sides']['development']:,} + {report['sides']['test']:,}", "development + test"),
        (f"{words['source_words']:,}", "source words to train on"),
        (f"{words['target_words']:,}", "target words to train on"),
    ]
    return (
        '<div class="figures">'
        + "".join(f'<div class="figure"><b>{n}</b>{escape(what)}</div>' for n, what in boxes)
        + "</div>"
    )


def advice(report: dict[str, Any]) -> list[str]:
    """Say what a person should look at, most pressing first."""
    return [*_shifted(report), *_lost(report), *_foreign(report), *_unlearnable(report)]


def _shifted(report: dict[str, Any]) -> Iterator[str]:
    for corpus in report["corpora"]:
        if corpus["shift"]:
            line, places = corpus["shift"]
            way = "further down" if places > 0 else "further up"
            yield (
                f"{corpus['name']}: from about line {line:,} on, a source line seems to belong to "
                f"the target line {abs(places)} {way}. Look there for a line that is missing or "
                "was cut in two."
            )


def _lost(report: dict[str, Any]) -> Iterator[str]:
    for corpus in report["corpora"]:
        for reason, number in sorted(corpus["dropped"].items(), key=lambda item: -item[1]):
            if corpus["side"] == "train" and number > 0.2 * corpus["rows"]:
                share = _share(number, corpus["rows"])
                yield f"{corpus['name']}: {share} dropped for “{reason}”. {_hint(reason)}"


def _foreign(report: dict[str, Any]) -> Iterator[str]:
    for side, number in report["foreign"].items():
        total = sum(report["detected"][side].values())
        if number > 0.1 * total:
            yield (
                f"{_share(number, total)} of a {side} sample looks like another language than "
                f"{report['languages'][side]}."
            )


def _unlearnable(report: dict[str, Any]) -> Iterator[str]:
    vocabulary = report["vocabulary"]
    if report["sides"]["train"] < 10_000:
        yield "Fewer than 10,000 training pairs: expect a model that knows little."
    for side in ("source", "target"):
        if vocabulary[side]["unknown_share"] > 0.001:
            share = f"{100 * vocabulary[side]['unknown_share']:.2f} %"
            yield f"Unknown tokens on the {side} side: {share} of the first shard."
    if vocabulary["too_long"]:
        yield f"Left out for more tokens than corpus.longest: {vocabulary['too_long']:,}."


def _hint(reason: str) -> str:
    hints = {
        "source language": "Are the two files in the right order, and the languages right?",
        "target language": "Are the two files in the right order, and the languages right?",
        "exact duplicate": "Is the same corpus named twice?",
        "in a test set": "Is the test set part of the training corpus?",
        "length ratio": "Are the lines of both files still aligned?",
    }
    return hints.get(reason, "Look at the examples below.")


def _advice(report: dict[str, Any]) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in advice(report))
    if not items:
        return '<div class="advice"><b>Nothing stands out.</b> The corpus can be trained on.</div>'
    return f'<div class="advice"><b>What to look at</b><ul>{items}</ul></div>'


def _flow(report: dict[str, Any]) -> str:
    parts = ["<h2>What happened to each corpus</h2>"]
    for corpus in report["corpora"]:
        rows = max(1, corpus["rows"])
        lines = [_bar("kept", corpus["kept"], rows, "kept")]
        dropped = sorted(corpus["dropped"].items(), key=lambda item: (-item[1], item[0]))
        lines += [_bar(reason, number, rows, "") for reason, number in dropped]
        parts.append(
            f"<h3>{escape(corpus['name'])} <span class='soft'>({corpus['side']}, "
            f"{corpus['rows']:,} rows)</span></h3><table>{''.join(lines)}</table>"
            f"{''.join(_examples(corpus))}"
        )
    return "".join(parts)


def _bar(name: str, number: int, of: int, kind: str) -> str:
    return (
        f"<tr><td>{escape(name)}</td><td class='n'>{number:,}</td>"
        f"<td class='n'>{_share(number, of)}</td>"
        f"<td class='bar'><i class='{kind}' style='width:{100 * number / of:.2f}%'></i></td></tr>"
    )


def _examples(corpus: dict[str, Any]) -> Iterator[str]:
    for reason, rows in sorted(corpus["examples"].items()):
        body = "".join(
            f"<tr><td class='n'>{number}</td><td class='text' dir='auto'>{escape(source)}</td>"
            f"<td class='text' dir='auto'>{escape(target)}</td></tr>"
            for number, source, target in rows
        )
        yield (
            f"<details><summary>Examples: {escape(reason)}</summary><table><tr><th class='n'>row"
            f"</th><th>source</th><th>target</th></tr>{body}</table></details>"
        )
    if corpus["dropped_languages"]:
        body = _detected(corpus["dropped_languages"])
        yield (
            "<details><summary>Languages found in pairs that were dropped for theirs</summary>"
            f"<table>{body}</table></details>"
        )
    for reason, numbers in sorted(corpus["lines"].items()):
        listed = ", ".join(str(number) for number in numbers)
        yield f"<p>{escape(reason)}: first at row {listed}.</p>"


def _plots(report: dict[str, Any]) -> str:
    statistics = report["statistics"]
    edges = statistics["length_edges"]
    labels = [_span(edges, index) for index in range(1, len(edges) + 1)]
    lengths = _columns(
        labels,
        [statistics["source_lengths"][1:], statistics["target_lengths"][1:]],
        "words in a sentence",
    )
    ratio_edges = statistics["ratio_edges"]
    ratios = _columns(
        [f"{edge:.2g}" for edge in (0, *ratio_edges)],
        [statistics["ratios"]],
        "characters of target ÷ source",
    )
    key = (
        "<p class='key'><i style='background:var(--one);margin-left:0'></i>source"
        "<i style='background:var(--two)'></i>target</p>"
    )
    detected = "".join(
        f"<div><h3>{side}</h3><table>{_detected(counter)}</table></div>"
        for side, counter in report["detected"].items()
    )
    return (
        "<h2>Lengths</h2><p>Of the training pairs. A hill far from the middle of the right "
        "plot is a sign of pairs that do not belong together.</p>"
        f"<div class='two'><div>{lengths}{key}</div><div>{ratios}</div></div>"
        "<h2>Languages</h2><p>As a detector sees them in a sample of what was kept; short "
        f"sentences are often unsure.</p><div class='two'>{detected}</div>"
    )


def _detected(counter: dict[str, int]) -> str:
    total = max(1, sum(counter.values()))
    return "".join(_bar(code, number, total, "") for code, number in counter.items())


def _span(edges: Sequence[int], index: int) -> str:
    if index == len(edges):
        return f"{edges[-1]}+"
    low, high = edges[index - 1], edges[index] - 1
    return str(low) if low == high else f"{low}-{high}"


def _columns(labels: Sequence[str], series: Sequence[Sequence[int]], title: str) -> str:
    """Draw columns side by side, with every few labels below."""
    width, height, left, bottom = 460, 190, 8, 34
    top = max(1, *(max(each) for each in series))
    step = (width - left) / len(labels)
    thick = step * 0.8 / len(series)
    shapes = []
    for number, values in enumerate(series):
        colour = ("var(--one)", "var(--two)")[number]
        for index, value in enumerate(values):
            tall = (height - bottom - 12) * value / top
            x, y = left + index * step + number * thick, height - bottom - tall
            shapes.append(
                f"<rect x='{x:.1f}' y='{y:.1f}' width='{thick:.1f}' height='{tall:.1f}' "
                f"fill='{colour}'><title>{escape(labels[index])}: {value:,}</title></rect>"
            )
    every = max(1, len(labels) // 9)
    shapes += [
        f"<text x='{left + (index + 0.4) * step:.1f}' y='{height - bottom + 14}' "
        f"text-anchor='middle'>{escape(label)}</text>"
        for index, label in enumerate(labels)
        if index % every == 0
    ]
    shapes.append(
        f"<text x='{width / 2}' y='{height - 4}' text-anchor='middle'>{escape(title)}</text>"
        f"<line x1='{left}' x2='{width}' y1='{height - bottom}' y2='{height - bottom}' "
        "stroke='var(--line)'/>"
    )
    return (
        f"<svg viewBox='0 0 {width} {height}' role='img' aria-label='{escape(title)}' "
        f"width='100%'>{''.join(shapes)}</svg>"
    )


def _vocabulary(report: dict[str, Any]) -> str:
    vocabulary = report["vocabulary"]
    rows = []
    for side in ("source", "target"):
        found = vocabulary[side]
        rows.append(
            f"<tr><td>{side}</td><td class='n'>{found['size']:,}</td>"
            f"<td class='n'>{found['tokens']:,}</td><td class='n'>{found['tokens_per_word']}</td>"
            f"<td class='n'>{_share(found['used'], found['size'])}</td>"
            f"<td class='n'>{found['seldom']:,}</td><td class='n'>{found['unknown']:,}</td></tr>"
        )
    return (
        "<h2>Vocabulary</h2><p>Many pieces to a word: the vocabulary is small for this text. Many "
        "that are seldom seen: it is large for it. Used, seldom and unknown are counted in the "
        f"first shard ({vocabulary['looked_at']:,} pairs).</p><table><tr><th></th>"
        "<th class='n'>size</th><th class='n'>tokens</th><th class='n'>tokens a word</th>"
        "<th class='n'>used on this side</th><th class='n'>seen &lt; 10 times</th>"
        "<th class='n'>unknown</th>"
        f"</tr>{''.join(rows)}</table>"
    )


def _samples(report: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td class='text' dir='auto'>{escape(source)}</td>"
        f"<td class='text' dir='auto'>{escape(target)}</td></tr>"
        for source, target in report["samples"]
    )
    return (
        "<h2>A look at what was kept</h2><table><tr><th>source</th><th>target</th></tr>"
        f"{rows}</table>"
    )


def _share(part: int, whole: int) -> str:
    """In per cent; all and nothing only where it is true."""
    share = 100 * part / max(1, whole)
    digits = 1 if 0.05 <= share <= 99.95 or part in (0, whole) else 3
    return f"{share:.{digits}f} %"
