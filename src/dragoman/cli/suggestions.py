"""`dragoman suggestions`: the corrections that people sent to a server."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dragoman.cli.console import counted, needs
from dragoman.cli.help import App
from dragoman.cli.keys import StateOption
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.serving.state import State
    from dragoman.serving.stores.suggestions import Status, Suggestion
    from dragoman.serving.suggestion_checks import CheckedSuggestion

app = App(help="Review, approve and export the corrections that people sent to a server.")

StatusOption = Annotated[
    Literal["new", "approved", "rejected", "all"], typer.Option(help="Which suggestions.")
]
IdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Numbers from the list, or ranges such as 20-35."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be changed.")]
_JOB = "checking suggestions"
_ID = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?")
_KEY_ID = re.compile(r"[0-9a-f]{12}")


@app.command("list")
def list_suggestions(
    state: StateOption,
    status: StatusOption = "new",
    problems: Annotated[
        bool, typer.Option("--problems", help="Only suggestions in which a check found a problem.")
    ] = False,
) -> None:
    """List suggestions with the machine translation and the problems that checks found.

    Examples:
      dragoman suggestions list --state state
      dragoman suggestions list --state state --status all --problems
    """
    from dragoman.cli.display.suggestions import show_list

    with _opened(state) as opened:
        rows = _checked(opened)
        chosen = [
            row
            for row in rows
            if status in ("all", row.suggestion.status) and (row.problems or not problems)
        ]
        show_list(chosen, Counter(row.suggestion.status for row in rows))


@app.command("review")
def review(state: StateOption) -> None:
    """Show the new suggestions one after the other, and approve or reject each.

    A decision is stored at once. End the review at any time, and continue later.

    Examples:
      dragoman suggestions review --state state
      dragoman suggestions review --state /var/lib/dragoman
    """
    from dragoman.cli.display.suggestions import show_suggestion
    from dragoman.storage.machine import user_name

    with _opened(state) as opened:
        waiting = [row for row in _checked(opened) if row.suggestion.status == "new"]
        decided: Counter[Status] = Counter()
        names = _key_names(opened)
        for number, row in enumerate(waiting, 1):
            show_suggestion(row, f"{number:,} of {len(waiting):,}", _owner(names, row.suggestion))
            answer = _ask()
            if answer == "quit":
                break
            if answer != "skip":
                opened.decide_suggestions([row.suggestion.id], answer, user_name())
                decided[answer] += 1
    left = len(waiting) - decided.total()
    typer.echo(
        f"Approved {decided['approved']:,}, rejected {decided['rejected']:,}, {left:,} still wait."
    )


@app.command("approve")
def approve(
    state: StateOption,
    ids: IdsArgument = None,
    without_problems: Annotated[
        bool,
        typer.Option("--without-problems", help="All new ones in which no check found a problem."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Approve suggestions, so that `dragoman adapt --suggestions` learns from them.

    Examples:
      dragoman suggestions approve --state state 12 20-35
      dragoman suggestions approve --state state --without-problems
    """
    if bool(ids) == without_problems:
        raise DataError("expected the numbers of suggestions, or --without-problems, and not both")
    _decide(state, ids, "approved", is_dry=dry_run)


@app.command("reject")
def reject(
    state: StateOption,
    ids: IdsArgument = None,
    with_problems: Annotated[
        bool,
        typer.Option("--with-problems", help="All new ones in which a check found a problem."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Reject suggestions. They are kept, and are not used.

    Examples:
      dragoman suggestions reject --state state 13
      dragoman suggestions reject --state state --with-problems
    """
    if bool(ids) == with_problems:
        raise DataError("expected the numbers of suggestions, or --with-problems, and not both")
    _decide(state, ids, "rejected", is_dry=dry_run)


@app.command("import")
def import_file(
    file: Annotated[
        Path, typer.Argument(help="File that a person has corrected: PO, XLIFF, TMX, TSV, ...")
    ],
    state: StateOption,
    machine: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file as the machine wrote it: only entries that differ are imported.",
        ),
    ] = None,
    languages: Annotated[
        str,
        typer.Option(metavar="EN-DE", help="Source and target language, if the file lacks them."),
    ] = "",
    model: Annotated[
        str, typer.Option(metavar="VERSION", help="Version of the model that wrote it.")
    ] = "",
) -> None:
    """Take the entries of a corrected file as new suggestions.

    Without --machine, every translated entry is taken. A state that does not exist is created.

    Examples:
      dragoman suggestions import fixed.po --machine out/app.po --state state
      dragoman suggestions import fixed.xliff --state state --languages en-de
    """
    with needs("reading the file", "prepare"):
        from dragoman.serving.suggestion_import import import_suggestions

        with _opened(state, must_exist=False) as opened:
            result = import_suggestions(
                opened, file, machine=machine, languages=languages, model=model
            )
    pair = result.languages
    typer.echo(f"Added {counted(result.added, 'suggestion')} from {pair.source} to {pair.target}.")
    left_out = {"unchanged": result.unchanged, "already stored": result.known} | result.rejected
    for reason, count in left_out.items():
        if count:
            typer.echo(f"  left out: {count:,} {reason}")
    if result.added:
        typer.echo(f"To decide about them, type: {_command('review', state)}")


@app.command("export")
def export(
    state: StateOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .tsv or .jsonl.")
    ] = Path("corrections.tsv"),
    languages: Annotated[
        str,
        typer.Option(metavar="EN-DE", help="Source and target language. Default: the only pair."),
    ] = "",
    status: StatusOption = "approved",
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the exported suggestions from the state.")
    ] = False,
) -> None:
    """Write suggestions to a file, oldest first, for adapting a model.

    TSV has the columns source, suggestion, machine translation, model and time, without a header;
    line breaks and tabs become spaces. JSON lines keep the texts as they are.

    Examples:
      dragoman suggestions export --state state -o corrections.tsv
      dragoman suggestions export --state state --status all --remove
    """
    from dragoman.serving.suggestion_export import export_suggestions

    with _opened(state) as opened:
        count = export_suggestions(opened, output, languages, status=status, removes=remove)
    typer.echo(f"Wrote {counted(count, 'suggestion')} to {output}.")


def _decide(
    folder: Path,
    ids: Sequence[str] | None,
    status: Literal["approved", "rejected"],
    *,
    is_dry: bool,
) -> None:
    """Approve or reject the suggestions with these numbers.

    Without numbers, approve all new ones without problems, or reject all new ones with problems.
    """
    from dragoman.storage.machine import user_name

    with _opened(folder) as opened:
        problems: Counter[str] = Counter()
        if ids:
            chosen = _chosen(ids, opened.suggestions(), folder)
        else:
            new = [row for row in _checked(opened) if row.suggestion.status == "new"]
            problems.update(problem for row in new for problem in row.problems)
            is_rejection = status == "rejected"
            chosen = [row.suggestion for row in new if bool(row.problems) == is_rejection]
        if not is_dry:
            opened.decide_suggestions([one.id for one in chosen], status, user_name())
        names = _key_names(opened)
        owners = Counter(_owner(names, one) for one in chosen)
    would = {"approved": "Would approve", "rejected": "Would reject"}[status]
    typer.echo(f"{would if is_dry else status.capitalize()} {counted(len(chosen), 'suggestion')}.")
    for owner, count in owners.most_common():
        typer.echo(f"  {count:,} from {owner}")
    if problems and status == "approved":
        typer.echo("Not approved, because of problems:")
    for problem, count in problems.most_common():
        typer.echo(f"  {count:,} {problem}")
    if problems and status == "approved":
        typer.echo(f"To look at them, type: {_command('review', folder)}")


def _chosen(
    ids: Sequence[str], suggestions: Iterable[Suggestion], folder: Path
) -> list[Suggestion]:
    """Return the suggestions that numbers and ranges name; a range may have gaps."""
    by_id = {suggestion.id: suggestion for suggestion in suggestions}
    chosen: dict[int, Suggestion] = {}
    for text in ids:
        match = _ID.fullmatch(text)
        if match is None:
            raise DataError(f"found {text!r}, expected the number of a suggestion, or 20-35")
        first, last = int(match[1]), int(match[2] or match[1])
        numbers = [number for number in by_id if first <= number <= last]
        if not numbers:
            raise DataError(
                f"there is no suggestion {text}. To list the numbers, type: "
                f"{_command('list', folder)} --status all"
            )
        chosen |= {number: by_id[number] for number in numbers}
    return list(chosen.values())


def _ask() -> Status | Literal["skip", "quit"]:
    """Ask until the answer is one of the letters; the end of the input ends the review."""
    answers: dict[str, Status | Literal["skip", "quit"]]
    answers = {"a": "approved", "r": "rejected", "s": "skip", "q": "quit"}
    while True:
        try:
            text = input("a = approve, r = reject, s = skip, q = quit: ").strip().lower()
        except (EOFError, KeyboardInterrupt):
            typer.echo()
            return "quit"
        if text[:1] in answers:
            return answers[text[:1]]


@contextlib.contextmanager
def _opened(folder: Path, *, must_exist: bool = True) -> Iterator[State]:
    from dragoman.serving.state import State

    state = State(folder, must_exist=must_exist)
    try:
        yield state
    finally:
        state.close()


def _checked(state: State) -> list[CheckedSuggestion]:
    with needs(_JOB, "prepare"):
        from dragoman.serving.suggestion_checks import check_suggestions

        return check_suggestions(state.suggestions())


def _key_names(state: State) -> dict[str, str]:
    keys = state.keys()
    return {key.id: key.name for key in keys}


def _owner(names: Mapping[str, str], suggestion: Suggestion) -> str:
    """Return how the owner is shown: with the name of the key, if it still exists."""
    owner = suggestion.owner
    if owner in names:
        return f"the key {names[owner]} ({owner})"
    return f"the key {owner}" if _KEY_ID.fullmatch(owner) else owner or "unknown users"


def _command(name: str, folder: Path) -> str:
    return f"dragoman suggestions {name} --state {shlex.quote(str(folder))}"
