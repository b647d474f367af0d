"""Translates texts for a client and counts their characters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.serving.context import Context
from dragoman.serving.interface import Caller, TextRequest, TextResult


@asynccontextmanager
async def charged(context: Context, caller: Caller, characters: int) -> AsyncIterator[None]:
    """Charge characters for what is done inside; what is not finished costs nothing."""
    await context.access.charge(caller, characters)
    try:
        yield
    except BaseException:
        # Also if the client has gone: many try again, the official ones of DeepL up to five times.
        await asyncio.shield(context.access.refund(caller, characters))
        raise


async def translate_charged(
    context: Context, request: TextRequest, caller: Caller
) -> list[TextResult]:
    """Charge the characters of a request and translate it."""
    async with charged(context, caller, sum(map(len, request.texts))):
        return await context.service.translate(request, caller)
