"""Renders the report of an adaptation as one HTML page.

The page is self-contained, with the style of the corpus report: no scripts and no network access.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dragoman.adaptation.gate import RuleName, RuleResult, Verdict
from dragoman.adaptation.report.model import AdaptationReport, CurvePoint, ExampleChange, TermChange
from dragoman.corpus.report.html import STYLE

_RULES: dict[RuleName, str] = {
    "in_domain_bleu": "in-domain BLEU",
    "in_domain_chrf": "in-domain chrF",
    "general_bleu": "general BLEU",
    "terms": "terms",
    "protected_spans": "protected spans",
    "size": "size",
    "speed": "speed",
}
_SYMBOLS: dict[Verdict, str] = {"passed": "✓", "failed": "✗", "not tested": "–"}
_OWN_STYLE = """
[class^="verdict-"] { white-space: nowrap }
.verdict-passed { color: var(--kept) } .verdict-failed { color: var(--two); font-weight: bold }
.rules td:not(:last-child) { overflow-wrap: normal }
.example { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; margin: .6rem 0 }
.example dl { display: grid; grid-template-columns: 6.5rem 1fr; gap: .15rem .8rem; margin: .3rem 0 0 }
.example dt { color: var(--soft) } .example dd { margin: 0; unicode-bidi: plaintext }
@media (max-width: 40rem) { .example dl { grid-template-columns: 1fr }
  .example dd { margin-bottom: .3rem } }
"""  # noqa: E501


def render(report: AdaptationReport, next_command: str) -> str:
    """Return the page; `next_command` is what to type next."""
    source, target = escape(report.languages.source), escape(report.languages.target)
    title = f"Adaptation report: {source} → {target}, version {report.number}"
    body = [
        f"<h1>{title}</h1>",
        f"<p>Adapted from version {report.parent}. Method: {report.method}.</p>",
        _verdict(report, next_command),
        _figures(report),
        _rules(report.gate.rules),
        _curve(report.curve),
        _examples("Examples that improved", report.improved),
        _examples("Examples that got worse", report.worse),
        _terms(report),
        _data(report),
        _cost(report),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{_OWN_STYLE}</style></head><body><main>\n{''.join(body)}\n"
        "</main></body></html>\n"
    )


def _verdict(report: AdaptationReport, next_command: str) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    if report.is_accepted:
        items = f"<ul>{notes}</ul>" if notes else ""
        box = (
            '<div class="advice good"><b>Accepted.</b> This version is better in its domain, and '
            f"no rule has failed. It is the current version now.{items}</div>"
        )
    else:
        reasons = "".join(
            f"<li>{_RULES[rule.name]}: {escape(rule.explanation)}</li>"
            for rule in report.gate.failed
        )
        box = (
            '<div class="advice"><b>Refused.</b> The model stays aside, and its parent remains the '
            f"current version.<ul>{reasons}{notes}</ul></div>"
        )
    return f"{box}<p>Next, type: <code>{escape(next_command)}</code></p>"


def _figures(report: AdaptationReport) -> str:
    names: tuple[RuleName, ...] = (
        "in_domain_bleu",
        "in_domain_chrf",
        "general_bleu",
        "protected_spans",
    )
    boxes = []
    for rule in map(report.gate.rule, names):
        unit = " %" if rule.name == "protected_spans" else ""
        value, label = "not tested", _RULES[rule.name]
        if rule.before is not None and rule.after is not None:
            value = f"{rule.before:.1f} → {rule.after:.1f}{unit}"
            label += f" ({rule.after - rule.before:+.1f})"
        boxes.append(f'<div class="figure"><b>{value}</b>{label}</div>')
    return f'<div class="figures">{"".join(boxes)}</div>'


def _rules(rules: Sequence[RuleResult]) -> str:
    rows = "".join(
        f"<tr><td>{_RULES[rule.name]}</td><td class='verdict-{rule.verdict.split()[0]}'>"
        f"{_SYMBOLS[rule.verdict]} {rule.verdict}</td><td>{escape(rule.explanation)}</td></tr>"
        for rule in rules
    )
    header = "<tr><th>rule</th><th>verdict</th><th>figures and limit</th></tr>"
    return (
        "<h2>The gate</h2><p>Both models have translated the fixed test sets. The p-value is that "
        "of the paired bootstrap test (Koehn, 2004); for terms and protected spans, that of the "
        "sign test.</p>"
        f"<div class='rules'>{_table(header + rows)}</div>"
    )


def _table(rows: str) -> str:
    return f'<div class="table"><table>{rows}</table></div>'


def _curve(points: Sequence[CurvePoint]) -> str:
    """Draw validation BLEU by update: in-domain as a line with dots, general with squares."""
    if not points:
        return ""
    width, height, left, bottom, top = 720, 240, 44, 40, 14
    last = max(points[-1].step, 1)
    general = [
        (point.step, point.general_bleu) for point in points if point.general_bleu is not None
    ]
    series = [[(point.step, point.bleu) for point in points], general]
    values = [value for line in series for _, value in line]
    low, high = max(0.0, min(values) - 2), max(values) + 2

    def place(step: int, value: float) -> tuple[float, float]:
        x = left + (width - left - 12) * step / last
        return x, top + (height - top - bottom) * (high - value) / (high - low)

    shapes = []
    for share in (0, 0.5, 1):
        value = low + share * (high - low)
        _, y = place(0, value)
        shapes.append(
            f"<line x1='{left}' x2='{width - 12}' y1='{y:.1f}' y2='{y:.1f}' stroke='var(--line)'/>"
            f"<text x='{left - 6}' y='{y + 4:.1f}' text-anchor='end'>{value:.1f}</text>"
        )
    for color, dash, line in zip(("one", "two"), ("", "6 4"), series, strict=True):
        places = [place(step, value) for step, value in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shapes.append(
            f"<polyline points='{path}' fill='none' stroke='var(--{color})' stroke-width='2' "
            f"stroke-dasharray='{dash}'/>"
        )
        shapes += [
            f"<rect x='{x - 3:.1f}' y='{y - 3:.1f}' width='6' height='6' fill='var(--{color})' "
            f"rx='{3 if color == 'one' else 0}'><title>update {step:,}: BLEU {value:.1f}</title>"
            "</rect>"
            for (x, y), (step, value) in zip(places, line, strict=True)
        ]
    chosen = [point for point in points if point.is_best][-1:]
    for point in chosen:
        x, _ = place(point.step, low)
        anchor = "end" if x > width / 2 else "start"
        shapes.append(
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{top}' y2='{height - bottom}' "
            f"stroke='var(--soft)' stroke-dasharray='2 3'/><text x='{x:.1f}' y='{top - 3}' "
            f"text-anchor='{anchor}'>chosen: update {point.step:,}</text>"
        )
    shapes.append(
        f"<text x='{left}' y='{height - bottom + 16}'>0</text><text x='{width - 12}' "
        f"y='{height - bottom + 16}' text-anchor='end'>{points[-1].step:,} updates</text>"
    )
    key = (
        "<p class='key'><i style='background:var(--one);margin-left:0'></i>in-domain (line)"
        + ("<i style='background:var(--two)'></i>general (dashed)" if general else "")
        + "</p>"
    )
    return (
        "<h2>Validation while it was trained</h2><p>BLEU of greedy translations on the two "
        "validation sets. The chosen checkpoint has the lowest in-domain loss among those that "
        "have not lost too much general BLEU.</p>"
        f"<svg viewBox='0 0 {width} {height}' role='img' aria-label='Validation BLEU by update' "
        f"width='100%'>{''.join(shapes)}</svg>{key}"
    )


def _examples(title: str, examples: Sequence[ExampleChange]) -> str:
    if not examples:
        return f"<h2>{title}</h2><p>None.</p>"
    boxes = "".join(
        f'<div class="example"><b>{example.change:+.1f} chrF</b> <span class="soft">'
        f"{example.test_set.replace('_', '-')} test set, line {example.line:,}</span><dl>"
        f"{_text('source', example.source)}{_text('before', example.before)}"
        f"{_text('after', example.after)}{_text('reference', example.reference)}</dl></div>"
        for example in examples
    )
    return f"<h2>{title}</h2>{boxes}"


def _text(label: str, text: str) -> str:
    return f"<dt>{label}</dt><dd dir='auto'>{escape(text)}</dd>"


def _terms(report: AdaptationReport) -> str:
    sections = ["<h2>Terms</h2>"]
    if report.terms:
        sections.append(
            "<p>Terms of the glossary in the in-domain test set, and how often each model used "
            f"the translation of the glossary.</p>{_term_table(report.terms)}"
        )
    sections.append(
        "<p>Words of the references that the adapted model uses in more sentences than its parent, "
        "and words that it uses in fewer.</p><div class='two'><div><h3>learned</h3>"
        f"{_term_table(report.learned)}</div><div><h3>lost</h3>{_term_table(report.lost)}</div>"
        "</div>"
    )
    return "".join(sections)


def _term_table(terms: Sequence[TermChange]) -> str:
    if not terms:
        return "<p>None.</p>"
    rows = "".join(
        f"<tr><td class='text' dir='auto'>{escape(_term(term))}</td><td class='n'>{term.expected:,}"
        f"</td><td class='n'>{term.before:,}</td><td class='n'>{term.after:,}</td></tr>"
        for term in terms
    )
    header = (
        "<tr><th>term</th><th class='n'>expected</th><th class='n'>before</th>"
        "<th class='n'>after</th></tr>"
    )
    return _table(header + rows)


def _term(term: TermChange) -> str:
    return f"{term.term} → {term.translation}" if term.translation else term.term


def _data(report: AdaptationReport) -> str:
    rows = "".join(
        f"<tr><td>{escape(file.name)}</td><td class='n'>{file.pairs:,}</td>"
        f"<td><code>{file.sha256[:16]}</code></td></tr>"
        for file in report.data
    )
    header = "<tr><th>file</th><th class='n'>pairs</th><th>SHA-256 (first 16 digits)</th></tr>"
    dropped = "".join(
        f"<tr><td>{escape(reason)}</td><td class='n'>{count:,}</td></tr>"
        for reason, count in report.dropped.items()
    )
    sets = ", ".join(
        f"{name.replace('_', ' ')} {count:,}" for name, count in report.test_pairs.items()
    )
    return (
        f"<h2>Data</h2>{_table(header + rows)}<p>{escape(report.replay)} Training pairs after "
        f"cleaning, with replayed ones: {report.kept_pairs:,}. Pairs of the fixed sets: {sets}.</p>"
        + (
            f"<details><summary>Pairs that were dropped, by reason</summary>{_table(dropped)}"
            "</details>"
            if dropped
            else ""
        )
    )


def _cost(report: AdaptationReport) -> str:
    cost = report.cost
    boxes = [
        (f"{cost.minutes:.1f} min", f"training time on {cost.device}"),
        (f"{cost.cpu_seconds:,.0f} s", "processor time of the last session"),
        (f"{cost.updates:,}", "updates"),
        (f"{cost.pairs:,}", "pairs seen"),
        (f"{cost.flops:.2g}", "FLOPs (estimated)"),
    ]
    figures = (f'<div class="figure"><b>{value}</b>{escape(label)}</div>' for value, label in boxes)
    return f'<h2>Cost</h2><div class="figures">{"".join(figures)}</div>'
