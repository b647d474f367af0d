"""Preparation does not write through symbolic links that lead out of the prepared folder."""

import pytest

from dragoman.errors import ArtifactError
from dragoman.workflow.preparation import prepare


@pytest.mark.parametrize("name", ["work", "tokenizer", "manifest.json"])
def test_prepare_refuses_a_link_that_leads_outside(tmp_path, name):
    (tmp_path / "text.en").write_text("one\n", encoding="utf-8")
    (tmp_path / "text.de").write_text("eins\n", encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(
        "preset: tiny\nlanguages: {source: en, target: de}\n"
        "corpus: {train: [{files: [text.en, text.de]}]}\n",
        encoding="utf-8",
    )
    (tmp_path / "outside").mkdir()
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(ArtifactError, match="symbolic link"):
        prepare(tmp_path / "recipe.yaml")
    assert list((tmp_path / "outside").iterdir()) == []
