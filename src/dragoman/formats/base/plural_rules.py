"""The plural rules of common languages, as `Plural-Forms` of a gettext header.

They are used when the header of a catalog has none, which is the case in every new template. The
rules are written by us from the plural rules of Unicode CLDR for integers; the forms are numbered
in the order that gettext uses.
"""

from __future__ import annotations

_SLAVIC = "n%10>=2 && n%10<=4 && (n%100<12 || n%100>14)"

_RULES = {
    "nplurals=1; plural=0;": "id ja jv km ko lo ms my th vi zh",
    "nplurals=2; plural=(n != 1);": (
        "af az bg ca da de el en eo es et eu fi fo fy gl ha hu it ka kk ky lb ml mn nb ne "
        "nl nn no or ps pt_PT rm so sq sv sw ta te tk tr ur uz yi"
    ),
    "nplurals=2; plural=(n > 1);": (
        "ak am as bn br fa fil fr gu hi hy kn ln mg oc pa pt si ti wa zu"
    ),
    "nplurals=2; plural=(n%10 == 1 && n%100 != 11 ? 0 : 1);": "is mk",
    f"nplurals=3; plural=(n%10 == 1 && n%100 != 11 ? 0 : {_SLAVIC} ? 1 : 2);": "be bs hr ru sr uk",
    f"nplurals=3; plural=(n == 1 ? 0 : {_SLAVIC} ? 1 : 2);": "pl",
    "nplurals=3; plural=(n == 1 ? 0 : n >= 2 && n <= 4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n == 1 ? 0 : n == 2 ? 1 : 2);": "he",
    "nplurals=3; plural=(n == 1 ? 0 : n == 0 || n%100 > 0 && n%100 < 20 ? 1 : 2);": "ro",
    (
        "nplurals=3; plural=(n%10 == 1 && (n%100 < 11 || n%100 > 19) ? 0 : "
        "n%10 >= 2 && (n%100 < 11 || n%100 > 19) ? 1 : 2);"
    ): "lt",
    (
        "nplurals=3; plural=(n%10 == 0 || n%100 >= 11 && n%100 <= 19 ? 0 : "
        "n%10 == 1 && n%100 != 11 ? 1 : 2);"
    ): "lv",
    "nplurals=4; plural=(n%100 == 1 ? 0 : n%100 == 2 ? 1 : n%100 == 3 || n%100 == 4 ? 2 : 3);": (
        "sl"
    ),
    (
        "nplurals=5; plural=(n == 1 ? 0 : n == 2 ? 1 : n > 2 && n < 7 ? 2 : "
        "n > 6 && n < 11 ? 3 : 4);"
    ): "ga",
    (
        "nplurals=6; plural=(n == 0 ? 0 : n == 1 ? 1 : n == 2 ? 2 : "
        "n%100 >= 3 && n%100 <= 10 ? 3 : n%100 >= 11 ? 4 : 5);"
    ): "ar",
}
_BY_LANGUAGE = {
    language: rule for rule, languages in _RULES.items() for language in languages.split()
}


def plural_rule(language: str) -> str:
    """Return `nplurals=...; plural=...;` of a language (`pt-BR`), or an empty string."""
    main, _, region = language.replace("-", "_").partition("_")
    code = main.lower()
    return _BY_LANGUAGE.get(f"{code}_{region.upper()}") or _BY_LANGUAGE.get(code, "")


def plural_languages() -> tuple[str, ...]:
    """Return all languages of the table."""
    return tuple(_BY_LANGUAGE)
