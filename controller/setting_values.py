"""
Parsers and checks for the values of single settings.

Pure; each raises ``ValueError``. ``settings`` uses them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from pydantic import SecretStr

from controller.core.model import MinFree
from controller.errors import InvalidInputError
from controller.units import NONE, parse_bytes, parse_throttle

PORT_MAX: Final = 65535
TOKEN_MIN: Final = 16
PERCENT: Final = 100
NAME_MAX: Final = 100
SASL_SERVED: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_WEB: Final = re.compile(r"https?://[^\s/]+\S*")
_PERCENTAGE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%")
_CHROOT: Final = re.compile(r"(?:/[^/\s]+)*")


class NotificationKind(StrEnum):
    """The occasions of notifications: the values of the setting ``notify_on``."""

    STARTED = "started"
    ENDED = "ended"
    STALLED = "stalled"
    CANCELLED = "cancelled"
    REFUSED = "refused"


def parse_rate(value: object) -> object:
    """Parse bytes per second: a number, or a text such as ``50MB``."""
    return parse_bytes("it", value) if isinstance(value, str) else value


def parse_throttle_setting(value: object) -> object:
    """Parse a throttle: the same, ``auto``, or ``none``."""
    if isinstance(value, str):
        is_none = value.strip().lower() == NONE
        return None if is_none else parse_throttle("it", value, or_none=True)
    return value


def connect_string(text: str) -> str:
    """Check ``HOST:PORT[,HOST:PORT][/chroot]``, Kafka's ``zookeeper.connect``."""
    hosts, slash, chroot = text.strip().partition("/")
    for host in hosts.split(","):
        match = _HOST.fullmatch(host.strip())
        if match is None or int(match.group(1) or 1) not in range(1, PORT_MAX + 1):
            raise ValueError("must be HOST:PORT[,HOST:PORT][/chroot]")
    if slash and not _CHROOT.fullmatch(slash + chroot.rstrip("/")) and chroot.strip("/"):
        raise ValueError("the chroot must be a ZooKeeper path such as /kafka")
    return text.strip().rstrip("/")


def display_name(text: str | None) -> str | None:
    """Check a name that people read: one line, not longer than ``NAME_MAX``."""
    if text is None:
        return None
    name = text.strip()
    if not name or not name.isprintable() or len(name) > NAME_MAX:
        raise ValueError(f"must be 1 to {NAME_MAX} printable characters on one line")
    return name


class HttpAddress(NamedTuple):
    """An address of the HTTP server; with port 0 the system chooses the port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(value: object) -> HttpAddress:
    """Parse ``HOST:PORT``, with an IPv6 host in brackets."""
    if isinstance(value, HttpAddress):
        return value
    text = str(value)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("must be HOST:PORT, an IPv6 host in brackets")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise ValueError("must be HOST:PORT, for example 127.0.0.1:8095")
    if int(port) > PORT_MAX:
        raise ValueError(f"port {port} is above {PORT_MAX}")
    return HttpAddress(host, int(port))


def parse_optional_address(value: object) -> HttpAddress | None:
    """Parse ``HOST:PORT`` or None, as ``parse_address`` does."""
    return None if value is None else parse_address(value)


def parse_advertised(value: object) -> object:
    """Parse ``HOST``, ``HOST:PORT`` or None; an IPv6 host without port needs no brackets."""
    if value is None:
        return None
    text = str(value)
    if isinstance(_ip_of(text), IPv6Address):
        address = HttpAddress(text, 0)
    else:
        match = _HOST.fullmatch(text)
        if match is None:
            raise ValueError("must be HOST or HOST:PORT, for example reassigner-1.example:8095")
        address = parse_address(text if match.group(1) else f"{text}:0")
    if is_wildcard(address.host):
        raise ValueError("must be a host that others can connect to")
    return address


def advertised_address(
    given: HttpAddress | None, bound: HttpAddress, host_name: str
) -> HttpAddress:
    """
    Return the address that a server publishes for those that connect to it.

    The configured one or, without it, that on which the server listens, with the machine's name for
    all addresses.
    """
    if given is not None:
        return HttpAddress(given.host, given.port or bound.port)
    return HttpAddress(host_name, bound.port) if is_wildcard(bound.host) else bound


def is_wildcard(host: str) -> bool:
    """Return whether a server on this host listens on all addresses."""
    address = _ip_of(host)
    return address is not None and address.is_unspecified


def _ip_of(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def host_names(text: str | None) -> str | None:
    """Check comma-separated host names or ``*``; return them in lower case, without spaces."""
    if text is None:
        return None
    names = [name.strip().lower() for name in text.split(",")]
    if not all(name == "*" or _HOST_NAME.fullmatch(name) for name in names):
        raise ValueError("must be host names without ports, comma-separated, or *")
    return ",".join(names)


def long_enough(token: SecretStr | None) -> SecretStr | None:
    """Refuse a token that is short enough to guess."""
    if token is not None and len(token.get_secret_value()) < TOKEN_MIN:
        raise ValueError(f"must have at least {TOKEN_MIN} characters")
    return token


def web_address(address: SecretStr | None) -> SecretStr | None:
    """Check an HTTP URL, which may contain a secret."""
    if address is not None and not _WEB.fullmatch(address.get_secret_value()):
        raise ValueError("must be an address such as https://example.com/hook")
    return address


def occasions(text: str) -> str:
    """Check a comma-separated list of occasions."""
    return _listed(text, tuple(NotificationKind))


def sasl_mechanisms(text: str) -> str:
    """Check a comma-separated list of SASL mechanisms; return it without spaces."""
    return _listed(text, SASL_SERVED)


def _listed(text: str, allowed: Sequence[str]) -> str:
    names = [word.strip() for word in text.split(",")]
    if not all(name in allowed for name in names):
        raise ValueError(f"must be a list of {', '.join(allowed)}")
    return ",".join(names)


def parse_min_free(value: object) -> object:
    """Parse bytes (``10GB``), a percentage of the volume (``2%``), or ``none``."""
    if value is None or isinstance(value, MinFree):
        return value
    text = str(value).strip()
    if text.lower() == "none":
        return None
    share = _PERCENTAGE.fullmatch(text)
    if share is not None and float(share[1]) < PERCENT:
        return MinFree(share=float(share[1]) / PERCENT)
    if text == "0":
        return MinFree()
    try:
        return MinFree(bytes=parse_bytes("min_free", text))
    except InvalidInputError:
        raise ValueError("must be bytes such as 10GB, a percentage such as 2%, or none") from None


def parse_step_size(value: object) -> object:
    """Parse a number of replicas or ``all``."""
    if isinstance(value, str) and value.strip().lower() == "all":
        return "all"
    try:
        number = int(value) if isinstance(value, str | int) else 0
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError('must be a whole number of replicas, 1 or more, or "all"')
    return number
