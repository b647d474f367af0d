"""Language codes are compared without regard to case, separator and region."""

import pytest

from dragoman.text.languages import base_language, language_nearness


@pytest.mark.parametrize("code", ["zh", "ZH", "zh-CN", "zh_Hant_TW", " zh "])
def test_the_base_language_has_no_region_and_no_script(code):
    assert base_language(code) == "zh"


@pytest.mark.parametrize(
    ("wanted", "actual", "nearness"),
    [
        ("en", "EN", 2),
        ("en-us", "en_US", 2),
        ("en", "en-GB", 1),
        ("pt-BR", "pt", 1),
        ("pt-BR", "pt-PT", 0),
        ("e", "en", 0),
        ("en", "eng", 0),
    ],
)
def test_codes_are_the_same_near_or_different(wanted, actual, nearness):
    assert language_nearness(wanted, actual) == language_nearness(actual, wanted) == nearness
