"""
The choice of the version of each controller request.

Kafka's controller does not negotiate: its inter-broker protocol determines the versions. Here, the
lower of that version and the broker's highest is used. Below protocol 2.6 the versions of 2.6 are
sent to brokers that understand them, whatever they are configured with: they fence a StopReplica by
its leader epoch. Pure.

Invariant: ``controller_requests`` can build the chosen version, and the broker serves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from kafka.protocol.api_key import ApiKey

from controller.core.cluster.model import BEFORE_FEATURES, parse_protocol
from controller.errors import NativeRefusedError


class Versions(NamedTuple):
    """One version for each of the controller's requests."""

    leader_and_isr: int
    stop_replica: int
    update_metadata: int


BY_PROTOCOL: Final[tuple[tuple[str, Versions], ...]] = (
    ("1.0-IV0", Versions(1, 0, 4)),
    ("2.2-IV0", Versions(2, 1, 5)),
    ("2.4-IV0", Versions(3, 1, 5)),
    ("2.4-IV1", Versions(4, 2, 6)),
    ("2.6-IV0", Versions(4, 3, 6)),
    ("2.8-IV1", Versions(5, 3, 7)),
    ("3.2-IV0", Versions(6, 3, 7)),
    ("3.4-IV0", Versions(7, 4, 8)),
)
"""The versions that Kafka's controller sends as of a protocol version
(AbstractControllerBrokerRequestBatch)."""

LOWEST: Final = BY_PROTOCOL[0][1]
"""The oldest versions that ``controller_requests`` builds."""


def versions_of(protocol: str) -> Versions:
    """
    Return the versions that Kafka's controller sends with this inter-broker protocol.

    Raises:
        InvalidInputError: the text is not a protocol version.
        NativeRefusedError: the protocol is older than the oldest supported.
    """
    wanted = parse_protocol(protocol)
    fitting = [versions for since, versions in BY_PROTOCOL if parse_protocol(since) <= wanted]
    if not fitting:
        raise NativeRefusedError(
            f"inter-broker protocol {protocol} is older than {BY_PROTOCOL[0][0]},"
            " the oldest supported"
        )
    return fitting[-1]


WITHOUT_IDS: Final = versions_of(BEFORE_FEATURES)
"""The highest versions for topics without an id: none of later ones is needed for them."""


@lru_cache(maxsize=64)
def sent_versions(protocol: str) -> Versions:
    """Return the highest versions that are sent where the inter-broker protocol is this one."""
    return versions_of(max(protocol, BEFORE_FEATURES, key=parse_protocol))


def common_versions(understood: Mapping[int, tuple[int, int]], cap: Versions) -> Versions:
    """
    Choose the versions for one broker.

    Args:
        understood: Lowest and highest version by API key, from the broker's ApiVersions response.
        cap: The versions that the cluster's inter-broker protocol allows (``sent_versions``).

    Raises:
        NativeRefusedError: one of the requests has no version that both sides serve.
    """
    return Versions(
        _common("LeaderAndIsr", understood.get(ApiKey.LeaderAndIsr), LOWEST[0], cap[0]),
        _common("StopReplica", understood.get(ApiKey.StopReplica), LOWEST[1], cap[1]),
        _common("UpdateMetadata", understood.get(ApiKey.UpdateMetadata), LOWEST[2], cap[2]),
    )


def _common(name: str, understood: tuple[int, int] | None, lowest: int, highest: int) -> int:
    if understood is None:
        raise NativeRefusedError(
            f"the broker does not serve {name}: it is not part of a ZooKeeper-mode cluster"
        )
    its_lowest, its_highest = understood
    version = min(highest, its_highest)
    if version < max(lowest, its_lowest):
        raise NativeRefusedError(
            f"no common version of {name}: the broker understands {its_lowest} to {its_highest},"
            f" this program {lowest} to {highest}"
        )
    return version
