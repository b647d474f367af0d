"""CTranslate2 computes the same as our model, and unsupported settings are refused.

Every row of the compatibility table is tested: supported values are exported and compared,
unsupported ones are refused by name.
"""

from __future__ import annotations

import ctranslate2
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dragoman.artifact import finish_artifact, read_artifact
from dragoman.data.batch import collate
from dragoman.decoding.engine import length_limit
from dragoman.decoding.engines.ctranslate2 import CTranslate2
from dragoman.decoding.engines.pytorch import PyTorch
from dragoman.errors import DataError, RecipeError
from dragoman.interop.compatibility import table
from dragoman.interop.compatibility.ctranslate2 import obstacles
from dragoman.interop.ctranslate2 import export
from dragoman.interop.folder import read_export
from dragoman.model.record import record
from dragoman.model.resolve import resolve_parts
from dragoman.model.transformer import Transformer
from dragoman.recipe.schema import DecodingRecipe
from dragoman.tokenizer.folder import load_tokenizer
from support import digits
from support.interop_models import DEFAULTS, Written, small, write_model

pytestmark = pytest.mark.slow  # In CI; `make check` has little time.

# For log-probabilities between 0 and -30 in float32, whose last digit is 2e-6: the order of sums
# differs. Measured: below 9e-6, except for `feed_forward: none` under post-norm (4e-5), where the
# epsilon of a norm is added twice, and for naive positions far from the start (5e-5), which add
# large numbers to small ones. Combinations (2e-4) are allowed more.
TOLERANCE = 1e-4
COMBINED_TOLERANCE = 10 * TOLERANCE


def reasons(path, value):
    mistakes = obstacles(table.changed(path, value))
    return [mistake.what for mistake in mistakes if mistake.path == path]


ROWS = list(table.choices())
SUPPORTED = [row for row in ROWS if not reasons(*row)]
REFUSED = [row for row in ROWS if reasons(*row)]


def by_setting():
    values = {}
    for path, value in SUPPORTED:
        section, setting = path.split(".")
        values.setdefault(section, {}).setdefault(setting, []).append(value)
    return values


def small_of(path, value):
    """The row's recipe with a small model, and greedy search unless it is a row of decoding."""
    recipe = table.changed(path, value)
    is_decoding = path.startswith("decoding.")
    defaults = {**DEFAULTS, "decoding": {"max_extra_tokens": 0}} if is_decoding else DEFAULTS
    changed = {
        section: getattr(recipe, section).model_copy(
            update={key: chosen for key, chosen in values.items() if path != f"{section}.{key}"}
        )
        for section, values in defaults.items()
    }
    return recipe.model_copy(update=changed)


def open_export(written: Written, quantization="float32", **options):
    folder = written.folder / "ctranslate2"
    export(written.folder, folder, quantization)
    return ctranslate2.Translator(str(folder), intra_threads=1, inter_threads=1, **options)


def pieces(tokenizer, sentences):
    return [tokenizer.pieces(sentence) for sentence in sentences]


def differences(written, translator, sources=None, targets=None):
    """The distance of every token's log-probability from ours, in one padded batch."""
    sources = written.sources if sources is None else sources
    targets = written.targets if targets is None else targets
    scored = translator.score_batch(
        pieces(written.source, sources), pieces(written.target, targets), max_input_length=0
    )
    ours = written.log_probabilities(sources, targets)
    return [
        abs(actual - expected)
        for row, result in zip(ours, scored, strict=True)
        for expected, actual in zip(row, result.log_probs, strict=True)
    ]


def check_search(written, translator):
    """Compare translations one by one, because each has its own length limit."""
    decoding = written.recipe.decoding
    ours = PyTorch(written.model).translate(written.sources, decoding)
    for source, [hypothesis] in zip(written.sources, ours, strict=True):
        theirs = translator.translate_batch(
            pieces(written.source, [source]),
            beam_size=decoding.beam_size if decoding.search == "beam" else 1,
            length_penalty=decoding.length_penalty,
            max_decoding_length=length_limit(len(source), decoding),
            min_decoding_length=0,  # The default is 1.
            return_scores=True,
        )[0]
        assert theirs.hypotheses == [written.target.pieces(hypothesis.tokens)]
        assert abs(theirs.scores[0] - hypothesis.score) < COMBINED_TOLERANCE


def check_parity(tmp_path, recipe, tolerance=TOLERANCE):
    written = write_model(tmp_path, recipe)
    translator = open_export(written)
    difference = max(differences(written, translator))
    print(f"difference {difference:.1e}")
    assert difference < tolerance
    check_search(written, translator)


@pytest.mark.parametrize(("path", "value"), SUPPORTED)
def test_supported_values_give_the_same(tmp_path, path, value):
    check_parity(tmp_path, small_of(path, value))


@pytest.mark.parametrize("length_penalty", [0.0, 0.5, 2.0])
def test_length_normalization_is_the_same(tmp_path, length_penalty):
    recipe = small(
        {
            "tokenizer": {"kind": "characters"},
            "model": {"norm": "pre", "tied_embeddings": "none"},
            "decoding": {"search": "beam", "length_penalty": length_penalty},
        }
    )
    check_parity(tmp_path, recipe)


@pytest.mark.parametrize("coverage_penalty", [0.2, 3.0])
def test_the_coverage_penalty_is_the_same(tmp_path, coverage_penalty):
    """All sentences at once; three heads in two layers, so that any other choice of them shows."""
    model = {"norm": "pre", "tied_embeddings": "none", "heads": 3, "width": 24}
    recipe = small({"tokenizer": {"kind": "characters"}, "model": model})
    written = write_model(tmp_path, recipe)
    export(written.folder, written.folder / "ctranslate2")
    engine = CTranslate2(
        written.folder / "ctranslate2", (written.source, written.target), "cpu", threads=1
    )
    decoding = DecodingRecipe(num_hypotheses=5, max_extra_tokens=0)
    covered = decoding.model_copy(update={"coverage_penalty": coverage_penalty})
    plain = PyTorch(written.model).translate(written.sources, decoding)
    ours = PyTorch(written.model).translate(written.sources, covered)
    theirs = engine.translate(written.sources, covered)
    assert [nbest[0].tokens for nbest in theirs] == [nbest[0].tokens for nbest in ours]
    for mine, other, without in zip(ours, theirs, plain, strict=True):
        assert mine[0].score < without[0].score, "no source is covered completely"
        assert abs(mine[0].score - other[0].score) < COMBINED_TOLERANCE


@pytest.mark.parametrize(("path", "value"), REFUSED)
def test_unsupported_values_are_refused_by_name(tmp_path, path, value):
    recipe = small_of(path, value)
    assert [mistake.path for mistake in obstacles(recipe)] == [path]
    write_model(tmp_path, recipe)
    if path.startswith("decoding."):
        # The weights are the same; the search is checked when the model is loaded.
        export(tmp_path, tmp_path / "ctranslate2")
        return
    with pytest.raises(RecipeError) as caught:
        export(tmp_path, tmp_path / "ctranslate2")
    assert [mistake.path for mistake in caught.value.mistakes] == [path]
    assert not (tmp_path / "ctranslate2").exists()


def test_all_unsupported_values_are_reported_at_once(tmp_path):
    write_model(tmp_path, small({"model": {"similarity": "additive", "attention_kind": "hard"}}))
    with pytest.raises(RecipeError) as caught:
        export(tmp_path, tmp_path / "ctranslate2")
    assert [mistake.path for mistake in caught.value.mistakes] == [
        "model.similarity",
        "model.attention_kind",
    ]


def test_an_unknown_quantization_is_refused(tmp_path):
    write_model(tmp_path, small({}))
    with pytest.raises(DataError, match="found quantization 'int9'; did you mean 'int8'"):
        export(tmp_path, tmp_path / "ctranslate2", "int9")


OPTIONS = [
    {"position": {"name": "sinusoidal", "base": 100, "layout": "halves"}},
    {"position": {"name": "sinusoidal", "layout": "cosine_first"}},
    {"position": {"name": "sinusoidal"}, "width": 15, "heads": 3},
    {"position": {"name": "naive", "scale": 0.01}, "norm": "pre"},
    {"position": {"name": "rotary", "base": 100}, "head_kind": "wide"},
    {"position": {"name": "shaw", "distance": 2}, "similarity": "dot"},
    {"similarity": {"name": "cosine", "scale": 10}, "heads": 1},
    {"similarity": "cosine", "heads": 1, "position": "rotary", "norm": "pre"},
    {"feed_forward": "none", "norm": "pre"},
    {"position_entry": "concatenated", "tied_embeddings": "none", "output_bias": True},
    {"encoder_layers": 3, "decoder_layers": 1},
]


@pytest.mark.parametrize("model", OPTIONS, ids=str)
def test_options_of_parts_are_exported(tmp_path, model):
    check_parity(tmp_path, small({"model": model}))


@pytest.mark.parametrize("heads", ["standard", "wide", "narrow", "bare"])
def test_cosine_with_one_head_is_supported(tmp_path, heads):
    check_parity(
        tmp_path, small({"model": {"similarity": "cosine", "heads": 1, "head_kind": heads}})
    )


def test_cosine_of_short_queries_is_exact(tmp_path):
    """The epsilon that CTranslate2 adds to a mean square would cost 2e-4."""
    recipe = small({"model": {"similarity": "cosine", "heads": 1}})
    written = write_model(tmp_path, recipe)
    for name, parameter in written.model.named_parameters():
        if "heads.query" in name or "heads.key" in name:
            parameter.mul_(0.03)
    finish_artifact(tmp_path, written.model.state_dict())
    assert max(differences(written, open_export(written))) < TOLERANCE


def is_possible(model):
    try:
        resolve_parts(small({"model": model}).model)
    except RecipeError:
        return False
    return True


LONG = [
    model
    for model in (
        {"position": value, "position_entry": entry, "norm": norm}
        for value in by_setting()["model"]["position"]
        for entry in by_setting()["model"]["position_entry"]
        for norm in by_setting()["model"]["norm"]
    )
    if is_possible(model)
]


@pytest.mark.slow
@pytest.mark.parametrize("model", LONG, ids=lambda model: "-".join(model.values()))
def test_long_sequences_give_the_same(tmp_path, model):
    written = write_model(tmp_path, small({"model": model}))
    sources = written.sentences("source", (250, 5, 130))
    targets = written.sentences("target", (240, 250, 3))
    difference = max(differences(written, open_export(written), sources, targets))
    print(f"difference {difference:.1e}")
    assert difference < TOLERANCE


@pytest.mark.parametrize("position", ["sinusoidal", {"name": "learned", "maximum": 8}])
def test_the_longest_sequence_has_max_positions(tmp_path, position):
    written = write_model(tmp_path, small({"model": {"position": position}}))
    translator = open_export(written)
    max_positions = read_export(tmp_path / "ctranslate2").facts.max_positions
    assert max_positions == (8 if isinstance(position, dict) else 2048)
    fits = written.sentences("source", [max_positions - 1])
    assert max(differences(written, translator, fits, [[4, 5]])) < TOLERANCE
    with pytest.raises(RuntimeError, match="No position encodings"):
        translator.score_batch(
            pieces(written.source, written.sentences("source", [max_positions])),
            [["<unk>"]],
            max_input_length=0,
        )


@pytest.mark.parametrize("position", ["rotary", "shaw"])
def test_without_a_position_table_length_is_unlimited(tmp_path, position):
    written = write_model(tmp_path, small({"model": {"position": position}}))
    translator = open_export(written)
    assert read_export(tmp_path / "ctranslate2").facts.max_positions is None
    sources = written.sentences("source", [2500])
    assert max(differences(written, translator, sources, [[4, 5]])) < TOLERANCE


ANY_SETTINGS = {
    section: st.fixed_dictionaries(
        {setting: st.sampled_from(values) for setting, values in chosen.items()}
    )
    for section, chosen in by_setting().items()
}


ANY_CHOICE = given(chosen=st.fixed_dictionaries(ANY_SETTINGS), heads=st.sampled_from([1, 2, 4]))
MANY_REFUSED = [HealthCheck.filter_too_much]


@settings(max_examples=4, suppress_health_check=MANY_REFUSED)
@ANY_CHOICE
def test_supported_values_can_be_combined(tmp_path_factory, chosen, heads):
    check_combination(tmp_path_factory, chosen, heads)


@pytest.mark.long
@settings(max_examples=30, suppress_health_check=MANY_REFUSED)
@ANY_CHOICE
def test_more_supported_values_can_be_combined(tmp_path_factory, chosen, heads):
    check_combination(tmp_path_factory, chosen, heads)


def check_combination(tmp_path_factory, chosen, heads):
    model = {**chosen["model"], "heads": heads}
    assume(chosen["tokenizer"]["shared"] == "true" or model["tied_embeddings"] != "all")
    assume(is_possible(model))
    recipe = small({**chosen, "model": model})
    assert obstacles(recipe) == []
    check_parity(tmp_path_factory.mktemp("model"), recipe, COMBINED_TOLERANCE)


# Allowed distance from float32 on this model: about twice the measured one, because processors add
# products in different orders.
QUANTIZATION_TOLERANCE = {
    "int8": 0.15,
    "int8_float32": 0.15,
    "int16": 0.02,
    "float16": 0.01,
    "bfloat16": 0.06,
}


# Without a position table, which is never quantized, and large compared with a small model.
ROTARY = {"width": 64, "heads": 4, "position": "rotary"}


@pytest.mark.parametrize("quantization", QUANTIZATION_TOLERANCE)
def test_quantized_models_are_close(tmp_path, quantization):
    written = write_model(tmp_path, small({"model": ROTARY}), noise=0.05)
    translator = open_export(written, quantization)
    difference = max(differences(written, translator))
    print(f"difference {difference:.1e}")
    assert 0 < difference < QUANTIZATION_TOLERANCE[quantization]
    export(tmp_path, tmp_path / "plain")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("ctranslate2", "plain")]
    assert sizes[0] < 0.6 * sizes[1]
    assert read_export(tmp_path / "ctranslate2").facts.quantization == quantization


def test_the_attention_is_the_mean_of_all_heads_of_the_last_layer(tmp_path):
    written = write_model(tmp_path, small({"model": {"encoder_layers": 1}}))
    source = written.sources[:1]
    result = open_export(written).translate_batch(
        pieces(written.source, source), beam_size=1, return_attention=True, max_decoding_length=9
    )[0]
    tokens = [written.target.id_of(piece) for piece in result.hypotheses[0]]
    batch = collate(source, [tokens])
    source, is_real, target = map(torch.from_numpy, batch[:3])
    with record(written.model) as records:
        written.model(source, is_real, target)
    # CTranslate2 leaves out the end token, which it added.
    weights = records[-1].weights[0].mean(dim=0)[: len(tokens), :-1]
    assert torch.allclose(torch.tensor(result.attention[0]), weights, atol=1e-5)


def test_a_trained_run_is_exported(tmp_path):
    """With the weights and names that training writes."""
    from dragoman.workflow.training import train

    train(digits.write(tmp_path, training={"steps": 4}))
    run = tmp_path / "run"
    export(run, run / "ctranslate2")
    artifact = read_artifact(run)
    source, target = (load_tokenizer(artifact.tokenizer / side) for side in ("source", "target"))
    model = Transformer(artifact.recipe.model, source.size, target.size).eval()
    model.load_state_dict(artifact.weights())
    written = Written(run, artifact.recipe, model, source, target)
    translator = ctranslate2.Translator(str(run / "ctranslate2"))
    assert max(differences(written, translator)) < TOLERANCE
