"""The terminal summary of an explanation fits into 80 columns, whatever the tokens are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman import explain
from dragoman.cli.display.explanation import show_explanation
from dragoman.explanation.explanation import Explanation, OutputToken, SearchTrace
from support.explained import SENTENCE, small_translator
from support.small_models import BASELINES

GOLDEN = """\
twenty-three
→ dreiundzwanzig

 output       probability   alternatives
 ─────────────────────────────────────────────────────
 ␣drei             91.2 %   ␣zwei 3.0 %   ␣dreiß 0.1 %
 undzwanzig        88.0 %   unddreißig 7.5 %
 ⟨end⟩             99.9 %


 output       source →   largest weight
 ──────────────────────────────────────
 ␣drei            ██     three 80.0 %
 undzwanzig   ▓▓░░░░▒▒   ␣twenty 60.0 %
 ⟨end⟩              ██   ⟨end⟩ 97.0 %

Top cross-attention, mean of its heads: ░ 5 %, ▒ 20 %, ▓ 40 %, █ 70 % or more.
Wrote page.html
Wrote 2 figures to figures
"""


@pytest.fixture
def printed(monkeypatch, capsys):
    """A function that prints an explanation and returns the text."""
    monkeypatch.setenv("COLUMNS", "80")

    def show(explanation, *more):
        show_explanation(explanation, Path("page.html"), *more)
        lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
        assert max(map(len, lines)) <= 80
        return "\n".join(lines)

    return show


@pytest.fixture
def twenty_three():
    """An explanation with numbers that are easy to read."""
    return Explanation(
        sentence="twenty-three",
        translation="dreiundzwanzig",
        score=-0.1,
        languages=("en", "de"),
        model="none",
        source_tokens=("▁twenty", "-", "three", "⟨end⟩"),
        decoder_input=("⟨begin⟩", "▁drei", "undzwanzig"),
        tokens=(
            OutputToken("▁drei", 0.912, (("▁zwei", 0.03), ("▁dreiß", 0.001))),
            OutputToken("undzwanzig", 0.88, (("unddreißig", 0.075),)),
            OutputToken("⟨end⟩", 0.999, ()),
        ),
        attention=(),
        search=SearchTrace("beam", 2, "power", 1.0, 0.0),
        alignments=(np.array([[0.03, 0.02, 0.8, 0.04], [0.6, 0.1, 0.1, 0.2], [0, 0, 0.03, 0.97]]),),
    )


def test_the_summary_is_printed_exactly(printed, twenty_three):
    figures = [Path("figures/cross.png"), Path("figures/cross.svg")]
    assert printed(twenty_three, figures) == GOLDEN


def test_long_and_wide_tokens_are_shortened(printed, twenty_three):
    wide = tuple(OutputToken("日本語" * 9, 0.5, (("語" * 30, 0.1),) * 4) for _ in range(3))
    assert "…" in printed(replace(twenty_three, tokens=wide))


def test_tokens_cannot_control_the_terminal(printed, twenty_three):
    tokens = (
        OutputToken("\x1b[31m[bold]:smile:", 0.5, (("\x07\r", 0.1),)),
        *twenty_three.tokens[1:],
    )
    text = printed(replace(twenty_three, tokens=tokens, sentence="\x1b]0;x\x07"))
    assert not set(text) & {"\x1b", "\x07", "\r"}
    assert "[31m[bold]:smi" in text


def test_a_long_source_has_no_blocks(printed, twenty_three):
    source = ("one",) * 60
    weights = np.full((3, 60), 1 / 60)
    text = printed(replace(twenty_three, source_tokens=source, alignments=(weights,)))
    assert "source →" not in text
    assert "one 1.7 %" in text


def test_a_missing_cross_attention_is_stated(printed):
    explanation = explain(small_translator(model=BASELINES["recurrent"]), SENTENCE)
    assert "The model has no cross-attention" in printed(explanation)


def test_notes_are_printed(printed, twenty_three):
    assert "! something" in printed(replace(twenty_three, notes=("something",)))
