"""
The vocabulary of brokers, and the ledger of those that are registered.

The protocol constants are the inter-broker protocol versions (``inter.broker.protocol.version`` of
a broker, as text) at which something changes for the controller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import ClassVar, Final, NamedTuple

from controller.core.bases import Ledger, Lifetime
from controller.core.model import BrokerEpoch, BrokerId, Instant
from controller.errors import InvalidInputError


class Endpoint(NamedTuple):
    """A listener that a broker advertises."""

    listener: str
    host: str
    port: int
    security_protocol: str


def is_loopback(host: str) -> bool:
    """Return whether a server on this host is reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker registration; a bounced broker has another ``epoch``."""

    id: BrokerId
    epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    has_features: bool = False
    """Registrations carry ``features`` from inter-broker protocol 2.7 on."""


class KnownSettings(NamedTuple):
    """The settings of a broker that matter to a controller, in one registration."""

    epoch: BrokerEpoch
    deletes_topics: bool | None
    """Whether it deletes topics when it is the controller; None: it has not answered or cannot."""
    is_known: bool
    """Whether it answered, or will not."""
    requested_at: Instant
    protocol: str | None = None
    """Its inter-broker protocol; None: it has not answered or cannot."""


@dataclass(slots=True)
class ClusterLedger(Ledger):
    """The registered brokers: a new session compares them, so a restart meanwhile is noticed."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    brokers: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    registered: dict[BrokerId, Instant] = field(default_factory=dict)
    """When brokers were seen to register; not of those that the first read showed."""
    broker_settings: dict[BrokerId, KnownSettings] = field(default_factory=dict)
    """
    What brokers said of their settings: below inter-broker protocol 2.7 they are queried while a
    topic deletion is pending, all others as soon as they register.
    """

    def registered_since(self, since: Instant) -> set[BrokerId]:
        """Return the brokers that were seen to register at that time or later."""
        return {broker for broker, at in self.registered.items() if at >= since}

    def record_settings_request(self, brokers: Iterable[LiveBroker], now: Instant) -> None:
        """Note that brokers were queried; those that are gone are forgotten."""
        settings = self.broker_settings
        for gone in settings.keys() - self.brokers.keys():
            del settings[gone]
        for broker in brokers:
            known = settings.get(broker.id)
            if known is None or known.epoch != broker.epoch:
                known = KnownSettings(broker.epoch, None, is_known=False, requested_at=now)
            # One that did not answer is queried again, and stands for a refusal meanwhile.
            settings[broker.id] = known._replace(deletes_topics=None, requested_at=now)


BEFORE_FEATURES: Final = "2.6"
"""The last release whose registrations carry no features; its leaders write ISR to ZooKeeper."""
WITH_ISR_REQUESTS: Final = "2.7-IV2"
"""From this protocol on, leaders send ISR changes to the controller (KIP-497)."""
WITH_STORED_IDS: Final = "2.8-IV0"
"""From this protocol on, the controller gives an id to a topic without one (KIP-516)."""
WITH_SENT_IDS: Final = "2.8-IV1"
"""From this protocol on, requests of the controller carry topic ids."""
WITH_RECOVERY: Final = "3.2-IV0"
"""From this protocol on, an unclean election marks the partition as recovering (KIP-704)."""

_LAST: Final = 1_000_000
_WRITTEN: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?(?:-IV(\d{1,4}))?")


class ProtocolVersion(NamedTuple):
    """An inter-broker protocol version; without ``-IVn`` it is the last of its release."""

    major: int
    minor: int
    internal: int


@lru_cache(maxsize=256)
def parse_protocol(text: str) -> ProtocolVersion:
    """
    Parse an inter-broker protocol version.

    Raises:
        InvalidInputError: the text is none.

    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        raise InvalidInputError(
            f"{text!r} is not an inter-broker protocol version such as 2.6 or 2.4-IV1"
        )
    major, minor, internal = match.groups()
    return ProtocolVersion(int(major), int(minor), _LAST if internal is None else int(internal))


def is_protocol_at_least(protocol: str, least: str) -> bool:
    """
    Return whether an inter-broker protocol is another one, or a later one.

    Raises:
        InvalidInputError: one of them is not a protocol version.

    """
    return parse_protocol(protocol) >= parse_protocol(least)
