"""A user can add a similarity with one new file, and change nothing else."""

import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F  # noqa: N812  (its usual name)

from dragoman.decoding.greedy import Greedy
from dragoman.errors import RecipeError
from dragoman.model.build import build_from_recipe
from dragoman.recipe.files import load_recipe
from dragoman.recipe.schema import DecodingRecipe
from support.contract import check_all
from support.small_models import sentences

GAUSSIAN = '''\
"""Gaussian similarity: s(q, k) = -|q - k|^2 / (2 sigma^2)."""

from dragoman.model.parts import Similarity


class Gaussian(Similarity):
    def __init__(self, size: int, *, sigma: float = 1.0) -> None:
        super().__init__()
        self.scale = 1 / (2 * sigma**2)

    def forward(self, queries, keys):
        difference = queries.unsqueeze(-2) - keys.unsqueeze(-3)
        return -self.scale * difference.square().sum(dim=-1)
'''

RECIPE = """\
preset: tiny
tokenizer: {vocabulary_size: 13}
model:
  similarity: {name: my_parts.gaussian, sigma: 2.0}
  dropout: 0.0
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "my_parts").mkdir()
    (tmp_path / "my_parts" / "gaussian.py").write_text(GAUSSIAN, encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("my_parts", "my_parts.gaussian"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_it_can_be_built_trained_and_decoded_and_fulfills_the_contract(project):
    recipe = load_recipe(project / "recipe.yaml")
    model = build_from_recipe(recipe)
    similarity = model.decoder.layers[0].cross_attention.attention.similarity
    assert (type(similarity).__name__, similarity.scale) == ("Gaussian", 1 / 8)

    source, is_real, target = sentences()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        logits = model(source, is_real, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]

    model.eval()
    hypotheses = Greedy(DecodingRecipe(max_extra_tokens=5), begin=1, end=2).run(
        model, source, is_real
    )
    assert len(hypotheses) == len(source)
    check_all(model, recipe.model)


def test_its_options_are_checked(project):
    recipe = load_recipe(project / "recipe.yaml", ["model.similarity.sigma=wide"])
    with pytest.raises(RecipeError, match=r"model.similarity.sigma\n.*found 'wide'"):
        build_from_recipe(recipe)


@pytest.mark.slow
def test_the_command_shows_it(project):
    shown = subprocess.run(
        [sys.executable, "-m", "dragoman", "show", "recipe.yaml", "--model"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=project,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert shown.returncode == 0, shown.stderr
    assert "Gaussian" in shown.stdout
