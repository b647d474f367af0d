"""Runs Weblate's own classes for machine translation against a server; prints JSON lines.

It runs in an environment of its own, which has Weblate but not Dragoman, and needs no database:

    ENV/bin/python tests/support/weblate_client.py URL SERVICE [SERVICE ...]

SERVICE is the module and class in `weblate.machinery`, such as
`libretranslate.LibreTranslateTranslation`. All that talks to the server is Weblate's code. Only the
unit, which is a row of Weblate's database, is a stand-in.
"""

import importlib
import json
import logging
import os
import sys
import tempfile
import types
from unittest.mock import MagicMock

# A text and Weblate's flags for it: one of each kind of placeholder that Weblate hides.
TEXTS = [
    ("Hello %(name)s, you have %(count)d new messages.", "python-format"),
    ("Deleted %1$s from %2$s", "php-format"),
    ("Copying %s to %s failed: %d", "c-format"),
    ("Welcome {name}, today is {0}", "python-brace-format"),
    ('Use <b>bold</b> and <a href="https://example.com/?a=1">a link</a> here.<br/>', "xml-text"),
    ("Not well-formed: <b>bold</b> & <i>more</i>", ""),
    ("Visit https://example.com/path?x=1 now", "url"),
    ("Contact $PERSON$ or press %BUTTON%", "placeholders:$PERSON$:%BUTTON%"),
    ("A `code` span and **bold** text", "rst-text"),
    ('It\'s "quoted" & 5 < 6', ""),
    ("First line\nsecond line\n\nthird", ""),
    ("{count, plural, one {# file} other {# files}}", "icu-message-format"),
    ("ALL CAPS TEXT", ""),
]


def start_django():
    """Use Weblate's example settings with a cache in memory and a database that is never used."""
    # Weblate 5 imports these libraries for fonts.
    for name in ("cairo", "gi", "gi.repository"):
        sys.modules.setdefault(name, MagicMock())
    example = importlib.import_module("weblate.settings_example")
    settings = types.ModuleType("stand_in_settings")
    vars(settings).update({name: value for name, value in vars(example).items() if name.isupper()})
    memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    folder = tempfile.mkdtemp(prefix="weblate-")
    vars(settings).update(
        CACHES={"default": memory, "avatar": memory},
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        DATA_DIR=folder,
        CACHE_DIR=folder,
        SECRET_KEY="none",
        SITE_DOMAIN="weblate.example.com",
        LOGGING={"version": 1, "disable_existing_loggers": False},
    )
    sys.modules[settings.__name__] = settings
    os.environ["DJANGO_SETTINGS_MODULE"] = settings.__name__
    importlib.import_module("django").setup()
    logging.disable(logging.CRITICAL)


def make_language(code):
    """Return a language with two plural forms."""
    models = importlib.import_module("weblate.lang.models")
    language = models.Language(code=code, name=code)
    language.pk = {"en": 1, "de": 2}[code]
    plural = models.Plural(language=language, number=2, formula="n != 1")
    language.__dict__["plural"] = plural
    return language


def make_unit(texts, flags=""):
    """Return what Weblate's classes read of a unit."""
    source, target = make_language("en"), make_language("de")
    project = types.SimpleNamespace(
        id=1,
        name="Project",
        slug="project",
        secondary_language=None,
        use_shared_tm=True,
        get_glossary_tsv_cache_key=lambda *languages: "glossary",
    )
    component = types.SimpleNamespace(
        id=1,
        name="Component",
        source_language=source,
        project=project,
        secondary_language=None,
        effective_secondary_language=None,
        file_format="po",
        is_multivalue=False,
        hide_glossary_matches=True,
    )
    translation = types.SimpleNamespace(
        id=1,
        pk=1,
        language=target,
        plural=target.plural,
        component=component,
        is_source=False,
        is_template=False,
        log_debug=lambda *arguments: None,
    )
    unit_flags = importlib.import_module("weblate.checks.flags").Flags(flags)
    unit = types.SimpleNamespace(
        sources=texts,
        source=texts[0],
        effective_source=texts[0],
        target="",
        targets=[""],
        flags=unit_flags,
        all_flags=unit_flags,
        machinery={},
        check_cache={},
        plural_map=[],
        glossary_terms=None,
        note="",
        context="",
        is_source=False,
        readonly=False,
        fuzzy=False,
        translated=False,
        state=0,
        translation_parent_id=None,
        missing_source_snapshot=None,
        translation=translation,
        translation_id=1,
        effective_source_language=source,
        effective_source_plural=source.plural,
        get_source_plurals=lambda: texts,
        get_effective_source_plurals=lambda: texts,
        get_target_plurals=lambda plurals=None: [""],
        has_multiple_values=lambda *arguments: False,
    )
    unit.id = unit.pk = unit.id_hash = id(unit)
    return unit


def new_service(name, url, glossary=""):
    """Return a new object of a class in `weblate.machinery`, without what it remembers.

    `glossary` are terms of the project, as TSV.
    """
    cache = importlib.import_module("django.core.cache").cache
    cache.clear()
    # Weblate asks its database only for what is not in the cache.
    cache.set("glossary", glossary)
    module, cls = name.split(".")
    service_class = getattr(importlib.import_module(f"weblate.machinery.{module}"), cls)
    return service_class({"url": f"{url}/", "key": "any"})


def placeholders(service, text, unit):
    """Return what Weblate hides in a text before it sends it, as it must come back."""
    _, replacements = service.cleanup_text(text, unit)
    return [service.unescape_text(value) for value in replacements.values()]


def run(name, url):
    """Do all that Weblate does with a service; give one result per step."""
    service = new_service(name, url)
    form = service.settings_form(type(service), data={"url": f"{url}/", "key": "any"})
    yield {"step": "settings", "is_valid": form.is_valid(), "errors": str(dict(form.errors))}
    unit = make_unit(["x"])
    pair = service.get_languages(unit.effective_source_language, unit.translation.language)
    yield {"step": "languages", "pair": list(pair)}
    for text, flags in TEXTS:
        service = new_service(name, url)
        unit = make_unit([text], flags)
        (suggestions,) = service.translate(unit)
        yield {
            "step": "translate",
            "text": text,
            "translation": suggestions[0]["text"],
            "placeholders": placeholders(service, text, unit),
        }
    service = new_service(name, url)
    units = [
        make_unit([f"%d file number {n}", f"%d files number {n}"], "c-format")
        for n in range(service.batch_size)
    ]
    service.batch_translate(units)
    translations = [unit.machinery.get("translation", []) for unit in units]
    yield {"step": "batch", "size": service.batch_size, "translations": translations}


def main(url, *names):
    """Run services; print their results."""
    start_django()
    for name in names:
        for result in run(name, url.rstrip("/")):
            print(json.dumps({"service": name, **result}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
