"""No model breaks a real document: every sample, and made documents of every format."""

from __future__ import annotations

import importlib
import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.documents.guarding import check
from dragoman.documents.translation import DocumentTranslator, Options
from dragoman.formats.base.document import Content, Document, plain_text
from dragoman.formats.base.folder import find_format, formats
from dragoman.formats.base.office import OfficeDocument
from dragoman.formats.markdown import MarkdownDocument
from formats.test_contract import renumbered
from support.segment_models import FunctionModel, drop, echo, hostile
from support.shared_data import shared_data

MODELS = {"echo": echo, "upper": str.upper, "drop": drop, "hostile": hostile(7)}
LANGUAGES = ("en", "de")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")


def shape(content: Content) -> list[str]:
    """Return the texts and the kinds of the codes."""
    return [part if isinstance(part, str) else part.kind for part in content]


def translate_document(document: Document, model: str, *, has_span_tokens: bool) -> Counter[str]:
    """Translate a document, verify every unit and the written file, and count."""
    options = Options(*LANGUAGES, has_span_tokens=has_span_tokens, overwrite=True)
    engine = DocumentTranslator(FunctionModel(MODELS[model]), options)
    units = list(document.units())
    results = list(engine.translate(units))
    counts: Counter[str] = Counter(segments=sum(len(result.methods) for result in results))
    for unit, result in zip(units, results, strict=True):
        if result.target is None:
            continue
        assert check(unit.source, result.target.content) == ""
        if model == "echo" and has_span_tokens and not unit.collapses_space:
            # An echo is the text, apart from control characters, which no model may write.
            text = CONTROL.sub("", plain_text(unit.source))
            is_same = CONTROL.sub("", plain_text(result.target.content)) == text
            assert is_same or result.flags or result.methods != ("tokens",)
        counts["flagged"] += bool(result.flags)
    output = b"".join(document.write(result.target for result in results))
    rewritten = type(document)(output, "written", *LANGUAGES)
    for result, now in zip(results, rewritten.units(), strict=True):
        if result.target is not None:
            content = now.target if document.is_bilingual else now.source
            assert content is not None
            if isinstance(document, OfficeDocument):
                # A code around a whole paragraph becomes the format of the paragraph.
                assert plain_text(content) == plain_text(result.target.content)
            elif isinstance(document, MarkdownDocument):
                # Emphasis that cannot be read again becomes other markup.
                assert shape(content) == shape(result.target.content)
            else:
                assert renumbered(content) == renumbered(result.target.content)
    return counts


@pytest.mark.parametrize(
    ("model", "has_span_tokens"),
    [
        pytest.param("echo", True, marks=pytest.mark.slow),
        pytest.param("hostile", True, marks=pytest.mark.long),
        pytest.param("hostile", False, marks=pytest.mark.slow),
        pytest.param("upper", True, marks=pytest.mark.long),
        pytest.param("drop", False, marks=pytest.mark.long),
    ],
)
def test_every_sample_survives(model, has_span_tokens):
    folder = shared_data() / "formats"
    counts: Counter[str] = Counter()
    for name in formats():
        made = importlib.import_module(f"formats.made.{name}")
        for pattern in made.SAMPLES:
            for path in sorted(folder.glob(pattern)):
                if str(path.relative_to(folder)) in made.INVALID:
                    continue
                data = path.read_bytes()
                document = find_format(path, data)(data, str(path), *LANGUAGES)
                counts += translate_document(document, model, has_span_tokens=has_span_tokens)
    print(model, has_span_tokens, dict(counts))
    assert counts["segments"] > 3000


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(formats()))
def test_made_documents_survive(name):
    made = importlib.import_module(f"formats.made.{name}")

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(made.documents(), st.sampled_from(sorted(MODELS)), st.booleans())
    def run(data, model, has_span_tokens):
        document = formats()[name](data, "document", *LANGUAGES)
        translate_document(document, model, has_span_tokens=has_span_tokens)

    run()
