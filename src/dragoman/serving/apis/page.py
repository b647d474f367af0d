"""The page for people: its files, and a policy that lets it load nothing from elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dragoman.explanation.html_page import policy_hash
from dragoman.explanation.page import style_and_script
from dragoman.serving.context import Context

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media_type: str
    tag: str


def content_security_policy() -> str:
    """Return the policy of the page.

    An explanation is shown in a frame, which inherits this policy. Its style sheet and its script
    are part of it, so they are allowed by their hashes.
    """
    style, script = map(policy_hash, style_and_script())
    return (
        f"default-src 'none'; script-src 'self' '{script}'; style-src 'self' '{style}'; "
        "img-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def routes(_: Context) -> APIRouter:
    """Return the routes of the page: `/` and `/page/NAME`."""
    router = APIRouter(include_in_schema=False)
    folder = files("dragoman.serving") / "page"
    pages = {file.name: _read(file) for file in folder.iterdir() if file.is_file()}
    policy = content_security_policy()

    @router.api_route("/", methods=["GET", "HEAD"])
    async def index(request: Request) -> Response:
        return _reply(request, pages["index.html"], policy)

    @router.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def page_file(request: Request, name: str) -> Response:
        if name not in pages or name == "index.html":
            raise HTTPException(404, "There is no such file")
        return _reply(request, pages[name], policy)

    return router


def _reply(request: Request, file: _File, policy: str) -> Response:
    # A browser asks each time whether its copy is still right, so an update shows at once.
    headers = {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": policy,
        "ETag": file.tag,
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


def _read(file: Traversable) -> _File:
    content = file.read_bytes()
    tag = hashlib.sha256(content).hexdigest()[:32]
    return _File(content, _MEDIA_TYPES[file.name.rpartition(".")[2]], f'"{tag}"')
