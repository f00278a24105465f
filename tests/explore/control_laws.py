"""
The laws of pauses, drains and throttles.

No step begins while everything is paused, and a drained broker gets no replica, as far as the
daemon knows. No copy begins before its
throttle is in force, and what others set stays as it is, also when ours is lifted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.explore import production as p
from tests.explore.system import PARTITION, SETTINGS, System


def entity_settings(system: System, entity: str) -> dict[str, str]:
    """Return the dynamic settings of a topic or a broker."""
    data = system.data(p.paths.entity_config_path(p.Entity(entity)))
    read = p.decode_entity_config(data or b"", p.ZkVersion(0))
    assert isinstance(read, p.EntityConfig)
    return dict(read.values)


def is_paused(view: Any) -> bool:
    """Return whether a daemon knows that everything is paused."""
    return view.pacing_process.controls.pauses.everything is not None


def step_decided(system: System, session: int, before: Any, after: Any) -> Iterator[str]:
    """Judge a step that a daemon writes to the topic znode."""
    view = system.view_of(session)
    adding = set(after.adding_replicas) - set(before.adding_replicas)
    yield from _drained(view, before, after)
    if view is None or not (adding or set(after.removing_replicas) - set(before.removing_replicas)):
        return
    if is_paused(view):
        yield f"everything is paused, and {before} becomes {after}"
    running = view.reassignments.by_partition.get(PARTITION)
    if running is None or p.throttle_of(view, running.spec.request) is None:
        return
    listed = entity_settings(system, "topics/t").get(p.FOLLOWER_REPLICAS, "")
    for replica in adding:
        rates = entity_settings(system, f"brokers/{replica}")
        if f"0:{replica}" not in listed.split(",") or p.FOLLOWER_RATE not in rates:
            yield f"replica {replica} copies, and its throttle is not in force: {listed}, {rates}"


def _drained(view: Any, before: Any, after: Any) -> Iterator[str]:
    """Judge that no replica is added, or stays after its copy, on a broker that is drained."""
    for broker in () if view is None else view.pacing_process.controls.drains.brokers:
        is_new = broker not in before.origin_replicas and broker in after.replicas
        is_copying = broker in before.adding_replicas and broker in after.adding_replicas
        if is_new and not is_copying:
            yield f"broker {broker} is drained, and {before} becomes {after}"


def settings_kept(system: System) -> Iterator[str]:
    """Judge that what others set is still set."""
    if system.shape.throttle is None:
        return
    for entity, others in SETTINGS.items():
        found = entity_settings(system, entity)
        for key, value in others.items():
            if value not in found.get(key, "").split(","):
                yield f"{key} of {entity} was {value}, and is {found.get(key)}"


def is_restored(system: System) -> bool:
    """Return whether no throttle of ours is left, and all settings are as they were."""
    if system.shape.throttle is None:
        return True
    entities = ("topics/t", *(f"brokers/{number}" for number in system.brokers))
    return not system.zookeeper.children(p.paths.APPLIED_THROTTLES) and all(
        entity_settings(system, entity) == SETTINGS.get(entity, {}) for entity in entities
    )
