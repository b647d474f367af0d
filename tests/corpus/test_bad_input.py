"""Hostile or broken input uses little memory and cannot reach other files or the network.

Attacks run in a child process with a memory limit. A library may open files below Python, where no
audit hook sees it, so the traps are real: a named pipe that blocks every process that opens it, a
file whose text must never appear in a row, and a server that counts its connections.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dragoman.corpus.readers.lines import Lines
from dragoman.corpus.readers.tsv import Tsv
from dragoman.corpus.row import Reject, Row

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="limits the memory of a child process through /proc and RLIMIT_AS",
)

CHILD = """\
import json, resource, sys
from pathlib import Path
from dragoman.recipe import parts
from dragoman.corpus.reader import CorpusReader
from dragoman.corpus.row import Row
from dragoman.errors import DataError

def size(line):
    fields = dict(row.split(":") for row in open("/proc/self/status") if ":" in row)
    return int(fields[line].split()[0]) * 1024

name, megabytes, files = sys.argv[1], int(sys.argv[2]), json.load(sys.stdin)
reader = parts.choose("corpus.readers", parts.Choice(name=name), "", CorpusReader)("en", "de")
if reader.file_count == 2:
    files = [files]
else:
    files = [[path] for path in files]
limit = size("VmSize") + megabytes * 2**20
base = size("VmHWM")
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
violations = []
allowed = {path for paths in files for path in paths}
is_watching = False

def watch(event, arguments):
    if not is_watching:
        return
    if event == "open" and str(arguments[0]) not in allowed:
        # Python imports a codec to look it up: reading library code is not access to data.
        if not str(arguments[0]).startswith((sys.prefix, sys.base_prefix)):
            violations.append(f"open {arguments[0]}")
    elif event.startswith(("socket.", "subprocess.", "os.system", "urllib.")):
        violations.append(event)

sys.addaudithook(watch)
for paths in files:
    rows, rejects, error, count = [], {}, "", 0
    is_watching = True
    try:
        for row in reader.read([Path(path) for path in paths]):
            count += 1
            if not isinstance(row, Row):
                rejects[row.reason] = rejects.get(row.reason, 0) + 1
            elif len(rows) < 10:
                rows.append(list(row))
    except DataError as raised:
        error = str(raised)
    is_watching = False
    print(json.dumps([Path(paths[0]).name, count, rows, rejects, error]), flush=True)
print(json.dumps({"violations": violations, "growth": size("VmHWM") - base}))
"""


class Outcome(NamedTuple):
    count: int
    rows: list[list[object]]
    rejects: dict[str, int]
    error: str


class Report(NamedTuple):
    outcomes: dict[str, Outcome]
    violations: list[str]
    growth: float
    """Megabytes."""


def run(name: str, paths: list[Path], megabytes: int = 256) -> Report:
    """Read files in a child process with a memory limit, one by one or two together."""
    child = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CHILD, name, str(megabytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        out, err = child.communicate(json.dumps([str(path) for path in paths]), timeout=120)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
    finished = out.count("\n")
    assert child.returncode == 0, f"stopped after {finished} of {len(paths)} files: {err[-1500:]}"
    *lines, last = map(json.loads, out.strip().split("\n"))
    outcomes = {file: Outcome(*rest) for file, *rest in lines}
    return Report(outcomes, last["violations"], last["growth"] / 2**20)


# --- lines ---------------------------------------------------------------------------------------


def write_long_line(path: Path, before: bytes, after: bytes) -> None:
    with path.open("wb") as file:
        file.write(before)
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(after)


def test_a_line_of_100_megabytes_is_rejected(tmp_path):
    source, target = tmp_path / "long.en", tmp_path / "long.de"
    write_long_line(source, b"one\n", b"\nthree\n")
    target.write_bytes(b"eins\nzwei\ndrei\n")
    begin = time.perf_counter()
    report = run("lines", [source, target], megabytes=64)
    assert time.perf_counter() - begin < 4
    assert report.outcomes["long.en"] == Outcome(
        3, [[1, "one", "eins"], [3, "three", "drei"]], {"line too long": 1}, ""
    )
    assert report.growth < 16


@pytest.mark.parametrize("name", ["tsv", "csv", "jsonl", "po"])
def test_a_line_of_100_megabytes_in_one_file_needs_little_memory(tmp_path, name):
    path = tmp_path / f"long.{name}"
    write_long_line(path, b"", b"")
    begin = time.perf_counter()
    report = run(name, [path], megabytes=64)
    assert time.perf_counter() - begin < 4
    assert not report.outcomes[path.name].rows
    assert report.growth < 16


@pytest.mark.slow
def test_a_million_empty_lines_need_little_memory(tmp_path):
    paths = [tmp_path / "empty.en", tmp_path / "empty.de"]
    for path in paths:
        path.write_bytes(b"\n" * 1_000_000)
    report = run("lines", paths, megabytes=64)
    outcome = report.outcomes["empty.en"]
    assert (outcome.count, outcome.rejects, outcome.error) == (1_000_000, {}, "")
    assert report.growth < 64


def test_unicode_separators_do_not_end_a_line(tmp_path):
    texts = [
        "a\u2028b",
        "a\u2029b",
        "a\x85b",
        "a\vb",
        "a\fb",
        "a\x1cb",
        "a\rb",
        "\ufeffa",
        '"a',
        "a",
    ]
    paths = [tmp_path / "text.en", tmp_path / "text.de"]
    paths[0].write_bytes(b"\xef\xbb\xbf" + "".join(f"{text}\r\n" for text in texts).encode())
    paths[1].write_bytes("".join(f"{number}\n" for number in range(1, len(texts) + 1)).encode())
    expected = [Row(number, text, str(number)) for number, text in enumerate(texts, 1)]
    assert list(Lines("en", "de").read(paths)) == expected
    table = tmp_path / "text.tsv"
    table.write_bytes("".join(f"{text}\t{number}\n" for number, text, _ in expected).encode())
    assert list(Tsv("en", "de").read([table])) == expected


def test_bad_lines_do_not_shift_other_lines(tmp_path):
    bad = [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\0b", b"\xe2\x82"]
    lines = [b"good %d" % number for number in range(1, 200)]
    for index, piece in enumerate(bad):
        lines[20 * index + 5] = piece
    paths = [tmp_path / "text.en", tmp_path / "text.de"]
    paths[0].write_bytes(b"\n".join(lines))
    paths[1].write_bytes(b"\n".join(b"gut %d" % number for number in range(1, 200)))
    for row in Lines("en", "de").read(paths):
        is_bad = lines[row.number - 1] in bad
        assert isinstance(row, Reject) is is_bad
        if isinstance(row, Row):
            assert (row.source, row.target) == (f"good {row.number}", f"gut {row.number}")


def test_a_compression_bomb_is_read_in_blocks(tmp_path):
    path = tmp_path / "bomb.tsv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(bytes(1_000_000))
        file.write(b"\na\tb\n")
    report = run("tsv", [path], megabytes=64)
    assert report.outcomes[path.name] == Outcome(2, [[2, "a", "b"]], {"line too long": 1}, "")
    assert report.growth < 16


# --- XML -----------------------------------------------------------------------------------------


class Targets(NamedTuple):
    """What an attack tries to reach."""

    secret: Path
    pipe: Path
    port: int


class Attack(NamedTuple):
    """A file, and the expected result."""

    write: Callable[[Kind, Targets], bytes]
    rows: list[str] | None = None
    """The source texts of the rows; None = any rows before the error."""
    error: str = ""
    rejects: tuple[str, ...] = ()
    extension: str = ""


class Kind(NamedTuple):
    """One of the XML formats."""

    name: str
    root: str
    begin: str
    end: str
    unit: str

    def units(self, *texts: str) -> str:
        return "".join(self.unit.format(text) for text in texts)

    def document(self, *texts: str, head: str = "", more: str = "") -> bytes:
        head = head.replace("ROOT", self.root)
        return f"{head}{self.begin}{self.units(*texts)}{more}{self.end}".encode()


KINDS = {
    "tmx": Kind(
        "tmx",
        "tmx",
        '<tmx version="1.4"><header/><body>',
        "</body></tmx>",
        '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>gut</seg></tuv></tu>',
    ),
    "xliff": Kind(
        "xliff",
        "xliff",
        '<xliff version="1.2"><file source-language="en" target-language="de"><body>',
        "</body></file></xliff>",
        "<trans-unit><source>{}</source><target>gut</target></trans-unit>",
    ),
}

LAUGHS = '<!ENTITY l0 "lol">' + "".join(
    f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12)
)
NO_ENTITIES = "declares entities"
MALFORMED = "not well-formed"
HUGE = "a tag or a comment longer than"


def with_subset(subset: str, text: str = "good") -> Callable[[Kind, Targets], bytes]:
    def write(kind: Kind, targets: Targets) -> bytes:
        inside = subset.format(secret=targets.secret, pipe=targets.pipe, port=targets.port)
        return kind.document(text, head=f"<!DOCTYPE ROOT [{inside}]>")

    return write


def with_head(head: str) -> Callable[[Kind, Targets], bytes]:
    def write(kind: Kind, targets: Targets) -> bytes:
        filled = head.format(secret=targets.secret, pipe=targets.pipe, port=targets.port)
        return kind.document("good", head=filled)

    return write


def with_more(more: str) -> Callable[[Kind, Targets], bytes]:
    return lambda kind, targets: kind.document("good", more=more)


def encoded(encoding: str, text: str, subset: str) -> Callable[[Kind, Targets], bytes]:
    def write(kind: Kind, targets: Targets) -> bytes:
        head = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE {kind.root} [{subset}]>'
        return (head + kind.document(text).decode()).encode(encoding)

    return write


ATTACKS: dict[str, Attack] = {
    "nothing wrong": Attack(with_head(""), ["good"]),
    "billion laughs": Attack(with_subset(LAUGHS, "&l11;"), [], NO_ENTITIES),
    "billion laughs in an attribute": Attack(
        lambda kind, targets: (
            f"<!DOCTYPE {kind.root} [{LAUGHS}]><{kind.root} version='&l11;'></{kind.root}>".encode()
        ),
        [],
    ),
    "quadratic blow-up": Attack(
        with_subset(f'<!ENTITY a "{"x" * 100_000}">', "&a;" * 10_000), [], NO_ENTITIES
    ),
    "an unused entity": Attack(with_subset('<!ENTITY a "b">'), [], NO_ENTITIES),
    "external entity, file": Attack(
        with_subset('<!ENTITY a SYSTEM "file://{secret}">', "&a;"), [], NO_ENTITIES
    ),
    "external entity, pipe": Attack(
        with_subset('<!ENTITY a SYSTEM "file://{pipe}">', "&a;"), [], NO_ENTITIES
    ),
    "external entity, network": Attack(
        with_subset('<!ENTITY a SYSTEM "http://127.0.0.1:{port}/a">', "&a;"), [], NO_ENTITIES
    ),
    "external entity, unparsed": Attack(
        with_subset('<!NOTATION n SYSTEM "n"><!ENTITY a SYSTEM "file://{secret}" NDATA n>'),
        [],
        NO_ENTITIES,
    ),
    "parameter entity": Attack(
        with_subset("<!ENTITY % a \"<!ENTITY b 'c'>\"> %a;"), [], NO_ENTITIES
    ),
    "unused parameter entity": Attack(
        with_subset('<!ENTITY % a "<!ELEMENT x ANY>">'), [], NO_ENTITIES
    ),
    "parameter entity, file": Attack(
        with_subset('<!ENTITY % a SYSTEM "file://{pipe}"> %a;'), [], NO_ENTITIES
    ),
    "parameter entity, network": Attack(
        with_subset('<!ENTITY % a SYSTEM "http://127.0.0.1:{port}/a"> %a;'), [], NO_ENTITIES
    ),
    "parameter entities in a bomb": Attack(
        with_subset(
            "<!ENTITY % a0 'x'>"
            + "".join(f"<!ENTITY % a{n} '{f'&#37;a{n - 1};' * 10}'>" for n in range(1, 10))
            + "%a9;"
        ),
        [],
    ),
    "DTD on the network": Attack(
        with_head('<!DOCTYPE ROOT SYSTEM "http://127.0.0.1:{port}/a.dtd">'), ["good"]
    ),
    "DTD in a file": Attack(with_head('<!DOCTYPE ROOT SYSTEM "file://{pipe}">'), ["good"]),
    "DTD with a public name": Attack(
        with_head('<!DOCTYPE ROOT PUBLIC "-//X//Y" "http://127.0.0.1:{port}/a.dtd">'), ["good"]
    ),
    "internal subset without entities": Attack(
        with_subset("<!ELEMENT note ANY><!ATTLIST note a CDATA 'b'>"), ["good"]
    ),
    "internal subset without end": Attack(
        lambda kind, targets: f"<!DOCTYPE {kind.root} [".encode() + b"<!ELEMENT a ANY>" * 200_000,
        [],
    ),
    "100,000 levels": Attack(
        with_more("<a>" * 100_000 + "</a>" * 100_000), None, "deeper than 200"
    ),
    "201 levels": Attack(with_more("<a>" * 199 + "</a>" * 199), None, "deeper than 200"),
    "190 levels": Attack(with_more("<a>" * 190 + "</a>" * 190), ["good"]),
    "100,000 levels in a text": Attack(
        lambda kind, targets: kind.document("<hi>" * 100_000), None, "deeper than 200"
    ),
    "huge attribute": Attack(with_more(f'<a b="{"x" * 12_000_000}"/>'), ["good"], HUGE),
    "huge name": Attack(with_more(f"<{'a' * 12_000_000}/>"), ["good"], HUGE),
    "huge text": Attack(
        lambda kind, targets: kind.document("good", "x" * 12_000_000, "good"),
        ["good", "good"],
        rejects=("unit too long",),
    ),
    "huge text outside": Attack(with_more(f"<a>{'x' * 12_000_000}</a>"), ["good"]),
    "long text": Attack(
        lambda kind, targets: kind.document("good", "x" * 2_000_000, "good"),
        ["good", "good"],
        rejects=("unit too long",),
    ),
    "a unit of many children": Attack(
        lambda kind, targets: kind.document("good", "<hi/>" * 300_000, "good"),
        ["good", "good"],
        rejects=("unit too long",),
    ),
    "many elements beside the units": Attack(with_more("<a><b/>x</a>" * 100_000), ["good"]),
    "many names": Attack(with_more("".join(f"<a{n}/>" for n in range(100_000))), ["good"]),
    "many attributes": Attack(
        with_more("<a " + " ".join(f'b{n}=""' for n in range(100_000)) + "/>"), None
    ),
    "the same attribute twice": Attack(with_more('<a b="" b=""/>'), ["good"], MALFORMED),
    "huge comment": Attack(with_more(f"<!--{'x' * 12_000_000}-->"), None),
    "many comments": Attack(with_more("<!--x-->" * 500_000), ["good"]),
    "many comments before": Attack(with_head("<!--x-->" * 500_000), [], "no element in its first"),
    "comment without end": Attack(with_more("<!-- "), ["good"], MALFORMED),
    "processing instructions": Attack(
        lambda kind, targets: (
            f'<?xml-stylesheet href="http://127.0.0.1:{targets.port}/a.xsl"?>'.encode()
            + kind.document("good", more="<?php system('x') ?>" * 100_000)
        ),
        ["good"],
    ),
    "XInclude": Attack(
        lambda kind, targets: kind.document(
            f'go<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" '
            f'href="file://{targets.secret}" parse="text"/>od'
        ),
        ["good"],
    ),
    "schema and base": Attack(
        lambda kind, targets: kind.document("good").replace(
            b"version=",
            f'xmlns:x="http://www.w3.org/2001/XMLSchema-instance" xml:base="file://{targets.pipe}" '
            f'x:schemaLocation="a http://127.0.0.1:{targets.port}/a.xsd" version='.encode(),
            1,
        ),
        ["good"],
    ),
    "CDATA that looks like markup": Attack(
        lambda kind, targets: kind.document("<![CDATA[</seg></source><!ENTITY a 'b'>]]>"),
        ["</seg></source><!ENTITY a 'b'>"],
    ),
    "CDATA without end": Attack(with_more("<![CDATA["), ["good"], MALFORMED),
    "UTF-7": Attack(encoded("utf-7", "good", '<!ENTITY a "b">'), []),
    "UTF-16 with entities": Attack(encoded("utf-16", "&l11;", LAUGHS), [], NO_ENTITIES),
    "UTF-16 without": Attack(encoded("utf-16", "good", "<!ELEMENT a ANY>"), ["good"]),
    "UTF-32": Attack(encoded("utf-32", "good", LAUGHS), []),
    "EBCDIC": Attack(encoded("cp037", "good", LAUGHS), []),
    "UTF-16, says UTF-8": Attack(
        lambda kind, targets: (
            '<?xml version="1.0" encoding="utf-8"?>' + kind.document("good").decode()
        ).encode("utf-16"),
        None,
    ),
    "Latin-1, says UTF-8": Attack(
        lambda kind, targets: kind.document("good", "né", "good").decode().encode("latin-1"),
        ["good"],
        MALFORMED,
    ),
    "an encoding that does not exist": Attack(
        with_head('<?xml version="1.0" encoding="klingon"?>'), [], MALFORMED
    ),
    "NUL": Attack(lambda kind, targets: kind.document("good", "a\0b", "good"), ["good"], MALFORMED),
    "half a character": Attack(
        lambda kind, targets: kind.document("good", "&#xD800;", "good"), ["good"], MALFORMED
    ),
    "an undefined entity": Attack(
        lambda kind, targets: kind.document("good", "a&b;c", "good"), ["good"], MALFORMED
    ),
    "an undefined entity, and a second document": Attack(
        # Some errors only stop the parser; the next chunk would start a new document.
        lambda kind, targets: (
            kind.document("good", "a&b;c")[:-20].ljust(64 * 1024) + kind.document("second")
        ),
        ["good"],
        MALFORMED,
    ),
    "an entity that a DTD may define": Attack(
        lambda kind, targets: kind.document(
            "good", "a&b;c", "good", head='<!DOCTYPE ROOT SYSTEM "a.dtd">'
        ),
        ["good", "good"],
        rejects=("undefined entity",),
    ),
    "many undefined entities": Attack(
        lambda kind, targets: kind.document(
            "good", *["&b;"] * 2_000, head='<!DOCTYPE ROOT SYSTEM "a.dtd">'
        ),
        ["good"],
        rejects=("undefined entity",) * 2_000,
    ),
    "cut off": Attack(
        lambda kind, targets: kind.document("good", "good", "cut")[: -len(kind.end) - 12],
        ["good", "good"],
        MALFORMED,
    ),
    "cut off in a text": Attack(
        lambda kind, targets: kind.document("good", "c").rpartition(b"c</s")[0], ["good"], MALFORMED
    ),
    "two documents": Attack(
        lambda kind, targets: kind.document("good") + kind.document("second"), ["good"], MALFORMED
    ),
    "two documents, far apart": Attack(
        lambda kind, targets: kind.document("good").ljust(64 * 1024) + kind.document("second"),
        ["good"],
        MALFORMED,
    ),
    "another root": Attack(lambda kind, targets: b"<html><body/></html>", [], "begins with <html>"),
    "another root, long": Attack(lambda kind, targets: b"<" + b"a" * 40_000 + b"/>", []),
    "no XML": Attack(lambda kind, targets: b"en\tde\n" * 1000, [], MALFORMED),
    "nothing": Attack(lambda kind, targets: b"", [], MALFORMED),
    "spaces": Attack(lambda kind, targets: b" " * 5_000_000, []),
    "zeros, compressed": Attack(
        lambda kind, targets: gzip.compress(bytes(50_000_000), 1), [], extension=".gz"
    ),
    "text, compressed": Attack(
        lambda kind, targets: gzip.compress(kind.document("good", *["x" * 9_000] * 5_000), 1),
        None,
        extension=".gz",
    ),
    "cut off, compressed": Attack(
        lambda kind, targets: gzip.compress(kind.document("good"))[:-9],
        None,
        "damaged",
        extension=".gz",
    ),
}
# The parser may refuse these or not.
UNDECIDED = {"many attributes", "huge comment", "UTF-16, says UTF-8", "text, compressed"}


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[Targets]:
    secret = tmp_path / "secret"
    secret.write_text("SECRET", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    connections = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        is_finished = threading.Event()

        def listen() -> None:
            while not is_finished.is_set():
                try:
                    connection, address = server.accept()
                except TimeoutError:
                    continue
                connection.close()
                connections.append(address)

        listener = threading.Thread(target=listen)
        listener.start()
        yield Targets(secret, tmp_path / "pipe", server.getsockname()[1])
        is_finished.set()
        listener.join()
    assert not connections


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_xml_attacks_are_refused_or_harmless(tmp_path, targets, name):
    kind = KINDS[name]
    paths = []
    for attack_name, attack in ATTACKS.items():
        path = tmp_path / f"{attack_name}.{name}{attack.extension}"
        path.write_bytes(attack.write(kind, targets))
        paths.append(path)
    report = run(name, paths)
    print(f"{name}: {len(paths)} attacks, memory grew by {report.growth:.0f} MB")
    for path, (attack_name, attack) in zip(paths, ATTACKS.items(), strict=True):
        outcome = report.outcomes[path.name]
        print(attack_name, outcome.count, outcome.rejects, outcome.error.split("\n")[0][-90:])
        assert "SECRET" not in json.dumps(outcome), attack_name
        if attack.rows is not None:
            assert [row[1] for row in outcome.rows] == attack.rows, attack_name
        assert all(row[2] == "gut" for row in outcome.rows), attack_name
        assert attack.error in outcome.error, attack_name
        if attack.rows == [] or (attack.rows is None and attack_name not in UNDECIDED):
            assert outcome.error, attack_name
        elif attack.rows and not attack.error:
            assert not outcome.error, attack_name
        if attack.rows is not None:
            assert outcome.rejects == Counter(attack.rejects), attack_name
    assert report.violations == []
    assert report.growth < 128


@pytest.mark.slow
def test_a_long_translation_memory_needs_little_memory(tmp_path):
    kind = KINDS["tmx"]
    path = tmp_path / "long.tmx"
    units = kind.units(*[f"sentence number {number}" for number in range(1000)]).encode()
    with path.open("wb") as file:
        file.write(kind.begin.encode())
        for _ in range(60):
            file.write(units)
        file.write(kind.end.encode())
    report = run("tmx", [path], megabytes=64)
    assert report.outcomes["long.tmx"].count == 60_000
    assert report.growth < 16
