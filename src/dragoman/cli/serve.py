"""The command `dragoman serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dragoman.serving.service import Service


def serve(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of runs, adapted models or exports, one per language pair.",
            metavar="RUN...",
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 = all networks.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 5000,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Folder for keys, quotas, glossaries, documents and suggestions. Without it they "
            "are lost when the server ends.",
        ),
    ] = None,
    require_keys: Annotated[
        bool,
        typer.Option(
            "--require-keys", help="Refuse requests without an API key (see dragoman keys)."
        ),
    ] = False,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="Web page that may use the server from a browser (CORS); repeatable."),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(help="Address or network of a proxy whose X-Forwarded-For is used."),
    ] = None,
    public_url: Annotated[
        str, typer.Option(help="Address under which clients see the server.")
    ] = "",
    threads: Annotated[int, typer.Option(help="CPU threads per model (0 = all cores).", min=0)] = 0,
    batch_tokens: Annotated[int, typer.Option(help="Maximum tokens of a batch.", min=16)] = 1024,
    requests_per_minute: Annotated[
        int, typer.Option(help="Limit per key or address (0 = no limit).", min=0)
    ] = 0,
    processes: Annotated[
        int,
        typer.Option(help="Server processes behind the port; each loads all models.", min=1),
    ] = 1,
    metrics_port: Annotated[
        int,
        typer.Option(help="Port of the Prometheus metrics (0 = no metrics).", min=0, max=65535),
    ] = 0,
    grace: Annotated[
        float, typer.Option(help="Seconds to finish accepted requests after SIGTERM.", min=0)
    ] = 30.0,
) -> None:
    """Serve models to clients of LibreTranslate, DeepL and Apertium, and to people.

    Nothing leaves the machine. Open the address in a browser to translate.

    Examples:
      dragoman serve first/run
      dragoman serve en-de/run de-en/run --port 8080 --state state --require-keys
    """
    from dragoman.errors import MissingExtraError

    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("serving", error.name or "fastapi", "serve") from None
    from dragoman.serving.interface import ServerSettings
    from dragoman.serving.logs import configure_logs
    from dragoman.serving.server import run_server

    configure_logs()
    settings = ServerSettings(
        runs=tuple(runs),
        host=host,
        port=port,
        state=state,
        requires_keys=require_keys,
        allowed_origins=tuple(origin or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        public_url=public_url.rstrip("/"),
        threads=threads,
        batch_tokens=batch_tokens,
        requests_per_minute=requests_per_minute,
        metrics_port=metrics_port,
        grace_seconds=grace,
    )
    run_server(settings, _say, processes=processes)


def _say(address: str, service: Service) -> None:
    """Say what is served, and where."""
    for pair in service.pairs():
        by = f" (through {pair.pivot})" if pair.pivot else ""
        typer.echo(f"{pair.source} → {pair.target}{by}")
    typer.echo(f"Open {address} in a browser, or use it as the URL of a LibreTranslate, DeepL or")
    typer.echo("Apertium client. Nothing leaves this machine. Stop with Ctrl+C.")
