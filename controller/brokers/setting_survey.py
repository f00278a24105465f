"""
A survey of brokers for ``doctor``: whether they accept the settings that are in ZooKeeper.

Brokers validate settings by AlterConfigs with ``validate_only``, which changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.brokers.broker_connections import BrokerConnection
from controller.brokers.broker_queries import query_all
from controller.brokers.config_queries import BROKER, LIMITS, TOPIC
from controller.brokers.config_validation import rejection_of, validate
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.surveys import WITHIN_S
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId
from controller.core.pacing.throttle_settings import Entity, topic_entity
from controller.doctor.broker_answers import NoVerdict, SettingVerdicts
from controller.errors import ControllerError
from controller.kafka_errors import NONE

RESOURCES_AT_ONCE: Final = 500
DEFAULTS: Final = "<default>"
"""The name of the znode with the settings of all brokers."""
SECRETS: Final = ("password", "jaas.config")


@dataclass(frozen=True, slots=True)
class _Resource:
    """Settings as a broker validates them, and the entities that have them."""

    kind: int
    name: str
    settings: Mapping[str, str]
    entities: tuple[Entity, ...]


_Judged = tuple[_Resource, str | None, str]
"""A resource, why a broker rejects it (empty: it does not; None: unknown), and why not known."""


def judge_settings(
    connections: ConnectionSettings,
    brokers: Collection[LiveBroker],
    topics: Mapping[str, Mapping[str, str]],
    of_brokers: Mapping[str, Mapping[str, str]],
    *,
    within_s: float = WITHIN_S,
) -> SettingVerdicts:
    """
    Ask whether brokers accept the settings that are in ZooKeeper.

    A tool that writes ``/config`` itself, or brokers of another release, may leave settings that
    brokers reject: some then refuse every partition of the topic, or do not start. Any broker
    judges those of topics that exist and the defaults of brokers, each broker its own. Settings of
    brokers are given by the name of their znode.
    """
    deadline = time.monotonic() + within_s
    common, own, unknown = _resources(brokers, topics, of_brokers)
    rejected: dict[Entity, str] = {}

    def query(
        queried: Collection[LiveBroker], wanted: Mapping[BrokerId, Sequence[_Resource]]
    ) -> None:
        async def judge(broker: LiveBroker, connection: BrokerConnection) -> Sequence[_Judged]:
            resources, found = wanted[broker.id], list[_Judged]()
            for first in range(0, len(resources), RESOURCES_AT_ONCE):
                found += await _judged(connection, resources[first : first + RESOURCES_AT_ONCE])
            return found

        for _, answer in query_all(connections, LIMITS, queried, judge, deadline=deadline):
            for resource, verdict, problem in () if isinstance(answer, ControllerError) else answer:
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


def _resources(
    brokers: Collection[LiveBroker],
    topics: Mapping[str, Mapping[str, str]],
    of_brokers: Mapping[str, Mapping[str, str]],
) -> tuple[list[_Resource], dict[BrokerId, list[_Resource]], dict[Entity, str]]:
    """Return the resources for any broker, those for each, and why an entity is unknown so far."""
    common, own = list(_of_topics(topics)), dict[BrokerId, list[_Resource]]()
    unknown: dict[Entity, str] = {
        entity: NoVerdict.NOBODY_ANSWERS for resource in common for entity in resource.entities
    }
    live = {str(b.id): b.id for b in brokers}
    for name, settings in of_brokers.items():
        entity = Entity(f"brokers/{name}")
        unknown[entity] = NoVerdict.NOBODY_ANSWERS
        if any(secret in key for key in settings for secret in SECRETS):
            unknown[entity] = NoVerdict.ENCRYPTED
        elif name == DEFAULTS:
            common.append(_Resource(BROKER, "", settings, (entity,)))
        elif name in live:
            own[live[name]] = [_Resource(BROKER, name, settings, (entity,))]
        else:
            unknown[entity] = NoVerdict.NOT_LIVE
    return common, own, unknown


def _of_topics(topics: Mapping[str, Mapping[str, str]]) -> Iterator[_Resource]:
    """Yield each set of settings once, to be validated on a topic that has it."""
    same: dict[frozenset[tuple[str, str]], list[str]] = {}
    for topic, settings in topics.items():
        same.setdefault(frozenset(settings.items()), []).append(topic)
    for names in same.values():
        yield _Resource(TOPIC, names[0], topics[names[0]], tuple(map(topic_entity, names)))


async def _judged(connection: BrokerConnection, resources: Sequence[_Resource]) -> list[_Judged]:
    verdicts = await validate(connection, [(r.kind, r.name, r.settings.items()) for r in resources])
    rows = {(row.resource_type, row.resource_name): row for row in verdicts}
    found: list[_Judged] = []
    for resource in resources:
        row = rows.get((resource.kind, resource.name))
        if row is None:
            found.append((resource, None, NoVerdict.NOBODY_ANSWERS))
            continue
        verdict = "" if row.error_code == NONE else rejection_of(row)
        problem = f"error {row.error_code}" + (f", {m}" if (m := row.error_message) else "")
        found.append((resource, verdict, problem))
    return found
