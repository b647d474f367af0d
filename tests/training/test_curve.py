"""Is the picture of a run a picture?"""

import struct

from dragoman.training.curve import draw_curve

LINES = [
    *({"kind": "learned", "step": step, "loss": 3 / step} for step in range(1, 13)),
    {"kind": "validated", "step": 4, "loss": 2.0, "bleu": 3.5, "is_best": True},
    {"kind": "skipped", "step": 7},
    {"kind": "validated", "step": 8, "loss": 1.5, "bleu": 12.5, "is_best": True},
    {"kind": "validated", "step": 12, "loss": 1.6, "bleu": 11.5, "is_best": False},
]


def size_of(path):
    """Width and height, as its header says them."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82"), "it is complete"
    return struct.unpack(">II", content[16:24])


def test_a_run_is_drawn_as_a_png_that_fits_a_page(tmp_path):
    path = tmp_path / "curve.png"
    draw_curve(iter(LINES), path, "en–de, 12 updates")
    assert size_of(path) == (960, 720)
    # Lines on white: not an empty sheet, and not a photograph.
    assert 10_000 < path.stat().st_size < 200_000
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_run_without_a_validation_is_drawn_too(tmp_path):
    path = tmp_path / "curve.png"
    draw_curve([], path, "nothing yet")
    assert size_of(path) == (960, 720)
