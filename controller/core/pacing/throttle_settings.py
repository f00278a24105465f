"""
Throttle settings: what we set in Kafka's dynamic settings, and the former values.

The record of an applied throttle covers one entity, a topic or a broker, as ``/config`` names it.
It is written in the same multi as the setting itself, and deleted in the multi that restores the
setting.

The texts of settings are processed one at a time, merged with those of others and restored
afterwards. The value of others is never replaced: their rate stays, ``*`` stays, a list gets our
entries added and in the end only those removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NewType

from controller.core.model import BrokerId, Instant, ZkVersion

Entity = NewType("Entity", str)
"""``topics/<name>`` or ``brokers/<id>``: the path below ``/config``."""

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
"""Of moves between the log directories of a broker."""
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """The dynamic settings of one entity as read; ``version`` None: the znode does not exist."""

    values: Mapping[str, str]
    version: ZkVersion | None


@dataclass(frozen=True, slots=True)
class AppliedThrottle:
    """``/reassigner/throttles/<entity>``: per setting our value and the former one."""

    entity: Entity
    ours: Mapping[str, str]
    before: Mapping[str, str | None]
    """None: the setting did not exist."""
    version: ZkVersion | None = None
    """The version of the record; None until it is written."""


@dataclass(frozen=True, slots=True)
class ThrottleRefusal:
    """A throttle that could not be written, since when, and why: permissions, sizes."""

    why: str
    at: Instant


def topic_entity(topic: str) -> Entity:
    """Return the entity of a topic."""
    return Entity(f"topics/{topic}")


def broker_entity(broker: BrokerId) -> Entity:
    """Return the entity of a broker."""
    return Entity(f"brokers/{broker}")


LISTS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
COPY_RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
RATES: Final = (*COPY_RATES, MOVE_RATE)
EVERY_REPLICA: Final = "*"
LIST_BYTES_MAX: Final = 150_000
"""A longer list becomes ``*``: two of them, and the record of both, share one multi of 1 MB."""

ThrottleSettings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """
    One setting as wanted: the whole value, our part of it, and the part of others.

    Without a part of ours it is as others set it, and absent where ``before`` is None.
    """

    value: str
    ours: str
    before: str | None


def entries(text: str | None) -> tuple[str, ...]:
    """Split a list of throttled replicas."""
    return tuple(e for part in (text or "").split(",") if (e := part.strip()))


def list_with(
    wanted: Iterable[str],
    have: str | None,
    ours: str | None,
    before: str | None,
    lifted: Collection[str] = (),
) -> Setting | None:
    """
    Return a list with the wanted entries in it; None: each of them is present, or ``*`` is.

    ``ours`` is the part of the present value that we added, ``before`` the value before that. Of
    partitions that are lifted, by number, our entries are removed.
    """
    present = entries(have)
    mine = set(entries(ours))
    if EVERY_REPLICA in present:
        narrowed = _list_without_wildcard(wanted, before) if lifted and have == ours else None
        return None if narrowed is None or narrowed.value == have else narrowed
    missing = set(wanted).difference(present)
    surplus = mine.intersection(present).difference(wanted) if lifted else ()
    if not missing and not any(e.partition(":")[0] in lifted for e in surplus):
        return None
    theirs = tuple(e for e in present if e not in mine)
    had = have if ours is None else before
    return _list_of(theirs, wanted, ",".join(theirs) if theirs else None if had is None else "")


def _list_without_wildcard(wanted: Iterable[str], before: str | None) -> Setting | None:
    """Return the list that replaces a ``*`` of ours; None if the former value is ``*``, too."""
    theirs = entries(before)
    return None if EVERY_REPLICA in theirs else _list_of(theirs, wanted, before)


def _list_of(theirs: tuple[str, ...], wanted: Iterable[str], before: str | None) -> Setting:
    added = tuple(e for e in wanted if e not in set(theirs))
    value = ",".join(theirs + added)
    if len(value) > LIST_BYTES_MAX:
        return Setting(EVERY_REPLICA, EVERY_REPLICA, before)
    return Setting(value, ",".join(added), before)


def rate_to_set(wanted: int, have: str | None, ours: str | None) -> Setting | None:
    """
    Return a rate; None if it is set already, or a rate of others is.

    A rate of ours that was removed by others is set again: the copies are still running.
    """
    text = str(wanted)
    if have not in (None, ours) or have == text:
        return None
    return Setting(text, text, None)


def settings_without_ours(
    applied: AppliedThrottle, config: EntityConfig
) -> ThrottleSettings | None:
    """
    Return an entity's settings without our part; None if none of ours is left.

    Values that others changed since are left alone.
    """
    values: dict[str, str | None] = dict(config.values)
    for key, ours in applied.ours.items():
        values[key] = _rest(key, values.get(key), ours, applied.before.get(key))
    left = {key: value for key, value in values.items() if value is not None}
    return None if config.version is None or left == dict(config.values) else as_settings(left)


def _rest(key: str, have: str | None, ours: str, before: str | None) -> str | None:
    if have is None:
        return None
    if key in RATES or ours == EVERY_REPLICA:
        return before if have == ours else have
    mine = set(entries(ours))
    present = entries(have)
    theirs = tuple(e for e in present if e not in mine)
    if len(theirs) == len(present):
        return have
    return ",".join(theirs) if theirs or before is not None else None


def as_settings(values: Mapping[str, str]) -> ThrottleSettings:
    """Return settings in the form in which they are written."""
    return tuple(sorted(values.items()))
