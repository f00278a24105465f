"""Requests of chosen versions to the controller that clients see, broker or daemon."""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from integration.rigs.cluster import Cluster

_CORRELATION: Final = 7
_ANSWER_WITHIN_S: Final = 60.0


class ControllerWire:
    """Sends what no library lets a test send; each request has a connection of its own."""

    def __init__(self, cluster: Cluster) -> None:
        """Find the controller."""
        admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_security}
        )
        metadata = admin.list_topics(timeout=20)
        found = metadata.brokers[metadata.controller_id]
        self._address = (str(found.host), found.port)
        listed = self.send(ApiVersionsRequest(version=0), ApiVersionsResponse)
        self._highest = {entry.api_key: entry.max_version for entry in listed.api_keys}

    def highest(self, api_key: int) -> int:
        """Return the highest version of a request that the controller lists."""
        return int(self._highest[api_key])

    def send(self, message: Any, response: Any) -> Any:  # noqa: ANN401 - kafka-python has no types
        """Return the answer to a request, decoded as this response."""
        message.with_header(correlation_id=_CORRELATION, client_id="a-test")
        frame = message.encode(header=True)
        with socket.create_connection(self._address, timeout=_ANSWER_WITHIN_S) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            answer = connection.recv(size, socket.MSG_WAITALL)
        assert struct.unpack(">i", answer[:4]) == (_CORRELATION,)
        version = message.API_VERSION
        has_tags = message.API_KEY != ApiVersionsRequest.API_KEY and response.flexible_version_q(
            version
        )
        return response.decode(answer[4 + has_tags :], version=version)
