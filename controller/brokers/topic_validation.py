"""
What only brokers know of new topics and their settings, and whether topics are deleted.

Blocking, for threads that may wait. Kafka's controller is a broker, and uses its own configuration
for new topics; during a tenure that of all live brokers stands for it. Where they differ, or one
has a policy (a class of the operator's inside the brokers), nothing is known here, and a broker has
to be the controller.

Brokers describe and validate only topics that exist. Settings are validated by AlterConfigs with
``validate_only`` on some of them: any broker does so without the controller, by the same code. What
an existing topic does not set itself has the value that it has in a new topic: that of a setting of
the broker, which may be in another unit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from controller.brokers.broker_connections import BrokerConnection, ConnectionLimits
from controller.brokers.broker_queries import query_all
from controller.brokers.config_queries import (
    BROKER,
    DELETION,
    LIMITS,
    PROTOCOL,
    TOPIC,
    describe_configs,
)
from controller.brokers.config_validation import rejection_of, validate
from controller.brokers.connection_settings import ConnectionSettings
from controller.core.calls.client_requests import (
    DYNAMIC_TOPIC_CONFIG,
    EffectiveConfig,
    TopicDefaults,
)
from controller.core.cluster.model import WITH_STORED_IDS, LiveBroker, is_protocol_at_least
from controller.core.model import BrokerId
from controller.core.topics.model import TopicSettings
from controller.errors import ControllerError, InvalidInputError
from controller.kafka_errors import NONE

WITHIN_S: Final = 5.0
"""How long brokers are awaited."""
SILENT_S: Final = 10.0
"""How long a broker that did not answer is not asked again: every request would wait for it."""
EXAMPLES: Final = 3
"""Existing topics on which settings are validated: one of them may have just been deleted."""

CREATE_POLICY: Final = "create.topic.policy.class.name"
ALTER_POLICY: Final = "alter.config.policy.class.name"
NUM_PARTITIONS: Final = "num.partitions"
REPLICATION_FACTOR: Final = "default.replication.factor"
FOR_NEW_TOPICS: Final = (CREATE_POLICY, ALTER_POLICY, NUM_PARTITIONS, REPLICATION_FACTOR)
"""
Settings of brokers that have to be the same, and change with a restart only.

The protocol is raised one broker after the other. A controller that stores ids gives every topic
one, and one that does not keeps them: a new topic gets one as soon as a broker stores them.
"""

_BOOLEANS: Final = {"true": True, "false": False}
_BOOLEAN: Final = 1
_DOUBLE: Final = 6
_LIST: Final = 7
_NUMBERS: Final = frozenset({3, 4, 5})
"""Types of settings (``DescribeConfigsResponse.ConfigType``); 0: the broker does not say."""
_UNITS_MS: Final = {".hours": 3_600_000, ".minutes": 60_000}
"""Milliseconds in the units of brokers' settings, whose topics' settings are in milliseconds."""

Found = TypeVar("Found")


@dataclass(slots=True)
class TopicValidation:
    """Implements ``endpoint.topic_service.Validation``; an adapter that follows the brokers."""

    connections: ConnectionSettings
    topics: Callable[[], Collection[str]]
    """Returns the topics that exist."""
    limits: ConnectionLimits = LIMITS
    silent_s: float = SILENT_S
    """How long a broker that did not answer is not asked again."""
    _brokers: Mapping[BrokerId, LiveBroker] = field(default_factory=dict)
    _known: dict[LiveBroker, Mapping[str, str | None]] = field(default_factory=dict)
    """The configuration of each broker, by its registration."""
    _querying: threading.Lock = field(default_factory=threading.Lock)
    """Held by the thread that asks for configurations; others need not ask, too."""
    _silent: dict[LiveBroker, float] = field(default_factory=dict)
    """Until when a broker that did not answer is not asked again, on the monotonic clock."""

    def update_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """Replace the brokers; callable from any thread."""
        self._brokers = {b.id: b for b in brokers}

    def defaults(self) -> TopicDefaults | None:
        """Return what new topics depend on; None: only Kafka's controller can create topics."""
        first = self._common_settings("topic_defaults", FOR_NEW_TOPICS)
        if first is None or first.get(CREATE_POLICY):
            return None
        protocols = {configured.get(PROTOCOL) or "" for configured in self._known.values()}
        try:
            return TopicDefaults(
                int(first.get(NUM_PARTITIONS) or ""),
                int(first.get(REPLICATION_FACTOR) or ""),
                any(is_protocol_at_least(protocol, WITH_STORED_IDS) for protocol in protocols),
            )
        except (ValueError, InvalidInputError) as error:
            _log("topic_defaults_unreadable", error=str(error))
            return None

    def is_deletion_enabled(self) -> bool | None:
        """Return ``delete.topic.enable``; None: only Kafka's controller can delete topics."""
        agreed = self._common_settings("topic_deletion", (DELETION,))
        return None if agreed is None else _BOOLEANS.get(agreed[DELETION] or "")

    def config_problems(
        self, wanted: Collection[TopicSettings]
    ) -> Mapping[TopicSettings, str] | None:
        """
        Return why brokers reject settings of topics; those that are valid are left out.

        None: brokers do not say, or have a policy for changes of settings.
        """
        examples = tuple(islice(self.topics(), EXAMPLES))
        agreed = self._common_settings("topic_policies", (ALTER_POLICY,))
        if not examples or agreed is None or agreed[ALTER_POLICY]:
            return None

        async def query(
            _broker: LiveBroker, connection: BrokerConnection
        ) -> dict[TopicSettings, str] | None:
            problems: dict[TopicSettings, str] = {}
            for settings in dict.fromkeys(wanted):
                verdict = await _verdict(connection, examples, settings)
                if verdict is None:
                    return None
                if verdict:
                    problems[settings] = verdict
            return problems

        return self._first_to_say(query)

    def described(
        self, wanted: Collection[TopicSettings]
    ) -> Mapping[TopicSettings, tuple[EffectiveConfig, ...]] | None:
        """
        Return all settings that new topics with these valid ones would have.

        None: brokers do not say, or there is no topic.
        """
        examples = tuple(islice(self.topics(), EXAMPLES))
        if not examples:
            return None

        async def query(
            _broker: LiveBroker, connection: BrokerConnection
        ) -> Mapping[str, DefaultSetting] | None:
            topics = [(TOPIC, name) for name in examples]
            results = await describe_configs(connection, topics, None, with_synonyms=True)
            return defaults_of(row for row in results if not row.error_code) or None

        defaults = self._first_to_say(query)
        return None if defaults is None else {w: described(defaults, w) for w in wanted}

    def _first_to_say(
        self, query: Callable[[LiveBroker, BrokerConnection], Awaitable[Found | None]]
    ) -> Found | None:
        """Return what the first broker says that answers, and says it; None: none does."""
        for broker in list(self._brokers.values())[:EXAMPLES]:
            for _, given in self._query((broker,), query):
                if given is not None and not isinstance(given, ControllerError):
                    found: Found = given
                    return found
        return None

    def _common_settings(
        self, subject: str, names: Collection[str]
    ) -> Mapping[str, str | None] | None:
        """
        Return the settings that all live brokers have; None: they differ, or one is not known.

        A broker that does not answer may have a policy, or other values.
        """
        brokers = tuple(self._brokers.values())
        found = self._configurations()
        silent = sorted(broker.id for broker in brokers if broker not in found)
        if silent or not brokers:
            _log(f"{subject}_unknown", brokers=silent)
            return None
        each = [{name: found[broker].get(name) for name in names} for broker in brokers]
        if any(other != each[0] for other in each):
            _log(f"{subject}_differ")
            return None
        return each[0]

    def _configurations(self) -> Mapping[LiveBroker, Mapping[str, str | None]]:
        """Return the configuration of each live broker that answers."""
        with self._querying:
            brokers = self._brokers
            known = {b: c for b, c in self._known.items() if brokers.get(b.id) == b}
            new = [b for b in brokers.values() if b not in known]
            for broker, given in self._query(new, _configuration):
                if isinstance(given, dict) and given:
                    known[brokers[broker]] = given
            self._known = known
            return known

    def _query(self, brokers: Collection[LiveBroker], query: Any) -> Iterable[tuple[BrokerId, Any]]:  # noqa: ANN401 - of any result
        """Return the answers and errors of brokers, except of those that were just silent."""
        now = time.monotonic()
        queried = [b for b in brokers if self._silent.get(b, now) <= now]
        if not queried:
            return []
        deadline = now + WITHIN_S
        found = list(query_all(self.connections, self.limits, queried, query, deadline=deadline))
        answered = {broker for broker, given in found if not isinstance(given, ControllerError)}
        until = time.monotonic() + self.silent_s
        self._silent = {b: end for b, end in self._silent.items() if end > now} | {
            b: until for b in queried if b.id not in answered
        }
        return found


async def _configuration(broker: LiveBroker, connection: BrokerConnection) -> dict[str, str | None]:
    """Return what a broker is configured with; empty: it does not say."""
    wanted = (*FOR_NEW_TOPICS, PROTOCOL, DELETION)
    results = await describe_configs(connection, [(BROKER, str(broker.id))], wanted)
    return {c.name: c.value for result in results for c in result.configs}


async def _verdict(
    connection: BrokerConnection, examples: Iterable[str], settings: TopicSettings
) -> str | None:
    """Return why a broker rejects settings, empty if it does not; None: it does not say."""
    rows = await validate(connection, [(TOPIC, name, settings) for name in examples])
    if any(row.error_code == NONE for row in rows):
        return ""
    return next((why for row in rows if (why := rejection_of(row))), None)


def _log(event: str, **values: object) -> None:
    structlog.stdlib.get_logger("controller.endpoint").warning(event, **values)


# --- the settings of a new topic -----------------------------------------------------------------


class DefaultSetting(NamedTuple):
    """A setting of a topic that does not set it itself."""

    config: EffectiveConfig
    type: int


def defaults_of(rows: Iterable[Any]) -> Mapping[str, DefaultSetting]:
    """Return the settings of topics that set nothing, from descriptions with synonyms."""
    found: dict[str, DefaultSetting] = {}
    derived: dict[str, DefaultSetting] = {}
    for row in rows:
        for entry in row.configs:
            shown = EffectiveConfig(
                entry.name, entry.value, entry.read_only, entry.config_source, entry.is_sensitive
            )
            kind = getattr(entry, "config_type", 0)
            if shown.config_source != DYNAMIC_TOPIC_CONFIG:
                found.setdefault(entry.name, DefaultSetting(shown, kind))
                continue
            behind = next((s for s in entry.synonyms if s.source != DYNAMIC_TOPIC_CONFIG), None)
            if behind is not None:
                value = _in_topics_unit(behind.name, behind.value)
                shown = shown._replace(value=value, config_source=behind.source)
                derived.setdefault(entry.name, DefaultSetting(shown, kind))
    return {**derived, **found}


def _in_topics_unit(name: str, value: str | None) -> str | None:
    """Return the value of a broker's setting as a topic has it."""
    factor = next((f for unit, f in _UNITS_MS.items() if name.endswith(unit)), 1)
    if value is None or factor == 1 or int(value) < 0:
        return value
    return str(int(value) * factor)


def described(
    defaults: Mapping[str, DefaultSetting], settings: TopicSettings
) -> tuple[EffectiveConfig, ...]:
    """Return what a broker would describe of a new topic with settings that are valid."""
    shown = {name: default.config for name, default in defaults.items()}
    for name, value in settings:
        default = defaults.get(name)
        before, kind = default or DefaultSetting(EffectiveConfig(name, None), 0)
        text = None if before.is_sensitive else _as_written(value, kind)
        shown[name] = before._replace(value=text, config_source=DYNAMIC_TOPIC_CONFIG)
    return tuple(shown.values())


def _as_written(value: str, kind: int) -> str:
    """Return a value as a broker writes it after reading it."""
    text = value.strip()
    try:
        if kind in _NUMBERS:
            return str(int(text))
        if kind == _DOUBLE:
            return repr(float(text))
    except ValueError:
        return text
    if kind == _BOOLEAN:
        return text.lower()
    if kind == _LIST:
        return ",".join(part.strip() for part in text.split(","))
    return text
