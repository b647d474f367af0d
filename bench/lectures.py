"""Write the experiments of each lecture page (docs/lectures/) from the findings of the lab.

    python bench/lectures.py

The part between two comments of each page is replaced: one row per claim that the lecture makes,
with the verdict of the stored finding, and its figure.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.lab.catalog import ClaimEntry, list_claims
from dragoman.lab.finding import Finding, read_findings
from dragoman.lab.lectures import LECTURES
from dragoman.lab.page import anchor

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- experiments -->\n", "<!-- end of experiments -->\n"


def page_of(short_form: str) -> Path:
    """Return the page of a lecture."""
    return DOCS / "lectures" / f"{short_form.lower()}.md"


def experiments(findings: list[Finding], missing: list[ClaimEntry]) -> str:
    """Return a table of claims and verdicts, then the figures."""
    lines = ["| claim | verdict |", "|---|---|"]
    for finding in findings:
        link = f"[{finding.number} {finding.title}](../lab/README.md#{anchor(finding)})"
        lines.append(f"| {link} | {finding.verdict} |")
    lines += [
        f"| {claim.number} {claim.title} | inconclusive (measurement not finished) |"
        for claim in missing
    ]
    if missing:
        lines += ["", "A claim whose measurement is not finished has no figure here."]
    for finding in findings:
        lines += ["", f"**{finding.number} {finding.title}**: {finding.verdict}. {finding.summary}"]
        lines += ["", f"![{finding.title}](../lab/{finding.stem}.svg)"]
    return "\n".join(lines) + "\n"


def with_experiments(text: str, short_form: str, findings: list[Finding]) -> str:
    """Return the text of a page with the experiments of its lecture."""
    own = [finding for finding in findings if short_form in finding.lectures]
    measured = {finding.number for finding in findings}
    missing = [
        claim
        for number, claim in list_claims().items()
        if number not in measured and short_form in claim.lectures
    ]
    begin, end = text.index(BEGIN), text.index(END)
    return f"{text[:begin]}{BEGIN}{experiments(own, missing)}{text[end:]}"


def main() -> None:
    """Rewrite the five pages."""
    findings = read_findings(DOCS / "lab")
    for short_form in LECTURES:
        path = page_of(short_form)
        text = with_experiments(path.read_text(encoding="utf-8"), short_form, findings)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
