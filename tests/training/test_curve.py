"""The curve of a run is a complete PNG file with labeled losses."""

import struct

import pytest
from matplotlib.figure import Figure

from dragoman.training.curve import draw_curve

ENTRIES = [
    *({"kind": "progress", "step": step, "loss": 3 / step} for step in range(1, 13)),
    {"kind": "validation", "step": 4, "loss": 2.0, "bleu": 3.5, "is_best": True},
    {"kind": "skipped", "step": 7},
    {"kind": "validation", "step": 8, "loss": 1.5, "bleu": 12.5, "is_best": True},
    {"kind": "validation", "step": 12, "loss": 1.6, "bleu": 11.5, "is_best": False},
]


def png_size(path):
    """Width and height from the header."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82"), "the file is complete"
    return struct.unpack(">II", content[16:24])


def test_a_run_is_drawn_as_a_png_that_fits_a_page(tmp_path):
    path = tmp_path / "curve.png"
    draw_curve(iter(ENTRIES), path, "en–de, 12 updates", 0.1)
    assert png_size(path) == (960, 720)
    # Lines on white: not an empty page, and not a photograph.
    assert 10_000 < path.stat().st_size < 200_000
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_run_without_validation_is_drawn_too(tmp_path):
    path = tmp_path / "curve.png"
    draw_curve([], path, "no updates", 0.0)
    assert png_size(path) == (960, 720)


@pytest.fixture
def figures(monkeypatch):
    """The figures that are saved."""
    saved = []
    save = Figure.savefig

    def remember(figure, *arguments, **options):
        saved.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", remember)
    return saved


def test_a_general_validation_set_has_a_line_of_its_own(tmp_path, figures):
    entries = [
        entry | {"general_bleu": 30.0} if entry["kind"] == "validation" else entry
        for entry in ENTRIES
    ]
    draw_curve(entries, tmp_path / "curve.png", "title", 0.1)
    axes = figures[0].axes[1]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["in-domain", "general"]
    assert list(axes.lines[1].get_ydata()) == [30.0] * 3
    assert axes.get_ylim()[1] > 30


def test_the_labels_say_which_loss_is_smoothed(tmp_path, figures):
    draw_curve(ENTRIES, tmp_path / "curve.png", "title", 0.1)
    labels = [text.get_text() for text in figures[0].axes[0].get_legend().get_texts()]
    assert labels == ["training loss (label smoothing 0.1)", "validation loss (not smoothed)"]
