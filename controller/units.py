"""
Bytes, rates, durations, points in time and lists of names as people write and read them.

Bytes are decimal (``50MB``) unless written as ``50MiB``. Screens show instants by ``show_time``,
durations by ``show_duration`` and ``show_range``; JSON has ISO 8601 and seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from controller.core.requests.submissions import AUTO, Throttle
from controller.errors import InvalidInputError

NAMES_MAX: Final = 10
BYTES_MAX: Final = 2**63 - 1
"""Kafka's throttles are Java longs."""
LOW_RATE: Final = 10_000
"""Bytes per second; a throttle below it is hardly meant."""
NONE: Final = "none"
"""What people write for no throttle."""
MS_PER_S: Final = 1000
MINUTE_S: Final = 60.0
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)(?:/s)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_BYTE_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_TIME_UNITS: Final = ((86_400, "days"), (3600, "h"), (60, "min"), (1, "s"))
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*(s|m|min|h|d)?")
_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_KILO: Final = 1000
_ROUNDS_UP: Final = _KILO - 0.5
"""From here on three digits would need an exponent."""
_KIBI: Final = 1024
_LEAST: Final = 2
"""A unit of time is used from this many of it."""


def parse_bytes(option: str, text: str) -> int:
    """
    Parse bytes, or bytes per second: ``50000000``, ``50MB``, ``1.5GiB``; ``option`` has the value.

    Raises:
        InvalidInputError: ``text`` is not an amount from 1 byte to ``BYTES_MAX``.

    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is not None and (match[2] or not match[3]):
        base = _KIBI if match[3] else _KILO
        amount = Decimal(match[1]) * base ** _POWERS[match[2].lower()]
        if 1 <= amount <= BYTES_MAX:
            return int(amount)
    raise InvalidInputError(f"{option}: bytes such as 50000000, 50MB or 1.5GiB, not {text!r}")


def parse_throttle(option: str, text: str, *, or_none: bool = False) -> Throttle:
    """
    Parse a throttle, in bytes per second and broker: ``auto``, or as ``parse_bytes`` does.

    ``or_none``: the caller took ``none`` before, which the error names then.

    Raises:
        InvalidInputError: ``text`` is neither.

    """
    if text.strip().lower() == AUTO:
        return AUTO
    try:
        return parse_bytes(option, text)
    except InvalidInputError:
        words = f", {AUTO} or {NONE}" if or_none else f", or {AUTO}"
        why = f"{option}: a rate such as 50000000, 50MB or 1.5GiB{words}, not {text!r}"
        raise InvalidInputError(why) from None


def low_rate_text(throttle: Throttle | None) -> str | None:
    """Return the doubt about a throttle that is hardly meant, as 50 instead of 50MB."""
    if not isinstance(throttle, int) or throttle >= LOW_RATE:
        return None
    meant = f"{throttle}{'MB' if throttle < _KILO else 'KB'}"
    return (
        f"a throttle of {show_rate(throttle)} is very low: a number without a unit is in bytes "
        f"(did you mean {meant}?)"
    )


def parse_duration(option: str, text: str) -> float:
    """
    Parse a duration, in seconds: ``90``, ``90s``, ``30m``, ``1.5h``, ``2d``.

    Raises:
        InvalidInputError: ``text`` is no duration.

    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidInputError(f"{option}: a duration such as 90s, 30m or 2h, not {text!r}")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def show_bytes(amount: float) -> str:
    """Format bytes with three digits: ``50 MB``."""
    size, unit = float(amount), 0
    while size >= _ROUNDS_UP and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / _KILO, unit + 1
    digits = ".3g" if size < _ROUNDS_UP else ".0f"
    return f"{size:{digits}} {_BYTE_UNITS[unit]}"


def percent(share: float) -> int:
    """Return a share in percent, rounded down."""
    return int(round(100 * share, 6))


def show_rate(bytes_per_s: float | None) -> str:
    """Format a rate: ``50 MB/s``; None is unknown."""
    return "unknown" if bytes_per_s is None else f"{show_bytes(bytes_per_s)}/s"


def show_latency(seconds: float) -> str:
    """Format a short time: ``420 ms``, ``1.3 s``."""
    return f"{seconds:.2g} s" if seconds >= 1 else f"{seconds * MS_PER_S:.3g} ms"


def show_throttle(throttle: Throttle, suffix: str = " per broker") -> str:
    """Format a throttle: ``50 MB/s per broker``, or ``auto``."""
    return throttle if isinstance(throttle, str) else f"{show_rate(throttle)}{suffix}"


def show_duration(seconds: float) -> str:
    """Format a duration in the largest unit of which there are two or more."""
    for size, unit in _TIME_UNITS:
        if seconds >= _LEAST * size:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds)} s"


def show_range(low_s: float, high_s: float) -> str:
    """
    Format the least and the most of an estimated duration: ``5 min to 2 h``, one if they are alike.

    Below a minute an estimate is not more exact than that.
    """
    if high_s < MINUTE_S:
        return "under a minute"
    low, high = show_duration(low_s), show_duration(high_s)
    if low_s < MINUTE_S:
        return f"up to {high}"
    return low if low == high else f"{low} to {high}"


def show_estimate(seconds: object, why: object) -> str:
    """Format an estimate of a status: its range, or why there is none; empty for neither."""
    match seconds:
        case [int() | float() as low, int() | float() as high]:
            return show_range(low, high)
    return f"no estimate: {why}" if why else ""


def show_time(moment: float | str | datetime) -> str:
    """Format an instant in UTC, to the second: milliseconds since 1970, or ISO 8601 of JSON."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    elif not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment / MS_PER_S, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def ids(replicas: Iterable[int]) -> str:
    """Format broker ids as Kafka's tools do: ``1,2,3``."""
    return ",".join(map(str, replicas))


def names_text(names: Iterable[object]) -> str:
    """List names; after the first ``NAMES_MAX``, give only the number of the others."""
    found = [str(name) for name in names]
    more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
    return ", ".join(found[:NAMES_MAX]) + more
