"""Translation memories, checked against the Translate Toolkit and in bounded memory."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings

from dragoman.errors import DataError
from dragoman.formats.base.document import Code, Target, Unit, plain_text
from dragoman.formats.tmx import Tmx
from formats.made import tmx as made
from support.shared_data import shared_data


def document(*units: str, header: str = 'srclang="en"') -> bytes:
    return f'<tmx version="1.4"><header {header}/><body>{"".join(units)}</body></tmx>'.encode()


def tuv(language: str, segment: str, attribute: str = "xml:lang") -> str:
    return f'<tuv {attribute}="{language}"><seg>{segment}</seg></tuv>'


def units(data: bytes, *languages: str) -> list[Unit]:
    return list(Tmx(data, "x.tmx", *languages).units())


def write(data: bytes, *targets: Target | None, languages: tuple[str, str] = ("en", "de")) -> str:
    return b"".join(Tmx(data, "x.tmx", *languages).write(targets)).decode()


def test_the_units_of_a_real_file():
    path = shared_data() / "formats/tmx/omegat/test-multiple-tuv.tmx"
    result = units(path.read_bytes(), "en", "fr")
    assert [(unit.key, unit.line, unit.source, unit.target) for unit in result[:2]] == [
        ("#1", 6, ("Hello World!",), ("fr Bonjour tout le monde\xa0!",)),
        ("#2", 33, ("Hello Worlds.",), ("fr 2 Bonjour les mondes.",)),
    ]
    assert units(path.read_bytes(), "en-US", "es-AR")[0].target == ("(es_AR) ¡Hola Mundo!",)
    assert units(path.read_bytes())[0].target == ("¡Hola Mundo!",)
    assert units(path.read_bytes(), "ja", "fr") == []


def test_inline_elements_are_codes():
    [unit] = units(
        document(
            "<tu>"
            + tuv("en", 'A <bpt i="1">&lt;b></bpt>big<ept i="1">&lt;/b></ept> <hi>dog</hi><ph>img '
                  '<sub>alt</sub></ph><it pos="begin">x</it><ept i="7">y</ept><!-- c --><ut>{</ut>')
            + "</tu>"
        )
    )  # fmt: skip
    assert plain_text(unit.source) == "A big dog"
    assert [(part.kind, part.pair) for part in unit.source if isinstance(part, Code)] == [
        ("open", 1),
        ("close", 1),
        ("open", 2),
        ("close", 2),
        *[("single", 0)] * 5,
    ]


def test_a_missing_language_is_inserted_after_the_last_one():
    data = document(
        "\n  <tu>\n    <tuv xml:lang='en'>\n      <seg>a</seg>\n    </tuv>\n    "
        f"{tuv('fr', 'b')}\n  </tu>",
        f"<tu>{tuv('EN-us', 'c', 'lang')}</tu>",
    )
    output = write(data, Target(("x<",)), Target(("y",), needs_review=False))
    assert (
        f'{tuv("fr", "b")}\n    <tuv xml:lang="de" changeid="machine-translation">\n      '
        "<seg>x&lt;</seg>\n    </tuv>\n  </tu>" in output
    )
    assert output.endswith(
        f"<tu>{tuv('EN-us', 'c', 'lang')}{tuv('de', 'y', 'lang')}</tu></body></tmx>"
    )
    result = units(output.encode(), "en", "de")
    assert [(unit.target, unit.state) for unit in result] == [
        (("x<",), "needs_review"),
        (("y",), "translated"),
    ]


def test_an_existing_translation_is_replaced_and_its_mark_follows():
    data = document(f"<tu>{tuv('de-AT', 'b')}{tuv('en', 'a')}</tu>", f"<tu>{tuv('en', 'a')}</tu>")
    marked = write(data, Target(("c",)), None)
    assert '<tuv xml:lang="de-AT" changeid="machine-translation"><seg>c</seg></tuv>' in marked
    assert write(marked.encode(), Target(("b",), needs_review=False), None) == data.decode()
    # A region is not written into the text without one, which is the source.
    output = write(data, None, Target(("c",)), languages=("en", "en-GB"))
    assert f'<tu>{tuv("en", "a")}<tuv xml:lang="en-GB"' in output


def test_other_files_are_refused_with_the_line():
    for data, message in (
        (b"\n<xliff/>", r"x\.tmx begins with <xliff> in line 2, expected <tmx>"),
        (b"<tmx>\n<body></tmx>", r"x\.tmx is not well-formed XML in line 2"),
    ):
        with pytest.raises(DataError, match=message):
            units(data)
    with pytest.raises(DataError, match=r"line 1 of x\.tmx has no translation in another language"):
        write(document(f"<tu>{tuv('en', 'a')}</tu>"), Target(("b",)), languages=("en", ""))


@pytest.mark.slow
@settings(max_examples=150)
@given(made.documents())
def test_nothing_but_texts_and_marks_changes(data):
    memory = Tmx(data, "x.tmx", "en", "de")
    assert made.is_equal(data, b"".join(memory.write([Target(("n",)) for _ in memory.units()])))


def test_the_translate_toolkit_reads_the_written_targets():
    from translate.storage.tmx import tmxfile

    count = 0
    for path in sorted(shared_data().glob("formats/tmx/omegat/*.tmx")):
        if b"<tuv lang" in path.read_bytes():
            continue  # The toolkit does not know the attribute of TMX 1.1.
        memory = Tmx(path.read_bytes(), str(path), "en", "de")
        targets = [Target((f"{number} é & <b>",)) for number, _ in enumerate(memory.units())]
        output = b"".join(memory.write(targets))
        store = tmxfile(sourcelanguage="en", targetlanguage="de")
        store.parse(output)
        texts = {text for unit in store.units for text in [unit.gettarget("de")] if text}
        assert {plain_text(target.content) for target in targets} <= texts | {""}, path
        count += len(targets)
    assert count > 50


CHILD = """\
import mmap, resource, sys
from dragoman.formats.base.document import Target
from dragoman.formats.tmx import Tmx
with open(sys.argv[1], "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
def anonymous():
    rows = dict(row.split(":") for row in open("/proc/self/status") if ":" in row)
    return int(rows["RssAnon"].split()[0]) * 1024
base = anonymous()
memory = Tmx(data, "x.tmx", "en", "de")
count = peak = size = 0
for unit in memory.units():
    count += 1
    if count % 10_000 == 0:
        peak = max(peak, anonymous())
for index, block in enumerate(memory.write(Target(("übersetzt",)) for _ in range(count))):
    size += len(block)
    if index % 50_000 == 0:
        peak = max(peak, anonymous())
print(count, size, peak - base)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_50_megabytes_are_processed_in_bounded_memory_through_a_memory_map(tmp_path):
    path = tmp_path / "large.tmx"
    block = (f"<tu>\n  {tuv('en', 'A sentence of usual length. ' * 16)}\n</tu>\n" * 1000).encode()
    blocks = 50_000_000 // len(block) + 1
    with path.open("wb") as file:
        file.write(b'<tmx version="1.4"><header srclang="en"/><body>')
        for _ in range(blocks):
            file.write(block)
        file.write(b"</body></tmx>")
    assert path.stat().st_size > 50_000_000
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=280
    )
    assert run.returncode == 0, run.stderr[-2000:]
    count, size, growth = map(int, run.stdout.split())
    print(f"{count:,} units, {size:,} bytes written, memory grew by {growth / 2**20:.1f} MB")
    assert count == 1000 * blocks
    assert size > path.stat().st_size
    assert growth < 32 * 2**20
