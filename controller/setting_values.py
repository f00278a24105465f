"""
What single settings may say: checks and readings of their texts; each raises ``ValueError``.

Pure; which setting uses which is ``settings``.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final, NamedTuple

from pydantic import SecretStr

PORT_MAX: Final = 65535
TOKEN_MIN: Final = 16
OCCASIONS: Final = ("started", "ended", "stalled", "cancelled", "refused")
"""What is notified (``web.notifications.NotificationKind``)."""

_IPV6: Final = 6
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
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


class HttpAddress(NamedTuple):
    """Where the HTTP server listens, or is reached; port 0 leaves the port open."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(value: object) -> HttpAddress:
    """
    Read ``HOST:PORT`` (an IPv6 host stands in brackets).

    Raises:
        ValueError: it is something else.

    """
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


def parse_advertised(value: object) -> object:
    """
    Read ``HOST``, ``HOST:PORT`` or nothing; an IPv6 host may stand without brackets and port.

    Raises:
        ValueError: it is something else, or leads nowhere.

    """
    if value is None:
        return None
    text = str(value)
    if _is_ipv6(text):
        address = HttpAddress(text, 0)
    else:
        match = _HOST.fullmatch(text)
        if match is None:
            raise ValueError("must be HOST or HOST:PORT, for example reassigner-1.example:8095")
        address = parse_address(text if match.group(1) else f"{text}:0")
    if is_wildcard(address.host):
        raise ValueError("must be a host that others can connect to")
    return address


def advertised(given: HttpAddress | None, bound: HttpAddress, host_name: str) -> HttpAddress:
    """
    Return where commands are told to find the HTTP server.

    Args:
        given: What the settings say.
        bound: Where it listens.
        host_name: This machine's, for a server that listens at all its addresses.

    """
    if given is not None:
        return HttpAddress(given.host, given.port or bound.port)
    return HttpAddress(host_name, bound.port) if is_wildcard(bound.host) else bound


def is_wildcard(host: str) -> bool:
    """Whether listening there means listening at all addresses."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == _IPV6
    except ValueError:
        return False


def host_names(text: str | None) -> str | None:
    """
    Check a comma-separated list of host names or ``*``; return it in lower case, without spaces.

    Raises:
        ValueError: one is no host name.

    """
    if text is None:
        return None
    names = [name.strip().lower() for name in text.split(",")]
    if not all(name == "*" or _HOST_NAME.fullmatch(name) for name in names):
        raise ValueError("must be host names without ports, comma-separated, or *")
    return ",".join(names)


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
