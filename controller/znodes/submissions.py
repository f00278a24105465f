"""
Submitted requests: ``/admin/reassignment_requests/request_<10 digits>``.

Three forms are understood: ``assignments`` by topic and partition, the list of ``partitions`` that
Kafka's own tool writes, and KIP-236's bare object of topics, which has no options. Only entries of
the list can name the replicas that they are approved for. A client's own ``legacy`` flag is ignored
with a warning: the znode determines the route of a request.

Entries are judged one by one (``legacy_plans``). What is wrong with an option makes the whole node
unreadable; so does a key that is there twice, as it is not guessed which one is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from controller.core.model import LogDirs, Replicas, RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import NO_DIRS, NamedDirs, RequestOptions, Submission
from controller.znodes import json_documents as documents
from controller.znodes.legacy_plans import judge_entries, plan_entry, unknown_key
from controller.znodes.paths import parse_number
from controller.znodes.request_options import OPTION_KEYS, read_options, write_options

PART_BYTES_MAX: Final = 700_000
"""ZooKeeper refuses more than 1 MiB, which includes its own envelope."""

Plan = Mapping[TopicPartition, Replicas]

_LEGACY: Final = "legacy"
_FORMS: Final = ("assignments", "partitions")
_KEYS: Final = OPTION_KEYS | {"version", *_FORMS}
_IGNORED: Final = f"the key {_LEGACY} is ignored: a submitted request never takes the legacy route"


def decode_submission(
    name: str, data: bytes, version: ZkVersion, czxid: Zxid, created_ms: int
) -> Submission:
    """Decode a request; what is wrong is in ``refused`` or ``unreadable``, with the reason."""

    def unreadable(reason: str) -> Submission:
        return Submission(name, {}, version, czxid, created_ms, unreadable=reason, raw=data)

    document = documents.read_document(data, unique=True)
    if isinstance(document, str):
        return unreadable(document)
    warnings: tuple[str, ...] = ()
    if _LEGACY in document and not documents.is_object(document[_LEGACY]):
        document = {key: value for key, value in document.items() if key != _LEGACY}
        warnings = (_IGNORED,)
    listed = _listed_entries(document)
    if isinstance(listed, str):
        return unreadable(listed)
    options = RequestOptions() if _is_bare(document) else read_options(document)
    if isinstance(options, str):
        return unreadable(options)
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
    if expected is not None or not log_dirs.keys().isdisjoint(entries):
        listed = [
            plan_entry(p, r, log_dirs.get(p, ()))
            if expected is None
            else approved_entry(p, r, expected[p], log_dirs.get(p, ()))
            for p, r in entries.items()
        ]
        return documents.write_document(
            {"version": 1, "partitions": listed} | write_options(options)
        )
    assignments: dict[str, dict[str, Replicas]] = {}
    for partition, replicas in entries.items():
        assignments.setdefault(partition.topic, {})[str(partition.partition)] = replicas
    return documents.write_document(
        {"version": 1, "assignments": assignments} | write_options(options)
    )


def approved_entry(
    partition: TopicPartition, replicas: Replicas, expected: Replicas, log_dirs: LogDirs = ()
) -> documents.Document:
    """Return an entry that is approved for the replicas of its partition."""
    return {**plan_entry(partition, replicas, log_dirs), "original_replicas": expected}


def _listed_entries(document: documents.Document) -> list[object] | str:  # noqa: PLR0911 - one return per form
    """Return the entries as a list, or why the node as a whole is not a request."""
    if _is_bare(document):
        return list(_entries_of(document))
    problem = documents.version_problem(document, (1,), absent=1) or unknown_key(document, _KEYS)
    if problem is not None:
        return problem
    match [form for form in _FORMS if form in document]:
        case ["partitions"] if documents.is_list(document["partitions"]):
            return list(document["partitions"])
        case ["assignments"] if documents.is_object(document["assignments"]):
            return list(_entries_of(document["assignments"]))
        case [form]:
            return f"{form} is not what it has to be but {documents.excerpt(document[form])}"
        case []:
            return "neither assignments nor partitions say what is to be reassigned"
        case _:
            return "assignments and partitions are both there: which one is meant is not guessed"


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
    Return the contents of the znodes that submit a plan.

    Args:
        plan: The plan.
        options: The options of the request.
        request: The id of a request of several znodes; ZooKeeper names a single znode.
        expected: The replicas of each partition for which the plan was approved.
        log_dirs: The log directories that entries name.
        bytes_max: The largest content of one znode.

    """
    named = replace(options, part_of=request)
    room = bytes_max - len(encode_submission({}, replace(named, parts=len(plan))))
    parts = list(_split(plan, expected, log_dirs, room))
    if len(parts) == 1:
        return [encode_submission(plan, options, expected, log_dirs)]
    named = replace(named, parts=len(parts))
    return [encode_submission(part, named, expected, log_dirs) for part in parts]


def _split(plan: Plan, expected: Plan | None, log_dirs: NamedDirs, room: int) -> Iterator[Plan]:
    """Split a plan into parts of at most ``room`` bytes, topic by topic."""
    part: dict[TopicPartition, Replicas] = {}
    used, current = 0, None
    for partition, replicas in _by_topic(plan):
        if expected is not None or log_dirs:
            # A list of entries; without directories in this part, it gets shorter.
            before = () if expected is None else expected[partition]
            entry = approved_entry(partition, replicas, before, log_dirs.get(partition, ()))
            size = len(documents.write_document(entry)) + 1
            if part and used + size > room:
                yield part
                part, used = {}, 0
            part[partition] = replicas
            used += size
            continue
        # ,"<partition>":[<replicas>] and, once per topic, ,"<topic>":{}
        size = len(f',"{partition.partition}":[]') + sum(len(str(r)) + 1 for r in replicas)
        if partition.topic != current:
            size += len(f',"{partition.topic}":{{}}')
        if part and used + size > room:
            yield part
            part, used = {}, 0
            if partition.topic == current:
                size += len(f',"{partition.topic}":{{}}')
        part[partition] = replicas
        used += size
        current = partition.topic
    if part:
        yield part


def _by_topic(plan: Plan) -> Iterator[tuple[TopicPartition, Replicas]]:
    """Yield the entries topic by topic, in the order of the plan."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in plan:
        topics.setdefault(partition.topic, []).append(partition)
    for partitions in topics.values():
        for partition in partitions:
            yield partition, plan[partition]
