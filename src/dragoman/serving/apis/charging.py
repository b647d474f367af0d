"""Translates texts for a client and counts their characters."""

from __future__ import annotations

from dragoman.serving.context import Context
from dragoman.serving.interface import Caller, ServiceError, TextRequest, TextResult


async def translate_charged(
    context: Context, request: TextRequest, caller: Caller
) -> list[TextResult]:
    """Charge the characters of a request and translate it; a refused request costs nothing."""
    characters = sum(map(len, request.texts))
    await context.access.charge(caller, characters)
    try:
        return await context.service.translate(request, caller)
    except ServiceError:
        await context.access.refund(caller, characters)
        raise
