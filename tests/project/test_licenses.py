"""The page of licenses names every package of every extra, and none has a strong copyleft."""

import re
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from docs_build import licenses
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROW = re.compile(r"^\| ([\w.-]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def rows():
    """License and extras of each package, as the page says."""
    page = licenses.PAGE.read_text(encoding="utf-8")
    return {name: (named, extras.split(", ")) for name, named, extras in ROW.findall(page)}


@pytest.mark.parametrize("extra", [licenses.CORE, *licenses.requirements()])
def test_the_page_covers_every_package_of_an_extra(extra):
    """On other versions of Python and systems, a few packages of the page are not needed."""
    listed = rows()
    names = licenses.closure(extra)
    assert names
    for name in names:
        assert name in listed, "type: python -m docs_build.licenses"
        named, extras = listed[name]
        assert extras == [licenses.CORE] or extra in extras, (name, extra)
        try:
            declared = licenses.license_of(distribution(name))
        except PackageNotFoundError:  # The extra `otel` is not installed for the tests.
            continue
        assert named == declared, name


def test_direct_requirements_are_listed_even_if_they_are_not_installed():
    listed = rows()
    for extra, lines in licenses.requirements().items():
        for name in {canonicalize_name(Requirement(line).name) for line in lines} - {"dragoman"}:
            assert name in listed, (extra, name)


def test_no_package_has_a_strong_copyleft_or_no_license():
    listed = rows()
    assert len(listed) > 60
    for name, (named, _) in listed.items():
        assert named != "not declared", name
        assert not licenses.is_strong_copyleft(named), (name, named)
    assert "Strong copyleft (GPL, AGPL): none." in licenses.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("named", "is_strong"),
    [
        ("GPL-3.0-only", True),
        ("AGPL-3.0-or-later", True),
        ("MIT OR GPLv2", True),
        ("GNU General Public License v3 (GPLv3)", True),
        ("GNU Affero General Public License v3", True),
        ("LGPL-2.1", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("MPL-2.0 AND MIT", False),
        ("Apache-2.0", False),
    ],
)
def test_strong_copyleft_is_recognized(named, is_strong):
    assert licenses.is_strong_copyleft(named) == is_strong
