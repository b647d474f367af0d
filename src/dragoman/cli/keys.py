"""`dragoman keys`: the API keys of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.help import App

app = App(help="Add, list and remove the API keys of a server.")

StateOption = Annotated[
    Path, typer.Option("--state", help="Folder of the server's state (dragoman serve --state).")
]


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Who gets the key; shown in lists.")],
    state: StateOption,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="What the key allows: translate, documents, glossaries or suggest; repeatable. "
            "Default: all.",
        ),
    ] = None,
    characters_per_month: Annotated[
        int, typer.Option(min=0, help="Quota of source characters; months in UTC (0 = no limit).")
    ] = 0,
    requests_per_minute: Annotated[
        int, typer.Option(min=0, help="Rate per server process (0 = the limit of the server).")
    ] = 0,
) -> None:
    """Add a key, and print it. It cannot be shown again: only its hash is stored.

    Examples:
      dragoman keys add weblate --state state --characters-per-month 5000000
      dragoman keys add page --state state --scope translate --scope suggest
    """
    from dragoman.serving.state import State
    from dragoman.serving.stores.keys import SCOPES, parse_scopes

    scopes = parse_scopes(scope) if scope else SCOPES
    opened = State(state)
    key = opened.add_key(name, scopes, characters_per_month, requests_per_minute)
    opened.close()
    typer.echo("The key is shown only now; store it in a safe place.", err=True)
    typer.echo(key)


@app.command("list")
def list_keys(state: StateOption) -> None:
    """List the keys with their scopes, their limits, and what they used this month.

    Examples:
      dragoman keys list --state state
      dragoman keys list --state state | grep weblate
    """
    from dragoman.serving.state import State

    opened = State(state, must_exist=True)
    known_keys = opened.keys()
    for key in known_keys:
        usage = opened.usage(key.id)
        limit = f"of {usage.limit:,} " if usage.limit else ""
        rate = f", {key.requests_per_minute:,} per minute" if key.requests_per_minute else ""
        typer.echo(f"{key.id}  {key.name}  (added {key.created:%Y-%m-%d})")
        typer.echo(f"    {', '.join(sorted(key.scopes))}")
        typer.echo(f"    {usage.characters:,} {limit}characters this month{rate}")
    opened.close()


@app.command("remove")
def remove(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key, from the list.")],
    state: StateOption,
) -> None:
    """Remove a key with its glossaries and documents. Running servers refuse it at once.

    Examples:
      dragoman keys remove 5c439179a3aa --state state
      dragoman keys remove 5c439179a3aa --state /var/lib/dragoman
    """
    import shlex

    from dragoman.errors import DataError
    from dragoman.serving.state import State

    opened = State(state, must_exist=True)
    is_removed = opened.remove_key(key_id)
    opened.close()
    if not is_removed:
        raise DataError(
            f"there is no key with the id {key_id!r}. To list the keys, type: "
            f"dragoman keys list --state {shlex.quote(str(state))}"
        )
    typer.echo(f"Removed the key {key_id}.")
