"""When a plan has ended: every accepted entry at its target, and each log where it belongs."""

from __future__ import annotations

import json
from itertools import permutations

from tests.explore import production as p
from tests.explore.control_laws import is_restored
from tests.explore.system import PARTITION, System


def is_ended(system: System) -> bool:  # noqa: PLR0911 - one condition each
    """Return whether the plan reached its end, with everything in its place."""
    assignment, state = system.assignment(), system.state()
    if assignment is not None and (assignment.is_reassigning or state is None):
        return False
    if system.zookeeper.children(p.paths.DELETIONS):
        return False
    if system.zookeeper.get(p.paths.reassignment_path(PARTITION)) is not None:
        return False
    if system.zookeeper.children(p.paths.REQUESTS) or not is_restored(system):
        return False
    if not any(path.endswith(f"/{p.paths.SUMMARY}") for path in system.zookeeper.nodes):
        return False
    if any(
        path.count("/") > p.paths.ORPHANS.count("/") + 1 and path.startswith(f"{p.paths.ORPHANS}/")
        for path in system.zookeeper.nodes
    ):
        return False
    holders = {b.id for b in system.brokers.values() if PARTITION in b.logs}
    if assignment is None:
        return not holders
    return (
        assignment.replicas in _wanted(system)
        and holders - _forgotten(system) == set(assignment.replicas)
        and set(state.isr) - _forgotten(system) == set(assignment.replicas)
        and state.leader in system.brokers
        and system.brokers[state.leader].leads(PARTITION)
    )


def _forgotten(system: System) -> set[int]:
    """
    Return who may have a log that Kafka's controller died without deleting: nobody knows.

    One that it was adding, and was in sync, stays in the ISR until the next leader epoch.
    """
    assignment = system.assignment()
    every = set(system.brokers) if "kafka dies" in system.shape.faults else set()
    return every - set(assignment.replicas)


def _wanted(system: System) -> set[tuple[int, ...]]:
    """Return the replicas to which the requests may have led, as their outcomes say."""
    shape, replicas = system.shape, system.shape.before
    if system.data(p.paths.DRAINS) is not None:
        others = (number for number in system.brokers if number != shape.drained)
        return set(permutations(others, len(replicas)))
    for number, target in enumerate((shape.target, shape.retarget)):
        node = system.zookeeper.get(p.paths.outcome_path(p.RequestId(f"request_{number:010d}")))
        if node is not None and json.loads(node.data)["done"]:
            replicas = target
    # A topic that is created after the end is as it was before.
    is_new = shape.operations & {"create topic", "replace topic"}
    return {replicas, shape.before} if is_new else {replicas}
