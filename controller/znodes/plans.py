"""
Plans: ``/admin/reassign_partitions``, the queue, and submitted requests.

A plan is a list of entries as Kafka's own tool writes them (``ReassignPartitionsZNode``). Entries
are judged one by one: an entry that is refused does not affect the others. Whether the topic,
partition, brokers and directories exist is not known here. ``log_dirs`` (KIP-113) lists for each
replica an absolute path, or "any". ``original_replicas`` (KIP-236) is accepted; only approved
requests are compared with it. Any other unknown key would be ignored silently: in an entry it
refuses the entry, beside the entries it makes the node unreadable.

Invariant: an accepted entry has a valid topic name, at least one replica, and none twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Final, NamedTuple

from controller.core.model import LogDirs, Replicas, RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import (
    NO_DIRS,
    PRIORITY_MAX,
    LegacyPlan,
    NamedDirs,
    RequestOptions,
    Submission,
    Window,
    listed_dirs,
)
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import UnreadableError, excerpt
from controller.znodes.paths import is_reserved, parse_number, read_partition, read_request

Plan = Mapping[TopicPartition, Replicas]

# --- entries -------------------------------------------------------------------------------------

_PLAN_KEYS: Final = frozenset({"version", "partitions"})
_ENTRY_KEYS: Final = frozenset({"topic", "partition", "replicas", "log_dirs", "original_replicas"})

Refusals = list[tuple[str, str]]
"""(entry as text, reason)."""


class JudgedEntries(NamedTuple):
    """The valid entries, in order, and why the others are refused."""

    replicas: dict[TopicPartition, Replicas]
    originals: dict[TopicPartition, Replicas]
    """The ``original_replicas`` of those that name them."""
    refused: Refusals
    log_dirs: dict[TopicPartition, LogDirs]
    """Of those that name any."""


def judge_entries(listed: Iterable[object]) -> JudgedEntries:
    """Judge entries one by one."""
    entries: dict[TopicPartition, Replicas] = {}
    originals: dict[TopicPartition, Replicas] = {}
    log_dirs: dict[TopicPartition, LogDirs] = {}
    contradicted: set[TopicPartition] = set()
    refused: Refusals = []
    for item in listed:
        try:
            partition, replicas, original, named = _entry(item)
        except UnreadableError as error:
            refused.append((excerpt(item), str(error)))
            continue
        if original is not None:
            originals.setdefault(partition, original)
        known = entries.get(partition)
        is_same = known == replicas and log_dirs.get(partition, ()) == named
        if is_same and partition not in contradicted:
            continue
        if known is not None or partition in contradicted:
            if known is not None:
                refused.append(_contradiction(partition, known))
            refused.append(_contradiction(partition, replicas))
            contradicted.add(partition)
            entries.pop(partition, None)
            log_dirs.pop(partition, None)
            continue
        entries[partition] = replicas
        if named:
            log_dirs[partition] = named
    originals = {p: originals[p] for p in originals if p in entries}
    return JudgedEntries(entries, originals, refused, log_dirs)


def _entry(item: object) -> tuple[TopicPartition, Replicas, Replicas | None, LogDirs]:
    if not documents.is_object(item):
        raise UnreadableError("an entry is an object with topic, partition and replicas")
    documents.check_keys(item, _ENTRY_KEYS)
    partition = read_partition(item.get("topic"), item.get("partition"))
    replicas = documents.read_replicas(item.get("replicas"))
    log_dirs = documents.read_log_dirs(item["log_dirs"], replicas) if "log_dirs" in item else ()
    original = None
    if "original_replicas" in item:
        with suppress(UnreadableError):
            original = documents.read_replicas(item["original_replicas"])
    return (partition, replicas, original, log_dirs)


def _contradiction(partition: TopicPartition, replicas: Replicas) -> tuple[str, str]:
    return (
        excerpt(plan_entry(partition, replicas)),
        f"{partition} is listed more than once with different replicas or directories",
    )


# --- the legacy plan and the queue ---------------------------------------------------------------


def decode_legacy_plan(data: bytes, version: ZkVersion, czxid: Zxid) -> LegacyPlan:
    """Decode a plan; ``refused`` and ``unreadable`` say what is wrong with it."""
    try:
        judged = judge_plan(documents.read_document(data))
    except UnreadableError as error:
        return LegacyPlan({}, version, czxid, unreadable=str(error), raw=data)
    return LegacyPlan(
        judged.replicas, version, czxid, tuple(judged.refused), log_dirs=judged.log_dirs
    )


def judge_plan(
    document: documents.Document, besides: frozenset[str] = frozenset()
) -> JudgedEntries:
    """Judge the entries of a plan; ``besides``: keys that may stand beside Kafka's own."""
    documents.check_version(document, absent=1)
    documents.check_keys(document, _PLAN_KEYS | besides)
    return judge_entries(documents.read_list(document, "partitions"))


def encode_legacy_plan(entries: Plan, log_dirs: NamedDirs = NO_DIRS) -> bytes:
    """Encode a plan: the target replicas of each partition, with Kafka's own keys only."""
    listed = [plan_entry(p, replicas, log_dirs.get(p, ())) for p, replicas in entries.items()]
    return documents.write_document({"version": 1, "partitions": listed})


def plan_entry(
    partition: TopicPartition,
    replicas: Replicas,
    log_dirs: LogDirs = (),
    expected: Replicas | None = None,
) -> documents.Document:
    """Return an entry as plans list it; it may be approved for the expected replicas."""
    entry: dict[str, object]
    entry = {"topic": partition.topic, "partition": partition.partition, "replicas": replicas}
    if log_dirs:
        entry["log_dirs"] = listed_dirs(replicas, log_dirs)
    if expected is not None:
        entry["original_replicas"] = expected
    return entry


# --- submitted requests --------------------------------------------------------------------------

PART_BYTES_MAX: Final = 700_000
"""ZooKeeper refuses more than 1 MiB, which includes its own envelope."""

OPTION_KEYS: Final = frozenset(option.name for option in fields(RequestOptions))
_LEGACY: Final = "legacy"
_FORMS: Final = ("assignments", "partitions")
_KEYS: Final = OPTION_KEYS | {"version", *_FORMS}
_IGNORED: Final = f"the key {_LEGACY} is ignored: a submitted request never takes the legacy route"


def decode_submission(
    name: str, data: bytes, version: ZkVersion, czxid: Zxid, created_ms: int
) -> Submission:
    """
    Decode ``/admin/reassignment_requests/request_<10 digits>``.

    Three forms are understood: ``assignments`` by topic and partition, the list of ``partitions``
    that Kafka's own tool writes, and KIP-236's bare object of topics, which has no options. Only
    entries of the list can name the replicas that they are approved for. A client's own ``legacy``
    flag is ignored with a warning: the znode determines the route of a request.

    What is wrong is in ``refused`` or ``unreadable``, with the reason. A bad option makes the whole
    node unreadable; so does a key that is there twice, as it is not guessed which one is meant.
    """
    warnings: tuple[str, ...] = ()
    try:
        document = documents.read_document(data, unique=True)
        if _LEGACY in document and not documents.is_object(document[_LEGACY]):
            document = {key: value for key, value in document.items() if key != _LEGACY}
            warnings = (_IGNORED,)
        listed = _listed_entries(document)
        options = RequestOptions() if _is_bare(document) else read_options(document)
    except UnreadableError as error:
        return Submission(name, {}, version, czxid, created_ms, unreadable=str(error), raw=data)
    judged = judge_entries(listed)
    return Submission(
        name,
        judged.replicas,
        version,
        czxid,
        created_ms,
        options,
        tuple(judged.refused),
        warnings,
        expected=judged.originals if options.approved else {},
        log_dirs=judged.log_dirs,
    )


def encode_submission(
    entries: Plan,
    options: RequestOptions,
    expected: Plan | None = None,
    log_dirs: NamedDirs = NO_DIRS,
) -> bytes:
    """Encode a request in its first form; in the second if only that can say all of it."""
    document: dict[str, object] = {"version": 1}
    if expected is not None or not log_dirs.keys().isdisjoint(entries):
        document["partitions"] = [
            plan_entry(p, r, log_dirs.get(p, ()), None if expected is None else expected[p])
            for p, r in entries.items()
        ]
    else:
        assignments: dict[str, dict[str, Replicas]] = {}
        for partition, replicas in entries.items():
            assignments.setdefault(partition.topic, {})[str(partition.partition)] = replicas
        document["assignments"] = assignments
    return documents.write_document(document | write_options(options))


def _listed_entries(document: documents.Document) -> list[object]:
    """Return the entries as a list."""
    if _is_bare(document):
        return list(_entries_of(document))
    documents.check_version(document, absent=1)
    documents.check_keys(document, _KEYS)
    match [form for form in _FORMS if form in document]:
        case ["partitions"] if documents.is_list(document["partitions"]):
            return list(document["partitions"])
        case ["assignments"] if documents.is_object(document["assignments"]):
            return list(_entries_of(document["assignments"]))
        case [form]:
            problem = f"{form} is not what it has to be but {excerpt(document[form])}"
        case []:
            problem = "neither assignments nor partitions say what is to be reassigned"
        case _:
            problem = "assignments and partitions are both there: which one is meant is not guessed"
    raise UnreadableError(problem)


def _is_bare(document: documents.Document) -> bool:
    """Return whether all members are topics, each an object of partitions."""
    if not document or not all(documents.is_object(topic) for topic in document.values()):
        return False
    assignments = document.get("assignments")
    return not (
        # A topic may have that name, but then lists of brokers stand in it.
        len(document) == 1
        and documents.is_object(assignments)
        and all(documents.is_object(partitions) for partitions in assignments.values())
    )


def _entries_of(topics: documents.Document) -> Iterator[object]:
    """Yield the entries of an object of topics as a list would have them, as far as possible."""
    for topic, partitions in topics.items():
        if not documents.is_object(partitions):
            yield {"topic": topic, "partition": partitions}
            continue
        for name, replicas in partitions.items():
            number = parse_number(name)
            partition: object = name if number is None else number
            yield {"topic": topic, "partition": partition, "replicas": replicas}


# --- options -------------------------------------------------------------------------------------


def read_options(document: documents.Document) -> RequestOptions:
    """
    Read the options among the members of an object.

    A bad one makes the whole object unreadable: without it, another request would be carried out
    than the one submitted.
    """
    members = documents.Members(document, None)
    part_of = read_request(document["part_of"], "part_of: ") if "part_of" in document else None
    if part_of is not None and is_reserved(part_of):
        raise UnreadableError(f"part_of: {part_of} cannot be the id of a submitted request")
    return RequestOptions(
        reason=members.text("reason"),
        requested_by=members.text("requested_by"),
        approved=members.digest("approved"),
        approved_by=members.text("approved_by"),
        priority=members.number("priority", -PRIORITY_MAX, PRIORITY_MAX) or 0,
        step_size=members.step_size("step_size"),
        throttle=members.throttle("throttle"),
        log_dirs_throttle=members.rate("log_dirs_throttle"),
        window=members.window("window"),
        max_partitions_in_flight=members.number("max_partitions_in_flight"),
        atomic=members.flag("atomic"),
        keep_leaders=members.flag("keep_leaders"),
        elect_leaders=members.flag("elect_leaders"),
        tolerate_lagging=members.broker_ids("tolerate_lagging") or (),
        part_of=part_of,
        parts=members.number("parts") or 1,
    )


def write_options(options: RequestOptions) -> dict[str, object]:
    """Return the options as members, without those that have their default."""
    given = ((option, getattr(options, option.name)) for option in fields(options))
    return {option.name: _member(value) for option, value in given if value != option.default}


def _member(value: object) -> object:
    """Return the value of an option as JSON has it."""
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Window) else value


# --- parts ---------------------------------------------------------------------------------------


def submissions_of(  # noqa: PLR0913 - the parts of a plan
    plan: Plan,
    options: RequestOptions,
    request: RequestId,
    *,
    expected: Plan | None = None,
    log_dirs: NamedDirs = NO_DIRS,
    bytes_max: int = PART_BYTES_MAX,
) -> list[bytes]:
    """
    Return the contents of the znodes that submit a plan, of at most ``bytes_max`` each.

    Several get the request id; ZooKeeper names a single znode. ``expected`` are the replicas of
    each partition for which the plan was approved.
    """
    named = replace(options, part_of=request)
    room = bytes_max - len(encode_submission({}, replace(named, parts=len(plan))))
    parts = list(_split(plan, expected, log_dirs, room))
    if len(parts) == 1:
        return [encode_submission(plan, options, expected, log_dirs)]
    named = replace(named, parts=len(parts))
    return [encode_submission(part, named, expected, log_dirs) for part in parts]


def _split(plan: Plan, expected: Plan | None, log_dirs: NamedDirs, room: int) -> Iterator[Plan]:
    """Split a plan, topic by topic in its order, into parts of at most ``room`` bytes."""
    part: dict[TopicPartition, Replicas] = {}
    used, current = 0, None
    topics = {topic: n for n, topic in enumerate(dict.fromkeys(p.topic for p in plan))}
    for partition in sorted(plan, key=lambda p: topics[p.topic]):
        replicas = plan[partition]
        if expected is not None or log_dirs:
            # A list of entries; without directories in this part, it gets shorter.
            before = () if expected is None else expected[partition]
            entry = plan_entry(partition, replicas, log_dirs.get(partition, ()), before)
            size = len(documents.write_document(entry)) + 1
            topic_size = 0
        else:
            # ,"<partition>":[<replicas>] and, once per topic and part, ,"<topic>":{}
            size = len(f',"{partition.partition}":[]') + sum(len(str(r)) + 1 for r in replicas)
            topic_size = len(f',"{partition.topic}":{{}}')
        header = 0 if partition.topic == current else topic_size
        if part and used + size + header > room:
            yield part
            part, used, header = {}, 0, topic_size
        part[partition] = replicas
        used += size + header
        current = partition.topic
    if part:
        yield part
