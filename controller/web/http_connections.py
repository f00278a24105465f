"""
Connections of the HTTP server: heads of requests, bodies and responses, parsed and written by h11.

A reverse proxy sends requests of several clients over one connection. Where it and this server
disagree about the end of a request, a client can prefix another client's request with lines of its
own. So what two readers may understand differently is refused and ends the connection: h11 refuses
other than plain header lines and two lengths; here, a coded body, a body where none is expected,
folded lines, and doubled headers that decide something.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Final

import h11

from controller.async_server import ServerConnection, write_all
from controller.web.http_messages import POLICY, HttpRequest, Response

HEAD_MAX: Final = 32 * 1024
READ_BYTES: Final = 64 * 1024
UNREAD_S: Final = 1.0
"""How long to wait for what the client still sends: closing before it arrives takes the answer."""
UNREAD_MAX: Final = 4 * 1024 * 1024
"""How much of that is read."""
SECURITY: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": POLICY,
}
"""Unless a response says otherwise."""
_SINGLE: Final = (
    b"authorization",
    b"content-type",
    b"cookie",
    b"expect",
    b"origin",
    b"sec-fetch-site",
)
"""Headers that decide something here: a second one could be the one that a proxy looked at."""
_BODILESS: Final = frozenset({b"GET", b"HEAD"})
_FOLD: Final = re.compile(rb"\n[ \t]")


@dataclass(eq=False, slots=True)
class HttpConnection(ServerConnection):
    """One connection of a client."""

    _http: Any = field(
        default_factory=lambda: h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX)
    )
    method: str = ""
    """Of the present request."""

    @property
    def may_continue(self) -> bool:
        """Whether another request may follow the one that was answered."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def next_request(self) -> HttpRequest | None:
        """
        Return the next request without its body; None: the client closed the connection.

        Raises:
            h11.RemoteProtocolError: it is not one, or its end is in doubt.

        """
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        self.method = ""
        head = bytearray(self._http.trailing_data[0])
        while (event := self._http.next_event()) is h11.NEED_DATA:
            head += await self._receive()
        if not isinstance(event, h11.Request):
            return None
        self.method = event.method.decode()
        _check(event, bytes(head[: len(head) - len(self._http.trailing_data[0])]))
        headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        return HttpRequest(event.target.decode(), headers, self.address)

    async def body(self) -> bytes:
        """Return the body of the present request; h11 raises where it is incomplete."""
        if self._http.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        body = bytearray()
        while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body += event.data
            else:
                await self._receive()
        return bytes(body)

    async def _receive(self) -> bytes:
        received = await self.reader.read(READ_BYTES)
        self._http.receive_data(received)
        return received

    async def respond(self, response: Response, *, is_last: bool) -> None:
        """Write the response to the present request; ``is_last``: the connection is closed then."""
        headers = {
            "Server": "reassigner",
            "Date": formatdate(usegmt=True),
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            **SECURITY,
            **response.headers,
            **({"Connection": "close"} if is_last else {}),
        }
        status = response.status
        await self._send(
            h11.Response(
                status_code=status, reason=status.phrase.encode(), headers=list(headers.items())
            ),
            *(() if self.method == "HEAD" else (h11.Data(data=response.body),)),
            h11.EndOfMessage(),
        )

    async def _send(self, *events: h11.Event) -> None:
        await write_all(self.writer, b"".join(self._http.send(event) or b"" for event in events))

    async def discard(self) -> None:
        """Read what the client still sends, a while: else it may never see the answer."""
        with suppress(OSError, TimeoutError):
            if self.writer.can_write_eof():
                self.writer.write_eof()
            left = UNREAD_MAX
            while left > 0:
                async with asyncio.timeout(UNREAD_S):
                    read = await self.reader.read(READ_BYTES)
                left = left - len(read) if read else 0


def _check(request: h11.Request, head: bytes) -> None:
    """Refuse a request whose end is in doubt."""
    if len(head) > HEAD_MAX:
        raise h11.RemoteProtocolError("the head is too long", error_status_hint=431)
    if _FOLD.search(head):
        raise h11.RemoteProtocolError("a line of the head is not a header")
    count = Counter(name for name, _ in request.headers)
    repeated = [name.decode() for name in _SINGLE if count[name] > 1]
    if repeated:
        raise h11.RemoteProtocolError(f"more than one header {repeated[0]}")
    if count[b"transfer-encoding"]:
        raise h11.RemoteProtocolError("a body with a Transfer-Encoding is not read here")
    length = dict(request.headers).get(b"content-length", b"0")
    if request.method in _BODILESS and length.strip(b"0"):
        raise h11.RemoteProtocolError(f"a {request.method.decode()} has no body")
