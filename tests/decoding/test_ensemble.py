"""Do several models translate as one?"""

import torch

from decoding_models import loud_model
from dragoman.decoding.beam import Beam
from dragoman.decoding.ensemble import Ensemble
from dragoman.recipe import DecodingRecipe
from small_models import sentences

BEGIN, END = 1, 2
LENGTHS = (7, 4, 1, 3, 6)


@torch.no_grad()
def test_probabilities_are_averaged():
    models = [loud_model(seed, norm=norm) for seed, norm in ((0, "pre"), (1, "post"), (2, "pre"))]
    source, is_real, target = sentences()
    together = Ensemble(models)
    logits, _ = together.decode(target, together.encode(source, is_real), None)
    each = torch.stack([model(source, is_real, target).softmax(-1) for model in models])
    torch.testing.assert_close(logits.exp(), each.mean(dim=0))


def test_a_model_with_itself_is_itself():
    model, search = loud_model(), Beam(DecodingRecipe(hypotheses=3, extra_length=9), BEGIN, END)
    source, is_real, _ = sentences(LENGTHS)
    alone = search.run(model, source, is_real)
    together = search.run(Ensemble([model, model]), source, is_real)
    assert [[each.tokens for each in of_one] for of_one in alone] == [
        [each.tokens for each in of_one] for of_one in together
    ]


def test_models_of_several_sizes_search_together():
    models = [loud_model(0), loud_model(1, decoder_layers=1, width=32)]
    source, is_real, _ = sentences(LENGTHS)
    search = Beam(DecodingRecipe(extra_length=9), BEGIN, END)
    found = search.run(Ensemble(models), source, is_real)
    assert len(found) == len(LENGTHS)
    alone = [search.run(model, source, is_real) for model in models]
    assert found not in alone
