"""Runs Weblate's own class for DeepL against a server; prints JSON lines.

It runs in the environment of `weblate_client.py` and does what that does, and then what only this
class does: glossaries, strings that have a translation already, and formality.

    ENV/bin/python tests/support/weblate_deepl.py URL
"""

import json
import sys

from weblate_client import make_unit, new_service, run, start_django

CLASS = "deepl.DeepLTranslation"


def translate(service, unit):
    """Return the translation of a unit."""
    return service.translate(unit)[0][0]["text"]


def run_deepl(url):
    """Give one result per step."""
    # Weblate 5 needs the version in the address.
    url = f"{url}/v2"
    yield from run(CLASS, url)
    service = new_service(CLASS, url)
    yield {"step": "pairs", "pairs": sorted(map(list, service.supported_languages))}
    # For a string that has a translation, Weblate 2026 wants to know what can be rephrased.
    unit = make_unit(["Hello."])
    unit.target, unit.targets, unit.translated, unit.state = "Guten Tag.", ["Guten Tag."], True, 20
    yield {"step": "translated", "translation": translate(service, unit)}
    for terms in ("artist\tMaler\nprize\tGewinn", "artist\tMaler\nprize\tPreis"):
        service = new_service(CLASS, url, terms)
        text = translate(service, make_unit(["The artist won a prize"]))
        glossaries = service.get_glossaries(use_cache=False)
        yield {"step": "glossary", "translation": text, "names": sorted(glossaries)}
    for glossary_id in glossaries.values():
        service.delete_glossary(glossary_id)
    yield {"step": "deleted", "names": sorted(service.get_glossaries(use_cache=False))}
    service = new_service(CLASS, url)
    service.settings["formality"] = "more"
    try:
        translate(service, make_unit(["Hello."]))
    except Exception as error:
        yield {"step": "error", "message": str(error), "is_off": service.is_rate_limited()}


if __name__ == "__main__":
    start_django()
    for result in run_deepl(sys.argv[1]):
        print(json.dumps(result), flush=True)
