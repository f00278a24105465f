"""Descriptions of ZooKeeper writes, requests to brokers, and what partitions wait for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from controller.core.model import PartitionAssignment, TopicAssignment, TopicPartition
from controller.reactor.ports import (
    AlterEntry,
    BrokerRequest,
    LeaderAndIsr,
    LeaderAndIsrState,
    StopReplica,
    UpdateMetadata,
)
from controller.znodes import paths
from tests.sim.decoded import read_state, read_topic
from tests.sim.zookeeper import Written, Znode

_NOT_SHOWN: Final = (
    paths.ISR_NOTIFICATIONS,
    paths.LOG_DIR_EVENTS,
    paths.LEADER,
    paths.EPOCH,
    paths.CONTROLLER_EPOCH,
    paths.CONFIG_CHANGES,
    paths.APPLIED_THROTTLES,
)
"""Znodes that a scenario does not show: notifications, epochs, and records of throttles."""
_CREATED_BY_COMMANDS: Final = (
    paths.REQUESTS,
    paths.CANCEL,
    paths.KILL_SWITCH,
    paths.CONTROLS,
    paths.PREFERRED_ELECTION,
)
"""Znodes of which a scenario shows the deletion only."""
_RECORD_KEYS: Final = (
    "original",
    "target",
    "request",
    "route",
    "cancelled_by",
    "abandoned",
    "log_dirs",
)


def ids(numbers: Iterable[int]) -> str:
    """Return broker ids as in a plan: ``1,2,3``."""
    return ",".join(map(str, numbers))


def _pairs(document: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Return the keys of a JSON document that have a value."""
    found = ((key, document.get(key)) for key in keys)
    return ", ".join(f"{key} {_plain(value)}" for key, value in found if value)


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ids(value)
    if isinstance(value, dict):
        return " ".join(f"{k}={_plain(v)}" for k, v in value.items())
    return str(value)


# --- ZooKeeper -----------------------------------------------------------------------------------


def written(change: Written) -> Iterator[str]:
    """Describe one znode that a transaction changed, in no or several lines."""
    path, before, after = change
    parts = path.removeprefix("/").split("/")
    if path.startswith(_NOT_SHOWN):
        return
    if path == paths.CONTROLLER:
        yield "claim      /controller" if after else "delete     /controller"
    elif parts[0] == "brokers":
        yield from _brokers(parts, before, after)
    elif parts[0] == "config":
        yield from _settings(" ".join(parts[1:]), before, after)
    elif path.startswith(f"{paths.OUTCOMES}/"):
        yield from _outcome(parts, after)
    else:
        yield from _ours(path, parts, after)


def _brokers(parts: list[str], before: Znode | None, after: Znode | None) -> Iterator[str]:
    match parts[1:]:
        case ["topics", topic]:
            yield from _topic(topic, before, after)
        case ["topics", topic, "partitions", number, "state"]:
            yield f"state      {topic}-{number}  {_state(after)}"
        case ["ids", _] | ["topics", _, "partitions"] | ["topics", _, "partitions", _]:
            return
        case _:
            raise ValueError(f"no description of /{'/'.join(parts)}")


def _ours(path: str, parts: list[str], after: Znode | None) -> Iterator[str]:
    match parts:
        case ["admin", "reassignments", topic, number]:
            yield f"record     {topic}-{number}  {_document(after, _RECORD_KEYS)}"
        case ["reassigner", "orphans", broker, replica]:
            yield f"orphan     {replica} on broker {broker}  {_document(after, ('reason',))}"
        case _ if after is None:
            yield f"delete     {path}"
        case ["admin", "reassign_partitions" | "reassign_partitions_queue"]:
            yield f"plan       {path}  {_plan(after)}"
        case _ if after.data and not path.startswith(_CREATED_BY_COMMANDS):
            raise ValueError(f"no description of {path}")
        case _:  # Created by a command, or only the parent of others.
            return


def _document(znode: Znode | None, keys: Iterable[str]) -> str:
    return "deleted" if znode is None else _pairs(json.loads(znode.data), keys)


def _plan(znode: Znode) -> str:
    entries = json.loads(znode.data)["partitions"]
    listed = (f"{e['topic']}-{e['partition']} to {ids(e['replicas'])}" for e in entries)
    return ", ".join(listed) or "no entry"


def _topic(topic: str, before: Znode | None, after: Znode | None) -> Iterator[str]:
    if after is None:
        yield f"topic      {topic} is deleted"
        return
    former = {} if before is None else _assignments(before)
    for number, assignment in _assignments(after).items():
        if former.get(number) != assignment:
            yield f"topic      {topic}-{number}  {_assignment(assignment)}"


def _assignments(znode: Znode) -> Mapping[int, PartitionAssignment]:
    read = read_topic(znode)
    return read.partitions if isinstance(read, TopicAssignment) else {}


def _assignment(assignment: PartitionAssignment | LeaderAndIsrState) -> str:
    """Describe replicas with those that are being added and removed."""
    text = f"replicas {ids(assignment.replicas)}"
    if assignment.adding_replicas:
        text += f", adding {ids(assignment.adding_replicas)}"
    if assignment.removing_replicas:
        text += f", removing {ids(assignment.removing_replicas)}"
    return text


def _state(znode: Znode | None) -> str:
    read = "deleted" if znode is None else read_state(znode)
    if isinstance(read, str):
        return read
    return f"leader {_leader(read.leader)}, ISR {ids(read.isr)}, leader epoch {read.leader_epoch}"


def _leader(leader: int) -> str:
    return "none" if leader < 0 else str(leader)


def _outcome(parts: list[str], after: Znode | None) -> Iterator[str]:
    _, _, request, *name = parts
    if after is None or name != [paths.SUMMARY]:
        return
    document = json.loads(after.data)
    counts = {"done": document["done"], **document["fates"], "refused": len(document["refused"])}
    ends = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    total = document["total"]
    entries = "1 entry" if total == 1 else f"{total} entries"
    yield f"outcome    {request}  {entries}: {ends or 'nothing to do'}"
    for refusal in document["refused"]:
        yield f"           {refusal['entry']} is refused: {refusal['detail']}"


def _settings(entity: str, before: Znode | None, after: Znode | None) -> Iterator[str]:
    former = {} if before is None else json.loads(before.data)["config"]
    present = {} if after is None else json.loads(after.data)["config"]
    for key in sorted({*former, *present}):
        if former.get(key) != present.get(key):
            value = present.get(key)
            yield f"setting    {entity}  {key} {'is removed' if value is None else '= ' + value}"


# --- brokers -------------------------------------------------------------------------------------


def requested(request: BrokerRequest) -> Iterator[tuple[str, str, str]]:
    """Describe a request: its kind and, for each partition, the partition and the content."""
    match request:
        case LeaderAndIsr(states=states):
            for state in states:
                yield "LeaderAndIsr", str(state.partition), _leader_and_isr(state)
        case UpdateMetadata(states=seen, live_brokers=live):
            for known in seen:
                led = f"leader {_leader(known.leader)}, ISR {ids(known.isr)}"
                yield (
                    "UpdateMetadata",
                    str(known.partition),
                    f"{led}, replicas {ids(known.replicas)}",
                )
            if not seen:
                yield "UpdateMetadata", "", f"live brokers {ids(b.id for b in live)}"
        case StopReplica(states=stops):
            for stop in stops:
                wanted = "delete the log" if stop.delete else "stop fetching"
                yield "StopReplica", str(stop.partition), wanted


def _leader_and_isr(state: LeaderAndIsrState) -> str:
    led = f"leader {_leader(state.leader)}, ISR {ids(state.isr)}"
    is_new = ", new replica" if state.is_new else ""
    return f"{led}, leader epoch {state.leader_epoch}, {_assignment(state)}{is_new}"


def altered(entries: Sequence[AlterEntry]) -> Iterator[tuple[str, str, str]]:
    """Describe what the cluster's own controller is asked for."""
    for partition, target, cancels in entries:
        wanted = "cancel" if cancels else f"replicas {ids(target)}"
        yield "AlterPartitionReassignments", str(partition), wanted


def placed(directories: Mapping[TopicPartition, str]) -> Iterator[tuple[str, str, str]]:
    """Describe the log directories that are requested of a broker."""
    for partition, directory in directories.items():
        yield "AlterReplicaLogDirs", str(partition), directory


# --- what partitions wait for --------------------------------------------------------------------


def progress(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Describe each reassignment from its document in ``/status``."""
    for document in sorted(documents, key=lambda d: (d["topic"], d["partition"])):
        partition = f"{document['topic']}-{document['partition']}"
        text = f"{partition}  {document['phase']}"
        if document["step"]:
            text += f", step {document['step']} of {document['steps']}"
        blocked = document["blocked_on"]
        if blocked is None:
            yield f"= {text}: {document['state']}"
        else:
            yield f"= {text}: waits, {blocked['by']}: {blocked['detail']}"
