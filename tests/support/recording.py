"""Exchanges between a real client and the server: recorded once, and sent again in CI.

A recording is a JSON file: a list of requests with the answers that the client accepted. Ids that
the server made up differ in each run; so do times.
"""

from __future__ import annotations

import json
import re
from collections import deque

_KEPT_HEADERS = ("accept", "authorization", "content-type")
_ID_NAMES = ("glossary_id", "document_id", "document_key")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Recorder:
    """ASGI middleware that keeps the last exchanges."""

    def __init__(self, app):
        self.app = app
        self.exchanges = deque(maxlen=200)

    async def __call__(self, scope, receive, send):
        request, answer, status = bytearray(), bytearray(), 0

        async def receive_and_keep():
            message = await receive()
            request.extend(message.get("body", b""))
            return message

        async def send_and_keep(message):
            nonlocal status
            status = message.get("status", status)
            answer.extend(message.get("body", b""))
            await send(message)

        await self.app(scope, receive_and_keep, send_and_keep)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        query = scope["query_string"].decode()
        self.exchanges.append(
            {
                "method": scope["method"],
                "target": f"{scope['path']}?{query}" if query else scope["path"],
                "headers": {name: headers[name] for name in _KEPT_HEADERS if name in headers},
                "body": request.decode(errors="replace"),
                "status": status,
                "answer": answer.decode(errors="replace"),
            }
        )

    def save(self, path):
        """Write a recording."""
        text = json.dumps(list(self.exchanges), indent=1, ensure_ascii=False)
        path.write_text(f"{text}\n", encoding="utf-8")


def replay(path, http):
    """Send the requests of a recording again; return pairs of recorded and new answers.

    An answer is its status and its body. Ids of the recording are replaced by the new ones.
    """
    new_ids = {}
    pairs = []
    for exchange in json.loads(path.read_text(encoding="utf-8")):
        response = http.request(
            exchange["method"],
            _translate(exchange["target"], new_ids),
            headers=exchange["headers"],
            content=_translate(exchange["body"], new_ids).encode(),
        )
        new_ids.update(zip(_ids(exchange["answer"]), _ids(response.text), strict=True))
        recorded = _TIME.sub("TIME", _translate(exchange["answer"], new_ids))
        pairs.append(
            (
                (exchange["method"], exchange["target"], exchange["status"], recorded),
                (
                    exchange["method"],
                    exchange["target"],
                    response.status_code,
                    _TIME.sub("TIME", response.text),
                ),
            )
        )
    return pairs


def _ids(answer):
    names = "|".join(_ID_NAMES)
    return [match[1] for match in re.finditer(rf'"(?:{names})":"([^"]*)"', answer)]


def _translate(text, new_ids):
    for old, new in new_ids.items():
        text = text.replace(old, new)
    return text
