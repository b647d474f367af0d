"""Tests of ensembles."""

import pytest
import torch

from dragoman.decoding.beam import Beam
from dragoman.decoding.ensemble import Ensemble
from dragoman.recipe.schema import DecodingRecipe
from support.decoding_models import varied_model
from support.small_models import sentences

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1, 3, 6)


@torch.no_grad()
def test_probabilities_are_averaged():
    models = [varied_model(seed, norm=norm) for seed, norm in ((0, "pre"), (1, "post"), (2, "pre"))]
    source, is_real, target = sentences()
    together = Ensemble(models)
    logits, _ = together.decode(target, together.encode(source, is_real), None)
    probabilities = torch.stack([model(source, is_real, target).softmax(-1) for model in models])
    torch.testing.assert_close(logits.exp(), probabilities.mean(dim=0))


@pytest.mark.slow
def test_an_ensemble_of_one_model_twice_gives_the_same_translations():
    model = varied_model()
    search = Beam(DecodingRecipe(num_hypotheses=3, max_extra_tokens=9), BEGIN, END)
    source, is_real, _ = sentences(LENGTHS)
    alone = search.run(model, source, is_real)
    together = search.run(Ensemble([model, model]), source, is_real)
    assert [[hypothesis.tokens for hypothesis in nbest] for nbest in alone] == [
        [hypothesis.tokens for hypothesis in nbest] for nbest in together
    ]


@pytest.mark.slow
def test_models_of_different_sizes_can_be_combined():
    models = [varied_model(0), varied_model(1, decoder_layers=1, width=32)]
    source, is_real, _ = sentences(LENGTHS)
    search = Beam(DecodingRecipe(max_extra_tokens=9), BEGIN, END)
    answers = search.run(Ensemble(models), source, is_real)
    assert len(answers) == len(LENGTHS)
    alone = [search.run(model, source, is_real) for model in models]
    assert answers not in alone
