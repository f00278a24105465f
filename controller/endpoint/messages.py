"""
Message classes of the requests that brokers send to their controller, and of their responses.

kafka-python encodes the responses; ``strict_decoding`` reads the requests by the same definitions.
"""

from __future__ import annotations

from typing import Final

from kafka.protocol.api_message import ApiMessage

_SCHEMAS: Final = "controller.endpoint.schemas"


class ControlledShutdownRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """API key 7."""


class ControlledShutdownResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """Response of API key 7."""


class AlterPartitionRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """API key 56; called AlterIsr before Kafka 3.2."""


class AlterPartitionResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """Response of API key 56."""


class AllocateProducerIdsRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """API key 67."""


class AllocateProducerIdsResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc, call-arg]
    """Response of API key 67."""
