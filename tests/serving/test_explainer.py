"""Explanations wait for each other; more than a few at a time are refused."""

import asyncio

import pytest

from dragoman.serving.explainer import _MAX_REQUESTS, Explainer
from dragoman.serving.interface import ServiceError


class Slow(Explainer):
    """An explainer whose process answers only when the test allows it."""

    def __init__(self, run):
        super().__init__(run)
        self.may_answer = asyncio.Event()

    async def _ask(self, text):
        await self.may_answer.wait()
        return f"<p>{text}</p>"


def test_more_requests_than_the_maximum_are_refused_until_one_is_answered(tmp_path):
    async def scenario():
        explainer = Slow(tmp_path)
        waiting = [
            asyncio.create_task(explainer.explain(str(number))) for number in range(_MAX_REQUESTS)
        ]
        await asyncio.sleep(0)
        with pytest.raises(ServiceError) as refusal:
            await explainer.explain("one more")
        assert refusal.value.kind == "overloaded"
        # A client that goes away makes room for another.
        waiting.pop().cancel()
        await asyncio.sleep(0)
        waiting.append(asyncio.create_task(explainer.explain("again")))
        await asyncio.sleep(0)
        explainer.may_answer.set()
        assert await asyncio.gather(*waiting) == [
            *(f"<p>{number}</p>" for number in range(_MAX_REQUESTS - 1)),
            "<p>again</p>",
        ]
        assert await explainer.explain("after") == "<p>after</p>"

    asyncio.run(scenario())
