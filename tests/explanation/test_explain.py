"""An explanation shows what the model computed for the translation that `translate` gives."""

import numpy as np
import pytest
import torch

from dragoman import DragomanError, Translator, explain
from dragoman.decoding.engines.pytorch import PyTorch
from dragoman.decoding.ensemble import Ensemble
from dragoman.errors import ArtifactError, DataError
from dragoman.inference.loading import LoadedModel
from dragoman.interop.ctranslate2 import export
from dragoman.model.record import record
from dragoman.tokenizer.interface import BEGIN, END
from support.decoding_models import WithoutCache
from support.explained import SENTENCE, small_translator
from support.sets import first_quick
from support.small_models import BASELINES, EVERY_PART
from support.translator_models import echo, lines, write_run

TOLERANCE = 1e-5
"""Float32 sums in another order differ by less: one position at a time, or all at once."""
SEARCHES = [
    {"search": "greedy"},
    {"search": "greedy", "length_penalty": 0.0, "patience": 3.0},
    {"beam_size": 1},
    {"beam_size": 4},
    {"beam_size": 3, "length_penalty": 0.0},
    {"beam_size": 3, "patience": 2.0, "length_normalization": "gnmt"},
    {"beam_size": 2, "no_repeat_ngram_size": 1, "repetition_penalty": 1.3, "min_length": 3},
    {"search": "sample", "num_hypotheses": 2},
]


def ids_of(translator, explanation):
    """The ids of the source with its end, and of the output."""
    source = [*translator.ids(explanation.sentence), END]
    numbers = {piece: number for number, piece in enumerate(all_pieces(translator))}
    return source, [numbers.get(token.token, END) for token in explanation.tokens]


def all_pieces(translator):
    return translator.target.pieces(range(translator.target.size))


COVERED = {"beam_size": 4, "coverage_penalty": 1.5}


@pytest.mark.parametrize("decoding", first_quick([*SEARCHES, COVERED]), ids=str)
def test_the_translation_is_that_of_translate(decoding):
    translator = small_translator(**decoding)
    for line in lines(2):
        explanation = explain(translator, line)
        (usual,) = translator.translate([line])
        assert explanation.translation == usual.text
        assert explanation.score == pytest.approx(usual.score, abs=TOLERANCE)
        assert explanation.source_tokens[:-1] == usual.source_tokens
        tokens = tuple(token.token for token in explanation.tokens)
        assert tokens[: len(usual.tokens)] == usual.tokens


@pytest.mark.parametrize("decoding", SEARCHES, ids=str)
def test_probabilities_are_those_of_the_search(decoding):
    """Their product is the score of the search, including all logits processors."""
    translator = small_translator(retry=False, **decoding)
    explanation = explain(translator, SENTENCE)
    total = sum(np.log(token.probability) for token in explanation.tokens)
    search = translator.engine.search(translator.settings)
    normalized = search.normalize(total, len(explanation.tokens))
    assert normalized == pytest.approx(explanation.score, abs=TOLERANCE)


@pytest.mark.slow
def test_the_coverage_penalty_is_part_of_the_scores_of_complete_translations():
    """It follows from the alignment of the page: the mean over heads of the top cross-attention."""
    translator = small_translator(retry=False, **COVERED)
    explanation = explain(translator, SENTENCE)
    coverage = np.minimum(explanation.alignment.sum(axis=0), 1)
    best, *others = explanation.search.finished
    normalize = translator.engine.search(translator.settings).normalize
    expected = normalize(best.total, best.length) + 1.5 * np.log(coverage).sum()
    assert explanation.score == best.score == pytest.approx(expected, abs=1e-4)
    assert all(other.score <= best.score for other in others)


def test_probabilities_and_alternatives_are_those_of_the_model():
    translator = small_translator(seed=5, beam_size=4)
    explanation = explain(translator, SENTENCE)
    source, output = ids_of(translator, explanation)
    model, pieces = translator.engine.model, all_pieces(translator)
    # The reference: token by token and without a cache.
    slow = WithoutCache(model)
    memory = slow.encode(torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool))
    cache = None
    for last, number, token in zip([BEGIN, *output], output, explanation.tokens, strict=False):
        logits, cache = slow.decode(torch.tensor([[last]]), memory, cache)
        probabilities = logits[0, -1].softmax(dim=-1)
        assert token.probability == pytest.approx(float(probabilities[number]), abs=1e-6)
        order = [
            other for other in probabilities.argsort(descending=True).tolist() if other != number
        ]
        expected = [("⟨end⟩" if other == END else pieces[other]) for other in order[:4]]
        assert [label for label, _ in token.alternatives] == expected
        for (_, probability), other in zip(token.alternatives, order, strict=False):
            assert probability == pytest.approx(float(probabilities[other]), abs=1e-6)


def test_the_recorded_weights_are_bit_identical():
    translator = small_translator(seed=5, beam_size=2)
    explanation = explain(translator, SENTENCE)
    source, output = ids_of(translator, explanation)
    target = torch.tensor([[BEGIN, *output[:-1]]])
    with record(translator.engine.model) as maps, torch.no_grad():
        translator.engine.model(
            torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool), target
        )
    assert len(maps) == len(explanation.attention) == 6
    for recorded, view in zip(maps, explanation.attention, strict=True):
        assert (view.role, view.layer) == (recorded.role, recorded.layer)
        assert np.array_equal(view.weights, recorded.weights[0].numpy())
        assert np.array_equal(view.scores, recorded.scores[0].numpy())
        assert np.array_equal(view.product.queries, recorded.queries[0].numpy())
        assert np.array_equal(view.product.keys, recorded.keys[0].numpy())


@pytest.mark.parametrize(("kind", "name"), first_quick(EVERY_PART, 3))
def test_scores_and_weights_follow_from_what_is_shown(kind, name):
    """The product is the score and its softmax is the weight, where the explanation says so."""
    model = {kind: name} | ({"position_features": 4} if kind == "position" else {})
    explanation = explain(small_translator(seed=5, model=model, search="greedy"), SENTENCE)
    for view in explanation.attention:
        assert np.allclose(view.weights.sum(axis=-1), 1, atol=1e-6)
        assert not view.weights[:, ~view.mask].any()
        if view.product is not None:
            product = view.product.queries.astype(float) @ view.product.keys.swapaxes(1, 2)
            largest = max(1.0, np.abs(view.scores).max())
            assert np.allclose(view.product.scale * product, view.scores, atol=1e-4 * largest)
        if view.is_softmax:
            hidden = np.where(view.mask, view.scores.astype(float), -np.inf)
            powers = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
            assert np.allclose(powers / powers.sum(axis=-1, keepdims=True), view.weights, atol=1e-6)
    has_no_product = name in ("additive", "concat")
    for view in explanation.with_role("cross"):
        assert (view.product is None) == has_no_product
    encoder = explanation.with_role("encoder")
    for view in encoder:
        assert (view.product is None) == (has_no_product or name == "shaw")
    assert ("the distance of the two tokens" in encoder[0].similarity) == (name == "shaw")
    assert all(view.is_softmax == (name != "hard") for view in explanation.attention)


@pytest.mark.slow
def test_a_similarity_is_described_by_its_equation():
    similarities = {
        name: explain(small_translator(model={"similarity": name}), "One two.")
        .attention[0]
        .similarity
        for name in ("scaled_dot", "additive")
    }
    assert similarities["scaled_dot"] == "Scaled dot-product similarity, s(q, k) = qᵀ k / √d"
    assert similarities["additive"] == (
        "Additive similarity: a small network scores each pair, s(q, k) = vᵀ tanh(W q + U k)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
def test_networks_with_less_attention_have_fewer_maps(name):
    explanation = explain(small_translator(model=BASELINES[name]), SENTENCE)
    roles = {view.role for view in explanation.attention}
    assert roles == (set() if name == "recurrent" else {"cross"})
    assert (explanation.alignment is None) == (name == "recurrent")
    assert explanation.tokens
    assert explanation.to_html()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sentencepiece", "words", "characters", "bytes"])
def test_every_kind_of_tokenizer(kind):
    explanation = explain(small_translator(kind), "One two.")
    assert explanation.source_tokens[-1] == "⟨end⟩"
    assert explanation.decoder_input[0] == "⟨begin⟩"
    shapes = {view.role: view.weights.shape[1:] for view in explanation.attention}
    sizes = len(explanation.source_tokens), len(explanation.tokens)
    assert shapes == {
        "encoder": (sizes[0], sizes[0]),
        "decoder": (sizes[1], sizes[1]),
        "cross": (sizes[1], sizes[0]),
    }
    assert explanation.decoder_input[1:] == tuple(token.token for token in explanation.tokens[:-1])


@pytest.mark.slow
def test_a_truncated_translation_has_no_end_token():
    translator = small_translator(retry=False, max_extra_tokens=0)
    translator.engine.model.output.bias[END] = -100.0
    explanation = explain(translator, SENTENCE)
    assert len(explanation.tokens) == 64
    assert "⟨end⟩" not in [token.token for token in explanation.tokens]
    assert explanation.notes[0].startswith("The translation looks wrong (")
    assert explanation.search.steps[-1][0].outcome == "truncated"


@pytest.mark.slow
def test_a_second_search_is_reported():
    """A translation that looks wrong is searched again, as `translate` does."""
    translator = small_translator(max_extra_tokens=0)
    translator.engine.model.output.bias[END] = -3.0
    explanations = [explain(translator, line) for line in lines(6)]
    usual = translator.translate(lines(6))
    assert [explanation.translation for explanation in explanations] == [
        translation.text for translation in usual
    ]
    assert [bool(explanation.notes) for explanation in explanations] == [
        bool(translation.flags) for translation in usual
    ]
    assert any(explanation.notes for explanation in explanations)


# Errors


def test_an_export_cannot_be_explained(tmp_path):
    export(write_run(tmp_path / "run"), tmp_path / "exported")
    with pytest.raises(ArtifactError, match="give the run"):
        explain(tmp_path / "exported", "One.")
    with pytest.raises(ArtifactError, match=r"Translator\.load\(RUN, engine='pytorch'\)"):
        explain(Translator.load(tmp_path / "exported"), "One.")


def test_other_engines_and_ensembles_cannot_be_explained():
    with pytest.raises(ArtifactError, match="the engine echo does not give access to the inside"):
        explain(echo(), "One.")
    first = small_translator()
    both = PyTorch(Ensemble([first.engine.model, first.engine.model]))
    ensemble = LoadedModel(both, first.recipe, (first.source, first.target), "both")
    with pytest.raises(ArtifactError, match="name one of the runs"):
        explain(Translator(ensemble), "One.")


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (" ", "nothing to translate"),
        ("one two three four", "explain one of its sentences"),
        ("one\ntwo", "contains a newline"),
    ],
)
def test_sentences_that_cannot_be_explained(sentence, message):
    with pytest.raises(DataError, match=message):
        explain(small_translator(max_source_tokens=3), sentence)


def test_settings_change_those_of_a_run_and_not_of_a_translator(tmp_path):
    run = write_run(tmp_path / "run")
    assert explain(run, "One two.", ["decoding.beam_size=2"]).search.beam_size == 2
    with pytest.raises(DataError, match="settings of a loaded translator cannot be changed"):
        explain(Translator.load(run, engine="pytorch"), "One two.", ["decoding.beam_size=2"])
    with pytest.raises(DragomanError, match="only settings of decoding"):
        explain(run, "One two.", ["model.width=3"])


def test_a_long_sentence_can_be_explained():
    explanation = explain(small_translator(beam_size=1), " ".join(["one two three"] * 34))
    assert len(explanation.source_tokens) > 100
    assert explanation.to_html()
