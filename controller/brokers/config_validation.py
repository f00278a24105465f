"""Validation of settings by brokers: AlterConfigs with ``validate_only``, which alters nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kafka.protocol.admin import AlterConfigsRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from controller.brokers.broker_connections import BrokerConnection
from controller.brokers.frames import frame_of
from controller.kafka_errors import INVALID_CONFIG, INVALID_REQUEST

ALTER_CONFIGS_MAX: Final = 1
ConfigResource = tuple[int, str, Iterable[tuple[str, str]]]
"""Type and name of a resource, and settings for it."""


def validation_request(version: int, resources: Iterable[ConfigResource]) -> ApiMessage:
    """Return the AlterConfigs that validates settings of resources, and alters nothing."""
    return AlterConfigsRequest(
        version=version,
        resources=[(kind, name, list(settings)) for kind, name, settings in resources],
        validate_only=True,
    )


async def validate(
    connection: BrokerConnection, resources: Iterable[ConfigResource]
) -> Sequence[Any]:
    """Return a broker's verdict on the settings of each resource."""
    version = connection.version(ApiKey.AlterConfigs, ALTER_CONFIGS_MAX)
    answer: Any = await connection.send_and_receive(
        frame_of(validation_request(version, resources))
    )
    verdicts: Sequence[Any] = answer.responses
    return verdicts


def rejection_of(row: Any) -> str | None:  # noqa: ANN401 - kafka-python has no types
    """Return why settings are invalid, from a result with an error; None: it says another thing."""
    if row.error_code not in {INVALID_CONFIG, INVALID_REQUEST}:
        return None
    # The message begins with the resource that it was tried on.
    return (row.error_message or "").split("'): ", 1)[-1] or "Invalid configuration."
