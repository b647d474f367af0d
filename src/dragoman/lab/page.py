"""The pages of the gallery: Markdown for GitHub and one self-contained HTML file."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from dragoman.lab.catalog import list_claims
from dragoman.lab.experiment import Verdict
from dragoman.lab.finding import Finding
from dragoman.lab.lectures import LECTURES

_HEADING = "Claims of the lectures, tested"
_INTRODUCTION = (
    "Each claim is one file in `src/dragoman/lab/claims/`. A test shows with made-up "
    "numbers that its criterion can fail. A quick run is short and uses few seeds, so its "
    "verdict may be due to chance. *Steps until learned* counts the steps until the mean training "
    "loss of ten steps is below 0.1 nats per symbol; *correct examples* are always new ones. The "
    "time is what this run took on one core; a claim reuses translation models that another claim "
    "has trained. A finding is outdated if the code that measures its claim has changed since. The "
    "same command gives the same numbers on the same kind of processor with the same version of "
    "PyTorch, except for times (C4, C8, C14, C24, C26, and the minutes of a training), and for C1, "
    "C17 and C18, which were measured when `training.precision: auto` could still be bfloat16 for "
    "small models. A finding that names no processor is older than this record. On another kind of "
    "processor sums are added in another order, and after some hundred updates a training differs "
    "as if it had another seed; the verdict should be the same."
)
_OUTDATED = "outdated: measured with earlier code"
_SYMBOLS: Mapping[Verdict, str] = {
    "supported": "●",
    "partly supported": "◐",
    "not supported": "○",
    "inconclusive": "?",
}


def markdown_page(findings: Sequence[Finding]) -> str:
    """A table of verdicts, then one section per claim."""
    lines = [f"# {_HEADING}", "", _INTRODUCTION, "", "Lectures:", ""]
    lines += [f"- [{short_form}] {title}" for short_form, title in LECTURES.items()]
    lines += ["", "| claim | verdict | command | seconds |", "|---|---|---|---|"]
    for finding in findings:
        link = f"[{finding.number} {finding.title}](#{anchor(finding)})"
        verdict = f"{_SYMBOLS[finding.verdict]} {finding.verdict}"
        verdict += " (outdated)" if finding.is_outdated else ""
        lines.append(f"| {link} | {verdict} | `{finding.command}` | {finding.seconds:.0f} |")
    if missing := _missing(findings):
        lines += ["", missing]
    for finding in findings:
        lines += ["", *_markdown_section(finding)]
    return "\n".join(lines) + "\n"


def _missing(findings: Sequence[Finding]) -> str:
    """A sentence that names the claims without a finding."""
    found = {finding.number for finding in findings}
    missing = [number for number in list_claims() if number not in found]
    return f"Not measured here, so inconclusive: {', '.join(missing)}." if missing else ""


def _markdown_section(finding: Finding) -> Iterator[str]:
    yield f"## {finding.number} {finding.title}"
    yield ""
    for lecture, section, text in finding.sources:
        yield f"- [{lecture}] *{section}*: {text}"
    yield ""
    yield f"*Our reading.* {finding.claim}"
    yield ""
    outdated = f" ({_OUTDATED})" if finding.is_outdated else ""
    yield f"**{_SYMBOLS[finding.verdict]} {finding.verdict}{outdated}.** {finding.summary}"
    yield ""
    yield f"![{finding.title}]({finding.stem}.svg)"
    yield ""
    yield f"*Numbers.* {finding.explanation}"
    yield ""
    yield f"*Method.* {finding.method}"
    yield ""
    yield f"*Criterion.* {finding.criterion}"


def anchor(finding: Finding) -> str:
    """The anchor that GitHub makes from the heading."""
    heading = f"{finding.number} {finding.title}".lower()
    kept = (character for character in heading if character.isalnum() or character in " -_")
    return "".join(kept).replace(" ", "-")


_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6472; --paper: #ffffff;
  --panel: #f4f6f9; --line: #d9dee6; --link: #0b5fa5;
  --supported: #0a7d55; --partly: #9a6700; --not: #b3261e; --inconclusive: #5b6472; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #a3adbb; --paper: #14181f;
  --panel: #1d232d; --line: #333c49; --link: #7cc0ff;
  --supported: #4fcf9f; --partly: #e5b454; --not: #ff8a80; --inconclusive: #a3adbb; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 52rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { line-height: 1.2; } h2 { line-height: 1.25; margin: 0 0 .5rem; font-size: 1.25rem; }
a { color: var(--link); }
ol, ul { padding-left: 1.2rem; }
ul.claims { list-style: none; padding: 0; border-top: 1px solid var(--line); }
ul.claims li { display: flex; flex-wrap: wrap; gap: .1rem .8rem; padding: .35rem 0;
  border-bottom: 1px solid var(--line); }
ul.claims a { flex: 1 1 16rem; }
section { margin-top: 2rem; padding: 1.2rem; background: var(--panel); border-radius: .6rem; }
.verdict { font-weight: 650; white-space: nowrap; }
.supported { color: var(--supported); } .partly-supported { color: var(--partly); }
.not-supported { color: var(--not); } .inconclusive { color: var(--inconclusive); }
.soft { color: var(--soft); font-size: .9rem; }
img { display: block; width: 100%; height: auto; margin: 1rem 0; padding: .6rem;
  background: #ffffff; border-radius: .4rem; }
summary { cursor: pointer; } code { font-size: .9em; }
"""


def html_page(findings: Sequence[Finding], figures: Mapping[str, bytes]) -> str:
    """One file without external resources; `figures` are SVG files by the number of the claim."""
    introduction = re.sub("`(.+?)`", r"<code>\1</code>", escape(_INTRODUCTION))
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_HEADING}</title>",
        f"<style>{_STYLE}</style>",
        f"<h1>{_HEADING}</h1>",
        f"<p>{introduction}</p>",
        '<ul class="claims">',
        *(_html_row(finding) for finding in findings),
        "</ul>",
        f"<p>{_missing(findings)}</p>",
        *(_html_section(finding, figures[finding.number]) for finding in findings),
        "<section><h2>Lectures</h2><ul>",
        *(f"<li>[{short}] {escape(title)}</li>" for short, title in LECTURES.items()),
        "</ul></section>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _html_row(finding: Finding) -> str:
    name = escape(f"{finding.number} {finding.title}")
    return f'<li><a href="#{finding.stem}">{name}</a>{_html_verdict(finding)}</li>'


def _html_verdict(finding: Finding) -> str:
    style = finding.verdict.replace(" ", "-")
    return f'<span class="verdict {style}">{_SYMBOLS[finding.verdict]} {finding.verdict}</span>'


def _html_section(finding: Finding, figure: bytes) -> str:
    # As an image, because the element ids of several inline SVG files would collide.
    source = f"data:image/svg+xml;base64,{b64encode(figure).decode()}"
    sources = "".join(
        f"<li>{escape(f'[{lecture}] {section}: {text}')}</li>"
        for lecture, section, text in finding.sources
    )
    outdated = f'<p class="not-supported">{_OUTDATED}</p>' if finding.is_outdated else ""
    return f"""<section id="{finding.stem}">
<h2>{escape(f"{finding.number} {finding.title}")}</h2>
<ul class="soft">{sources}</ul>
<p><em>{escape(finding.claim)}</em></p>
<p>{_html_verdict(finding)}. {escape(finding.summary)}</p>{outdated}
<img src="{source}" alt="{escape(finding.title)}">
<p>{escape(finding.explanation)}</p>
<details><summary>Method and criterion</summary>
<p>{escape(finding.method)}</p>
<p>{escape(finding.criterion)}</p>
</details>
<p class="soft"><code>{escape(finding.command)}</code>, {finding.seconds:.0f} s on one core</p>
</section>"""
