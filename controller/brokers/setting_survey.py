"""
Whether brokers accept the settings of topics and brokers that are in ZooKeeper.

A tool that writes ``/config`` itself, or brokers of another release, may leave settings that
brokers reject: some then refuse every partition of the topic, or do not start. Brokers validate by
AlterConfigs with ``validate_only``, which alters nothing; any broker does so for topics and for the
defaults of brokers, each broker for its own settings. Synchronous, for commands.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import AlterConfigsRequest
from kafka.protocol.api_key import ApiKey

from controller.brokers.broker_queries import ConnectionSettings, query_all
from controller.brokers.connections import BrokerConnection
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.messages import frame_of
from controller.brokers.topic_configs import BROKER, LIMITS, TOPIC
from controller.brokers.topic_validation import ALTER_CONFIGS_MAX, rejection_of
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId
from controller.core.pacing.throttle_settings import Entity, topic_entity
from controller.doctor.snapshot import SettingVerdicts
from controller.errors import ControllerError
from controller.kafka_errors import NONE

WITHIN_S: Final = 30.0
RESOURCES_AT_ONCE: Final = 500
DEFAULTS: Final = "<default>"
"""The name of the znode with the settings of all brokers."""
SECRETS: Final = ("password", "jaas.config")
ENCRYPTED: Final = "passwords among them are encrypted"
NOT_LIVE: Final = "the broker is not live"
SILENT: Final = "no broker answers"


@dataclass(frozen=True, slots=True)
class _Resource:
    """Settings as a broker validates them, and the entities that have them."""

    kind: int
    name: str
    settings: Mapping[str, str]
    entities: tuple[Entity, ...]


_Wanted = Mapping[BrokerId, Sequence[_Resource]]
"""What each broker is asked."""
_Judged = tuple[_Resource, str | None, str]
"""A resource, why a broker rejects it (empty: it does not; None: unknown), and why not known."""


class SettingSurvey:
    """Asks brokers about settings."""

    def __init__(self, security: Security, listeners: ListenerChoice) -> None:
        """
        Prepare; nothing is connected.

        Args:
            security: TLS and SASL settings.
            listeners: The choice of a broker's listener.

        """
        self._settings = ConnectionSettings(security, listeners, LIMITS)

    def judge(
        self,
        brokers: Collection[LiveBroker],
        topics: Mapping[str, Mapping[str, str]],
        of_brokers: Mapping[str, Mapping[str, str]],
        *,
        within_s: float = WITHIN_S,
    ) -> SettingVerdicts:
        """
        Ask whether settings are valid.

        Args:
            brokers: The live brokers.
            topics: The settings of topics that exist.
            of_brokers: Those of brokers, by the name of their znode.
            within_s: The limit for everything, in seconds.

        """
        deadline = time.monotonic() + within_s
        common, own, unknown = _resources(brokers, topics, of_brokers)
        rejected: dict[Entity, str] = {}

        def query(queried: Collection[LiveBroker], wanted: _Wanted) -> None:
            for resource, verdict, problem in self._query(queried, wanted, deadline):
                for entity in resource.entities:
                    unknown.pop(entity)
                    if verdict is None:
                        unknown[entity] = problem
                    elif verdict:
                        rejected[entity] = verdict

        query([b for b in brokers if b.id in own], own)
        for broker in sorted(brokers, key=lambda b: b.id):
            left = [r for r in common if r.entities[0] in unknown]
            query((broker,) if left else (), {broker.id: left})
        return SettingVerdicts(rejected=rejected, unknown=unknown)

    def _query(
        self, brokers: Collection[LiveBroker], wanted: _Wanted, deadline: float
    ) -> Iterator[_Judged]:
        """Yield what each broker that answers says of its resources."""

        async def judged(broker: LiveBroker, connection: BrokerConnection) -> Sequence[_Judged]:
            resources, found = wanted[broker.id], list[_Judged]()
            for first in range(0, len(resources), RESOURCES_AT_ONCE):
                found += await _judged(connection, resources[first : first + RESOURCES_AT_ONCE])
            return found

        for _, answer in query_all(self._settings, brokers, judged, deadline=deadline):
            if not isinstance(answer, ControllerError):
                yield from answer


def _resources(
    brokers: Collection[LiveBroker],
    topics: Mapping[str, Mapping[str, str]],
    of_brokers: Mapping[str, Mapping[str, str]],
) -> tuple[list[_Resource], dict[BrokerId, list[_Resource]], dict[Entity, str]]:
    """Return what any broker judges, what each judges, and why nothing is known of the entities."""
    common, own = list(_of_topics(topics)), dict[BrokerId, list[_Resource]]()
    unknown = {entity: SILENT for resource in common for entity in resource.entities}
    live = {str(b.id): b.id for b in brokers}
    for name, settings in of_brokers.items():
        entity = Entity(f"brokers/{name}")
        unknown[entity] = SILENT
        if any(secret in key for key in settings for secret in SECRETS):
            unknown[entity] = ENCRYPTED
        elif name == DEFAULTS:
            common.append(_Resource(BROKER, "", settings, (entity,)))
        elif name in live:
            own[live[name]] = [_Resource(BROKER, name, settings, (entity,))]
        else:
            unknown[entity] = NOT_LIVE
    return common, own, unknown


def _of_topics(topics: Mapping[str, Mapping[str, str]]) -> Iterator[_Resource]:
    """Yield each set of settings once, to be validated on a topic that has it."""
    same: dict[frozenset[tuple[str, str]], list[str]] = {}
    for topic, settings in topics.items():
        same.setdefault(frozenset(settings.items()), []).append(topic)
    for names in same.values():
        yield _Resource(TOPIC, names[0], topics[names[0]], tuple(map(topic_entity, names)))


async def _judged(connection: BrokerConnection, resources: Sequence[_Resource]) -> list[_Judged]:
    _, highest = connection.understood.get(ApiKey.AlterConfigs, (0, 0))
    request = AlterConfigsRequest(
        version=min(highest, ALTER_CONFIGS_MAX),
        resources=[(r.kind, r.name, list(r.settings.items())) for r in resources],
        validate_only=True,
    )
    answer: Any = await connection.send_and_receive(frame_of(request))
    rows = {(row.resource_type, row.resource_name): row for row in answer.responses}
    found: list[_Judged] = []
    for resource in resources:
        row = rows.get((resource.kind, resource.name))
        if row is None:
            found.append((resource, None, SILENT))
            continue
        verdict = "" if row.error_code == NONE else rejection_of(row)
        problem = f"error {row.error_code}" + (f", {m}" if (m := row.error_message) else "")
        found.append((resource, verdict, problem))
    return found
