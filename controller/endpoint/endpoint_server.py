"""
The server of the endpoint: limits what connections may do, and dispatches requests.

A connection has one request at a time, as in Kafka's own server: the next one is read after the
answer is written, so that answers keep the order of the requests, and a peer cannot pile up work.
``Service`` is the extension point: it answers some API keys, or all of them.

Invariants: whatever is wrong with a connection closes that connection, without an answer; no
connection delays the loop of the daemon, which the services reach by events only.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import partial
from typing import Final, Protocol

import structlog
from kafka.protocol.api_key import ApiKey

from controller.async_server import AsyncServer
from controller.endpoint import codec
from controller.endpoint.authentication import Authentication, UnauthenticatedError
from controller.endpoint.peers import (
    SMALL_FRAME,
    Answer,
    EndpointLimits,
    EndpointObserver,
    FrameMemory,
    Peer,
)
from controller.endpoint.strict_decoding import UNPACED_MAX
from controller.errors import ProtocolError
from controller.setting_values import HttpAddress

FAILED_S: Final = 1.0
"""How long a failed authentication keeps its connection, so that passwords cannot be tried fast."""
LOG_EVERY_S: Final = 10.0
"""The same reason to close a connection is logged once in this time for each address."""
CLOSED: Final = ("protocol", "tls", "unauthenticated", "slow", "crowded", "error")
"""The reasons to close a connection by which the metrics count."""
LOGGED_MAX: Final = 1000
"""Reasons and addresses that are remembered for that."""


class Service(Protocol):
    """Answers requests of peers; runs on the server's thread."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """Lowest and highest version by API key, as ApiVersions lists them; None: any request."""

    async def answer(self, peer: Peer, header: codec.RequestHeader, frame: bytes) -> Answer | None:
        """
        Return the answer to a request, with its length in front; None: close the connection.

        The frame is the whole request, its header too, without its length.

        Raises:
            ProtocolError: the request or its answer is invalid; the connection is closed.
            OSError: what serves it failed; the connection is closed.
        """


class EndpointServer(AsyncServer[Peer]):
    """Listens, and passes requests to a service."""

    def __init__(
        self,
        address: HttpAddress,
        service: Service,
        observer: EndpointObserver,
        *,
        limits: EndpointLimits | None = None,
        authentication: Authentication | None = None,
    ) -> None:
        """Take the address; see ``AsyncServer``."""
        limits = limits or EndpointLimits()
        memory = FrameMemory(limits.frames_bytes, limits.address_bytes)
        self._decoded = FrameMemory(limits.decoded_bytes, limits.address_decoded_bytes)
        opened = partial(Peer, limits=limits, memory=memory, decoded=self._decoded)
        super().__init__("endpoint", "endpoint_listen", address, opened, limits.connections_max)
        self._authentication = authentication or Authentication()
        self._service = service
        self._versions = {
            **(service.versions or {}),
            ApiKey.ApiVersions: codec.ADVERTISED[ApiKey.ApiVersions],
            **self._authentication.versions,
        }
        self._observer = observer
        self._limits = limits
        self._logged: dict[tuple[str, str], float] = {}
        self._log = structlog.stdlib.get_logger("controller.endpoint")

    def _report_failure(self, message: str, error: BaseException | None) -> None:
        self._observer.endpoint_refused("error")
        self._log.error("endpoint_failed", error=message, exc_info=error)

    def _count_open(self, count: int) -> None:
        self._observer.endpoint_connections(count)

    def _report_crowding(self, peer: Peer) -> None:
        self._record_refusal(peer, "crowded", "too many connections")

    async def _serve(self, peer: Peer) -> None:
        try:
            await self._converse(peer)
        except UnauthenticatedError as error:
            self._record_refusal(peer, "unauthenticated", str(error))
            await asyncio.sleep(FAILED_S)
        except ssl.SSLError as error:
            self._record_refusal(peer, "tls", error.reason or str(error))
        except ProtocolError as error:
            self._record_refusal(peer, "protocol", str(error))
        except TimeoutError:
            self._record_refusal(peer, "slow", "too slow, or idle")
        except (asyncio.IncompleteReadError, OSError):
            pass  # the peer closed the connection

    async def _converse(self, peer: Peer) -> None:
        await self._authentication.secure(peer)
        await self._authentication.identify(peer, self._api_versions)
        within_s = self._limits.unauthenticated_s
        while True:
            size_max = codec.FRAME_MAX if peer.is_authenticated else SMALL_FRAME
            frame = await peer.next_frame(size_max, within_s)
            peer.is_served = peer.is_authenticated
            answer = await self._answer(peer, frame)
            peer.is_served = False
            if answer is None:
                return
            await peer.send(answer)
            if peer.is_left:
                return
            if peer.is_authenticated:
                peer.was_served = True
                within_s = self._limits.idle_s

    async def _answer(self, peer: Peer, frame: bytes) -> Answer | None:
        header = codec.header_of(frame)
        served = self._service.versions
        if served is None or header.api_key in served:
            return await self._service.answer(peer, header, frame)
        if header.api_key != ApiKey.ApiVersions:
            raise ProtocolError(f"API key {header.api_key} is not served")
        if len(frame) > UNPACED_MAX:
            raise ProtocolError(f"an ApiVersions of {len(frame)} bytes")
        codec.decode(frame)
        return self._api_versions(header)

    def _api_versions(self, header: codec.RequestHeader) -> bytes:
        return codec.api_versions_response(header, self._versions)

    def _record_refusal(self, peer: Peer, reason: str, why: str) -> None:
        """Count a closed connection, and log it unless the same was logged just now."""
        self._observer.endpoint_refused(reason)
        now, key = asyncio.get_running_loop().time(), (peer.address, reason)
        if now < self._logged.get(key, 0.0):
            return
        if len(self._logged) >= LOGGED_MAX:
            self._logged.clear()
        self._logged[key] = now + LOG_EVERY_S
        self._log.warning(
            "endpoint_closed", peer=f"{peer.address}:{peer.port}", reason=reason, why=why
        )
