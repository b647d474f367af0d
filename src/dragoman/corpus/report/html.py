"""Renders the report as one HTML page.

The page is self-contained: no external scripts, fonts or network access. Charts are SVG. The colors
can be told apart with color blindness, and no information is in the color alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from dragoman.corpus.report.advice import advice, share
from dragoman.corpus.report.model import CorpusReport, Report

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5c6670; --line: #d7dce1;
  --paper: #fff; --one: #0b6e99; --two: #d9730d; --kept: #2f7d4f; --warn: #fff4e0;
  --good: #e7f5ec; --code: #eef1f4 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa5b0; --line: #39424c;
  --paper: #14181c; --one: #56b4e9; --two: #e69f00; --kept: #5fbf86; --warn: #3a2f1a;
  --good: #17301f; --code: #232a31 } }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; overflow-wrap: anywhere }
h1 { font-size: 1.7rem; margin: 0 0 .25rem } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem }
p, .soft { color: var(--soft); margin: .25rem 0 1rem }
code { background: var(--code); border-radius: .25rem; padding: .1rem .35rem }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.5rem 0 }
.figure { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem;
  min-width: 9rem; flex: 1 1 9rem }
.figure b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums }
.advice { background: var(--warn); border-radius: .5rem; padding: .8rem 1.1rem; margin: 1rem 0 }
.advice.good { background: var(--good) }
.advice ul { margin: .3rem 0; padding-left: 1.2rem }
.table { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
td.n { white-space: nowrap } td.bar { width: 35% } th { overflow-wrap: normal }
.bar i { display: block; height: .8rem; background: var(--one); border-radius: 2px; min-width: 1px }
.bar i.kept { background: var(--kept) }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr));
  gap: 2rem }
svg { max-width: 100% } svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
details { margin: .4rem 0 } summary { cursor: pointer }
td.text { unicode-bidi: plaintext }
.key { font-size: .85rem; color: var(--soft) } .key i { display: inline-block; width: .8rem;
  height: .8rem; border-radius: 2px; margin: 0 .3rem 0 .8rem; vertical-align: -1px }
@media (max-width: 40rem) { body { padding: 1rem .8rem 3rem } th, td { padding: .3rem .35rem }
  table { font-size: .85rem } td.bar { width: 22% } }
"""


def render(report: Report, next_command: str) -> str:
    """Return the page; `next_command` is what to type next."""
    title = f"Corpus report: {escape(report.languages.source)} → {escape(report.languages.target)}"
    body = [
        f"<h1>{title}</h1>",
        "<p>What was read, what was kept, and why the rest was dropped.</p>",
        _figures(report),
        _advice(report, next_command),
        _corpora(report),
        _charts(report),
        _vocabulary(report),
        _samples(report),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n{''.join(body)}\n</body></html>\n"
    )


def _figures(report: Report) -> str:
    training = [corpus for corpus in report.corpora if corpus.split == "train"]
    rows = sum(corpus.rows for corpus in training)
    kept = sum(corpus.kept for corpus in training)
    synthetic = sum(corpus.kept for corpus in training if corpus.synthetic)
    written = f", {synthetic:,} of them synthetic" if synthetic else ""
    boxes = [
        (f"{rows:,}", "training pairs read"),
        (f"{kept:,}", f"kept ({share(kept, rows)}{written})"),
        (f"{report.splits.validation:,} + {report.splits.test:,}", "validation + test"),
        (f"{report.statistics.source_words:,}", "source words to train on"),
        (f"{report.statistics.target_words:,}", "target words to train on"),
    ]
    figures = (f'<div class="figure"><b>{value}</b>{escape(label)}</div>' for value, label in boxes)
    return f'<div class="figures">{"".join(figures)}</div>'


def _advice(report: Report, next_command: str) -> str:
    items = "".join(f"<li>{escape(message)}</li>" for message in advice(report))
    if items:
        box = f'<div class="advice"><b>What to check</b><ul>{items}</ul></div>'
    else:
        box = (
            '<div class="advice good"><b>No problems found.</b> '
            "The corpus is ready for training.</div>"
        )
    return (
        f"{box}<p>Next, in the folder of the recipe, type: <code>{escape(next_command)}</code></p>"
    )


def _table(rows: str) -> str:
    return f'<div class="table"><table>{rows}</table></div>'


def _corpora(report: Report) -> str:
    sections = ["<h2>Corpora</h2>"]
    for corpus in report.corpora:
        total = max(1, corpus.rows)
        bars = [_bar("kept", corpus.kept, total, "kept")]
        dropped = sorted(corpus.dropped.items(), key=lambda item: (-item[1], item[0]))
        bars += [_bar(reason, count, total) for reason, count in dropped]
        details = ", ".join([*_origin(corpus), f"{corpus.rows:,} rows"])
        sections.append(
            f"<h3>{escape(corpus.name)} <span class='soft'>({escape(details)})</span></h3>"
            f"{_table(''.join(bars))}"
            f"{''.join(_examples(corpus))}"
        )
    return "".join(sections)


def _origin(corpus: CorpusReport) -> Iterator[str]:
    """Say what a corpus is for, and which side a model wrote."""
    yield corpus.split
    if corpus.synthetic is not None:
        yield f"synthetic {'target' if corpus.synthetic.direction == 'forward' else 'source'}"
        if corpus.synthetic.is_tagged:
            yield "tagged"


def _bar(label: str, count: int, total: int, style: str = "") -> str:
    return (
        f"<tr><td>{escape(label)}</td><td class='n'>{count:,}</td>"
        f"<td class='n'>{share(count, total)}</td><td class='bar'>"
        f"<i class='{style}' style='width:{100 * count / total:.2f}%'></i></td></tr>"
    )


def _examples(corpus: CorpusReport) -> Iterator[str]:
    header = "<tr><th class='n'>row</th><th>source</th><th>target</th></tr>"
    for reason, examples in sorted(corpus.examples.items()):
        rows = "".join(
            f"<tr><td class='n'>{example.row}</td>{_text(example.source)}{_text(example.target)}"
            "</tr>"
            for example in examples
        )
        yield (
            f"<details><summary>Examples: {escape(reason)}</summary>{_table(header + rows)}"
            "</details>"
        )
    if corpus.dropped_languages:
        yield (
            "<details><summary>Detected languages of pairs dropped for their language</summary>"
            f"{_table(_bars(corpus.dropped_languages))}</details>"
        )
    for reason, numbers in sorted(corpus.rejected_rows.items()):
        listed = ", ".join(str(number) for number in numbers)
        yield f"<p>{escape(reason)}: first at row {listed}.</p>"


def _text(text: str) -> str:
    return f"<td class='text' dir='auto'>{escape(text)}</td>"


def _charts(report: Report) -> str:
    statistics = report.statistics
    edges = statistics.length_edges
    lengths = _column_chart(
        [_range_label(edges, index) for index in range(1, len(edges) + 1)],
        [statistics.source_lengths[1:], statistics.target_lengths[1:]],
        "words per sentence",
    )
    ratios = _column_chart(
        [f"{edge:.2g}" for edge in (0, *statistics.ratio_edges)],
        [statistics.ratios],
        "characters of target ÷ source",
    )
    key = (
        "<p class='key'><i style='background:var(--one);margin-left:0'></i>source"
        "<i style='background:var(--two)'></i>target</p>"
    )
    sides = (("source", report.detected.source), ("target", report.detected.target))
    detected = "".join(
        f"<div><h3>{side}</h3>{_table(_bars(counts))}</div>" for side, counts in sides
    )
    return (
        "<h2>Lengths</h2><p>Of the training pairs. In the second chart, a peak far from the middle "
        "is a sign of pairs that do not belong together.</p>"
        f"<div class='two'><div>{lengths}{key}</div><div>{ratios}</div></div>"
        "<h2>Languages</h2><p>Detected in a sample of the pairs that were kept. The detector is "
        f"often unsure about short sentences.</p><div class='two'>{detected}</div>"
    )


def _bars(counts: Mapping[str, int]) -> str:
    total = max(1, sum(counts.values()))
    return "".join(_bar(label, count, total) for label, count in counts.items())


def _range_label(edges: Sequence[int], index: int) -> str:
    if index == len(edges):
        return f"{edges[-1]}+"
    low, high = edges[index - 1], edges[index] - 1
    return str(low) if low == high else f"{low}-{high}"


def _column_chart(labels: Sequence[str], series: Sequence[Sequence[int]], title: str) -> str:
    """Draw the columns of all series side by side, with about nine labels below."""
    width, height, left, bottom = 460, 190, 8, 34
    highest = max(1, *(max(values) for values in series))
    step = (width - left) / len(labels)
    column_width = step * 0.8 / len(series)
    shapes = []
    for number, values in enumerate(series):
        color = ("var(--one)", "var(--two)")[number]
        for index, value in enumerate(values):
            column_height = (height - bottom - 12) * value / highest
            x, y = left + index * step + number * column_width, height - bottom - column_height
            shapes.append(
                f"<rect x='{x:.1f}' y='{y:.1f}' width='{column_width:.1f}' "
                f"height='{column_height:.1f}' fill='{color}'>"
                f"<title>{escape(labels[index])}: {value:,}</title></rect>"
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


def _vocabulary(report: Report) -> str:
    vocabulary = report.vocabulary
    header = (
        "<tr><th></th><th class='n'>size</th><th class='n'>tokens</th>"
        "<th class='n'>tokens per word</th><th class='n'>used</th>"
        "<th class='n'>rare (&lt; 10 times)</th><th class='n'>unknown</th></tr>"
    )
    rows = "".join(
        f"<tr><td>{name}</td><td class='n'>{side.size:,}</td>"
        f"<td class='n'>{side.tokens:,}</td><td class='n'>{side.tokens_per_word}</td>"
        f"<td class='n'>{share(side.used, side.size)}</td>"
        f"<td class='n'>{side.rare:,}</td><td class='n'>{side.unknown:,}</td></tr>"
        for name, side in (("source", vocabulary.source), ("target", vocabulary.target))
    )
    return (
        "<h2>Vocabulary</h2><p>Many tokens per word mean that the vocabulary is small for this "
        "text. Many rare tokens mean that it is large. Used, rare and unknown tokens are counted "
        f"in the first shard ({vocabulary.sampled_pairs:,} pairs).</p>{_table(header + rows)}"
    )


def _samples(report: Report) -> str:
    rows = "".join(f"<tr>{_text(source)}{_text(target)}</tr>" for source, target in report.samples)
    header = "<tr><th>source</th><th>target</th></tr>"
    return f"<h2>Examples of pairs that were kept</h2>{_table(header + rows)}"
