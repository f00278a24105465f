"""
What single settings may say: checks and readings of their texts; each raises ``ValueError``.

Pure; which setting uses which is ``settings``.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import SecretStr

PORT_MAX: Final = 65535
TOKEN_MIN: Final = 16
OCCASIONS: Final = ("started", "ended", "stalled", "cancelled", "refused")
"""What is notified (``telemetry.announcements.Occasion``)."""

_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
_WEB: Final = re.compile(r"https?://[^\s/]+\S*")
_CHROOT: Final = re.compile(r"(?:/[^/\s]+)*")


def connect_string(text: str) -> str:
    """Check ``HOST:PORT[,HOST:PORT][/chroot]``, what Kafka calls ``zookeeper.connect``."""
    hosts, slash, chroot = text.strip().partition("/")
    for host in hosts.split(","):
        match = _HOST.fullmatch(host.strip())
        if match is None or int(match.group(1) or 1) not in range(1, PORT_MAX + 1):
            raise ValueError("must be HOST:PORT[,HOST:PORT][/chroot]")
    if slash and not _CHROOT.fullmatch(slash + chroot.rstrip("/")) and chroot.strip("/"):
        raise ValueError("the chroot must be a ZooKeeper path such as /kafka")
    return text.strip().rstrip("/")


def long_enough(token: SecretStr | None) -> SecretStr | None:
    """Refuse a token that could be guessed."""
    if token is not None and len(token.get_secret_value()) < TOKEN_MIN:
        raise ValueError(f"must have at least {TOKEN_MIN} characters")
    return token


def web_address(address: SecretStr | None) -> SecretStr | None:
    """Check an address of the web; it may hold a secret."""
    if address is not None and not _WEB.fullmatch(address.get_secret_value()):
        raise ValueError("must be an address such as https://example.com/hook")
    return address


def occasions(text: str) -> str:
    """Check a list of what is notified."""
    for word in text.split(","):
        if word.strip() not in OCCASIONS:
            raise ValueError(f"must be a list of {', '.join(OCCASIONS)}")
    return text


def parse_step_size(value: object) -> object:
    """Read a number of replicas, or ``all``."""
    if isinstance(value, str) and value.strip().lower() == "all":
        return "all"
    try:
        number = int(value) if isinstance(value, str | int) else 0
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError('must be a whole number of replicas, 1 or more, or "all"')
    return number
