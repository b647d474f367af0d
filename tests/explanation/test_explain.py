"""Does an explanation say what the model computed, of the translation that is always given?"""

import numpy as np
import pytest
import torch

from decoding_models import WholePrefix
from dragoman import DragomanError, Translator, explain
from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.pytorch import PyTorch
from dragoman.engines import Served
from dragoman.errors import ArtifactError, DataError
from dragoman.exporting.ctranslate2 import export
from dragoman.model.record import record
from dragoman.tokenizer.interface import BEGIN, END
from explanation.explained import SENTENCE, small_translator
from small_models import EVERY_PART, RIVALS
from translator_models import echo, lines, write_run

SUMS = 1e-5
"""Float32 sums in another order differ so much: one place at a time, or all at once."""
SEARCHES = [
    {"search": "greedy"},
    {"search": "greedy", "length_penalty": 0.0, "patience": 3.0},
    {"beam": 1},
    {"beam": 4},
    {"beam": 3, "length_penalty": 0.0},
    {"beam": 3, "patience": 2.0, "length_form": "gnmt"},
    {"beam": 2, "no_repeat": 1, "repetition_penalty": 1.3, "minimum_length": 3},
    {"search": "sample", "hypotheses": 2},
]


def ids_of(translator, explanation):
    """The source with its end, and what was written."""
    source = [*translator.ids(explanation.sentence), END]
    named = {piece: number for number, piece in enumerate(all_pieces(translator))}
    return source, [named.get(each.token, END) for each in explanation.words]


def all_pieces(translator):
    return translator.target.pieces(range(translator.target.size))


@pytest.mark.parametrize("decoding", SEARCHES, ids=str)
def test_the_translation_is_the_one_that_is_always_given(decoding):
    translator = small_translator(**decoding)
    for line in lines(2):
        explanation = explain(translator, line)
        (usual,) = translator.translate([line])
        assert explanation.translation == usual.text
        assert explanation.score == pytest.approx(usual.score, abs=SUMS)
        assert explanation.source[:-1] == usual.source_tokens
        assert tuple(each.token for each in explanation.words)[: len(usual.tokens)] == usual.tokens


@pytest.mark.parametrize("decoding", SEARCHES, ids=str)
def test_probabilities_are_those_of_the_search(decoding):
    """Together they are its score, guards and all."""
    translator = small_translator(retry=False, **decoding)
    explanation = explain(translator, SENTENCE)
    total = sum(np.log(each.probability) for each in explanation.words)
    search = translator.engine.search(translator.settings)
    made_up_for = search.normalise(total, len(explanation.words))
    assert made_up_for == pytest.approx(explanation.score, abs=SUMS)


def test_probabilities_and_alternatives_are_those_of_the_model():
    translator = small_translator(seed=5, beam=4)
    explanation = explain(translator, SENTENCE)
    source, written = ids_of(translator, explanation)
    model, pieces = translator.engine.model, all_pieces(translator)
    # Token by token and without a cache: the slow way.
    slow = WholePrefix(model)
    memory = slow.encode(torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool))
    cache = None
    for last, number, word in zip([BEGIN, *written], written, explanation.words, strict=False):
        logits, cache = slow.decode(torch.tensor([[last]]), memory, cache)
        chances = logits[0, -1].softmax(dim=-1)
        assert word.probability == pytest.approx(float(chances[number]), abs=1e-6)
        order = [each for each in chances.argsort(descending=True).tolist() if each != number]
        expected = [("⟨end⟩" if each == END else pieces[each]) for each in order[:4]]
        assert [token for token, _ in word.alternatives] == expected
        for (_, chance), each in zip(word.alternatives, order, strict=False):
            assert chance == pytest.approx(float(chances[each]), abs=1e-6)


def test_weights_are_recorded_to_the_bit():
    translator = small_translator(seed=5, beam=2)
    explanation = explain(translator, SENTENCE)
    source, written = ids_of(translator, explanation)
    target = torch.tensor([[BEGIN, *written[:-1]]])
    with record(translator.engine.model) as maps, torch.no_grad():
        translator.engine.model(
            torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool), target
        )
    assert len(maps) == len(explanation.looks) == 6
    for seen, look in zip(maps, explanation.looks, strict=True):
        assert (look.kind, look.layer) == (seen.kind, seen.layer)
        assert np.array_equal(look.weights, seen.weights[0].numpy())
        assert np.array_equal(look.scores, seen.scores[0].numpy())
        assert np.array_equal(look.product.queries, seen.queries[0].numpy())
        assert np.array_equal(look.product.keys, seen.keys[0].numpy())


@pytest.mark.parametrize(("kind", "name"), EVERY_PART)
def test_scores_and_weights_follow_from_what_is_shown(kind, name):
    """The product is the score, and its softmax the weight, or neither is claimed."""
    model = {kind: name} | ({"position_features": 4} if kind == "position" else {})
    explanation = explain(small_translator(seed=5, model=model, search="greedy"), SENTENCE)
    for look in explanation.looks:
        assert np.allclose(look.weights.sum(axis=-1), 1, atol=1e-6)
        assert not look.weights[:, ~look.mask].any()
        if look.product is not None:
            product = look.product.queries.astype(float) @ look.product.keys.swapaxes(1, 2)
            largest = max(1.0, np.abs(look.scores).max())
            assert np.allclose(look.product.scale * product, look.scores, atol=1e-4 * largest)
        if look.is_softmax:
            hidden = np.where(look.mask, look.scores.astype(float), -np.inf)
            powers = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
            assert np.allclose(powers / powers.sum(axis=-1, keepdims=True), look.weights, atol=1e-6)
    has_no_product = name in ("additive", "concat")
    assert all((each.product is None) == has_no_product for each in explanation.of_kind("cross"))
    own = explanation.of_kind("encoder")
    assert all((each.product is None) == (has_no_product or name == "shaw") for each in own)
    assert ("how far apart" in own[0].similarity) == (name == "shaw")
    assert all(each.is_softmax == (name != "hard") for each in explanation.looks)


def test_a_similarity_is_told_by_its_equation():
    told = {
        name: explain(small_translator(model={"similarity": name}), "One two.").looks[0].similarity
        for name in ("scaled_dot", "additive")
    }
    assert told["scaled_dot"] == "Scaled dot product: s(q, k) = qᵀ k / √d"
    assert told["additive"] == "Additive, a small network: s(q, k) = vᵀ tanh(W q + U k)"


@pytest.mark.parametrize("name", RIVALS)
def test_networks_with_less_attention_have_fewer_maps(name):
    explanation = explain(small_translator(model=RIVALS[name]), SENTENCE)
    kinds = {each.kind for each in explanation.looks}
    assert kinds == (set() if name == "recurrent" else {"cross"})
    assert (explanation.alignment is None) == (name == "recurrent")
    assert explanation.words
    assert explanation.to_html()


@pytest.mark.parametrize("kind", ["sentencepiece", "words", "characters", "bytes"])
def test_every_kind_of_tokenizer(kind):
    explanation = explain(small_translator(kind), "One two.")
    assert explanation.source[-1] == "⟨end⟩"
    assert explanation.read[0] == "⟨begin⟩"
    shapes = {each.kind: each.weights.shape[1:] for each in explanation.looks}
    sizes = len(explanation.source), len(explanation.words)
    assert shapes == {
        "encoder": (sizes[0], sizes[0]),
        "decoder": (sizes[1], sizes[1]),
        "cross": (sizes[1], sizes[0]),
    }
    assert explanation.read[1:] == tuple(each.token for each in explanation.words[:-1])


def test_a_translation_that_is_cut_has_no_end():
    translator = small_translator(retry=False, extra_length=0)
    translator.engine.model.output.bias[END] = -100.0
    explanation = explain(translator, SENTENCE)
    assert len(explanation.words) == 64
    assert "⟨end⟩" not in [each.token for each in explanation.words]
    assert explanation.notes[0].startswith("The translation looks wrong (")
    assert explanation.search.steps[-1][0].fate == "cut"


@pytest.mark.slow
def test_a_second_search_is_told():
    """What looks wrong is searched again, as a translator does; that search is shown."""
    translator = small_translator(extra_length=0)
    translator.engine.model.output.bias[END] = -3.0
    told = [explain(translator, line) for line in lines(6)]
    usual = translator.translate(lines(6))
    assert [each.translation for each in told] == [each.text for each in usual]
    assert [bool(each.notes) for each in told] == [bool(each.flags) for each in usual]
    assert any(each.notes for each in told)


# What cannot be explained


def test_an_export_cannot_be_explained(tmp_path):
    export(write_run(tmp_path / "run"), tmp_path / "served")
    with pytest.raises(ArtifactError, match="name its run"):
        explain(tmp_path / "served", "One.")
    with pytest.raises(ArtifactError, match=r"Translator\.load\(RUN, engine='pytorch'\)"):
        explain(Translator.load(tmp_path / "served"), "One.")


def test_other_engines_and_ensembles_cannot_be_explained():
    with pytest.raises(ArtifactError, match="echo does not show what happens inside"):
        explain(echo(), "One.")
    first = small_translator()
    both = PyTorch(Ensemble([first.engine.model, first.engine.model]))
    served = Served(both, first.recipe, (first.source, first.target), "both")
    with pytest.raises(ArtifactError, match="name one of them"):
        explain(Translator(served), "One.")


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        (" ", "nothing to translate"),
        ("one two three four", "explain one of its sentences"),
        ("one\ntwo", "holds a line end"),
    ],
)
def test_sentences_that_cannot_be_explained(sentence, told):
    with pytest.raises(DataError, match=told):
        explain(small_translator(longest=3), sentence)


def test_settings_change_those_of_a_run_and_not_of_a_translator(tmp_path):
    run = write_run(tmp_path / "run")
    assert explain(run, "One two.", ["decoding.beam=2"]).search.width == 2
    with pytest.raises(DataError, match="has its settings"):
        explain(Translator.load(run, engine="pytorch"), "One two.", ["decoding.beam=2"])
    with pytest.raises(DragomanError, match=r"only decoding"):
        explain(run, "One two.", ["model.width=3"])


def test_a_long_sentence_can_be_explained():
    explanation = explain(small_translator(beam=1), " ".join(["one two three"] * 34))
    assert len(explanation.source) > 100
    assert explanation.to_html()
