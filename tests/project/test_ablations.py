"""The page of the ablations shows the stored figures."""

from __future__ import annotations

from bench import ablations


def test_the_table_is_that_of_the_figures():
    page = ablations.PAGE.read_text(encoding="utf-8")
    begin, end = page.index(ablations.BEGIN) + len(ablations.BEGIN), page.index(ablations.END)
    table = ablations.table(ablations.read_figures())
    assert page[begin:end] == table, "type: python bench/ablations.py write"


def test_every_figure_belongs_to_a_row():
    assert ablations.read_figures().keys() <= {row.name for row in ablations.ROWS}
