"""
Inter-broker protocol versions: ``inter.broker.protocol.version`` of a broker, as text.

The constants are the versions at which something changes for the controller.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from controller.errors import InvalidInputError

BEFORE_FEATURES: Final = "2.6"
"""The last release whose registrations carry no features; its leaders write ISR to ZooKeeper."""
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
