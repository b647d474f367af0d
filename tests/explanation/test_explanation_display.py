"""Is the summary printed within eighty columns, to the letter, whatever the tokens are?"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman import explain
from dragoman.explanation.explanation import Explanation, SearchStory, Word
from dragoman.explanation_display import show_explanation
from explanation.explained import SENTENCE, small_translator
from small_models import RIVALS

GOLDEN = """\
twenty-three
→ dreiundzwanzig

 written      probability   instead
 ─────────────────────────────────────────────────────
 ␣drei             91.2 %   ␣zwei 3.0 %   ␣dreiß 0.1 %
 undzwanzig        88.0 %   unddreißig 7.5 %
 ⟨end⟩             99.9 %


 written      read →     looks most at
 ──────────────────────────────────────
 ␣drei            ██     three 80.0 %
 undzwanzig   ▓▓░░░░▒▒   ␣twenty 60.0 %
 ⟨end⟩              ██   ⟨end⟩ 97.0 %

Top cross-attention, mean of its heads: ░ 5 %, ▒ 20 %, ▓ 40 %, █ 70 % or more.
Wrote page.html
Drew 2 pictures in figures
"""


@pytest.fixture
def printed(monkeypatch, capsys):
    """What is printed of an explanation."""
    monkeypatch.setenv("COLUMNS", "80")

    def show(explanation, *more):
        show_explanation(explanation, Path("page.html"), *more)
        lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
        assert max(map(len, lines)) <= 80
        return "\n".join(lines)

    return show


@pytest.fixture
def twenty_three():
    """An explanation in numbers that are easy to read."""
    return Explanation(
        sentence="twenty-three",
        translation="dreiundzwanzig",
        score=-0.1,
        languages=("en", "de"),
        model="none",
        source=("▁twenty", "-", "three", "⟨end⟩"),
        read=("⟨begin⟩", "▁drei", "undzwanzig"),
        words=(
            Word("▁drei", 0.912, (("▁zwei", 0.03), ("▁dreiß", 0.001))),
            Word("undzwanzig", 0.88, (("unddreißig", 0.075),)),
            Word("⟨end⟩", 0.999, ()),
        ),
        looks=(),
        search=SearchStory("beam", 2, "power", 1.0),
        alignments=(np.array([[0.03, 0.02, 0.8, 0.04], [0.6, 0.1, 0.1, 0.2], [0, 0, 0.03, 0.97]]),),
    )


def test_the_summary_to_the_letter(printed, twenty_three):
    pictures = [Path("figures/cross.png"), Path("figures/cross.svg")]
    assert printed(twenty_three, pictures) == GOLDEN


def test_long_and_wide_tokens_stay_within_the_line(printed, twenty_three):
    wide = tuple(Word("日本語" * 9, 0.5, (("語" * 30, 0.1),) * 4) for _ in range(3))
    assert "…" in printed(replace(twenty_three, words=wide))


def test_tokens_cannot_steer_the_terminal(printed, twenty_three):
    words = (Word("\x1b[31m[bold]:smile:", 0.5, (("\x07\r", 0.1),)), *twenty_three.words[1:])
    text = printed(replace(twenty_three, words=words, sentence="\x1b]0;x\x07"))
    assert not set(text) & {"\x1b", "\x07", "\r"}
    assert "[31m[bold]:smi" in text


def test_a_long_source_has_no_blocks(printed, twenty_three):
    source = ("one",) * 60
    weights = np.full((3, 60), 1 / 60)
    text = printed(replace(twenty_three, source=source, alignments=(weights,)))
    assert "read →" not in text
    assert "one 1.7 %" in text


def test_what_is_not_there_is_said(printed):
    explanation = explain(small_translator(model=RIVALS["recurrent"]), SENTENCE)
    assert "The model has no cross-attention" in printed(explanation)


def test_notes_are_printed(printed, twenty_three):
    assert "! something" in printed(replace(twenty_three, notes=("something",)))
