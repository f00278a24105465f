"""
What Kafka's tool reads and prints, of 3.9 and of the versions before 2.6, to the byte.

A file (plan, topics, list of brokers) is accepted or refused exactly as by Kafka's tool, with the
same text. Repetitions in an error are sorted; Kafka's tool prints them in the order of a hash
table. Scripts read the texts. ``integration/test_stock.py`` runs both tools side by side.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.core.requests.submissions import ANY_LOG_DIR, NO_DIRS, NamedDirs, listed_dirs
from controller.errors import InvalidInputError
from controller.previews.entries import ActiveReassignment
from controller.units import ids

EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
RUN_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)
RUN_VERIFY_BEFORE_2_6: Final = (
    "Warning: You must run Verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed. You can also alter the throttle by rerunning the Execute command passing "
    "a new value."
)
NONE_ACTIVE: Final = "None of the specified partition reassignments are active."
NO_MOVES: Final = "None of the specified partition moves are active."
"""Moves between log directories; Kafka's tool prints no newline after it."""
EMPTY_PLAN: Final = "Partition reassignment list cannot be empty"
EMPTY_PLAN_BEFORE_2_6: Final = "Partition reassignment data file is empty"
UNKNOWN_TOPIC: Final = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
"""The name of the exception, which Kafka's tool prints before its message."""
_FORMAT: Final = 1
_EMPTY: Final = "The input string shouldn't be empty\n at [Source: UNKNOWN; byte offset: #UNKNOWN]"
_INT_MAX: Final = 2**31

_Item = TypeVar("_Item", int, BrokerId, str, TopicPartition)


class Placement(NamedTuple):
    """A replica and the log directory that a plan names for it."""

    partition: TopicPartition
    broker: BrokerId
    directory: str


@dataclass(frozen=True, slots=True)
class StockPlan:
    """A plan as Kafka's tool reads it."""

    listed: tuple[tuple[TopicPartition, Replicas], ...]
    """In the order of the file, with repetitions."""
    log_dirs: Mapping[tuple[TopicPartition, BrokerId], str]
    """The log directories other than ``any``, by replica."""

    @property
    def entries(self) -> dict[TopicPartition, Replicas]:
        """The last entry of each partition."""
        return dict(self.listed)

    @property
    def named_dirs(self) -> NamedDirs:
        """The log directories that entries name."""
        named = {
            p: tuple((r, self.log_dirs[p, r]) for r in replicas if (p, r) in self.log_dirs)
            for p, replicas in self.listed
        }
        return {partition: log_dirs for partition, log_dirs in named.items() if log_dirs}

    @property
    def placements(self) -> list[Placement]:
        """The replicas with their log directories, by broker, topic and partition."""
        rows = ((broker, p, path) for (p, broker), path in self.log_dirs.items())
        return [Placement(p, broker, path) for broker, p, path in sorted(rows)]


def read_text(path: Path) -> str:
    """Read a file."""
    try:
        return path.read_text()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InvalidInputError(f"Unable to read file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: {error}") from error


def read_stock_plan(text: str) -> StockPlan:
    """Decode a plan."""
    if not text.strip():
        raise InvalidInputError(_EMPTY)
    try:
        document = _first_document(text)
    except JSONDecodeError as error:
        raise InvalidInputError(f"The input string is not a valid JSON: {error}") from error
    _check_version(document)
    listed: list[tuple[TopicPartition, Replicas]] = []
    log_dirs: dict[tuple[TopicPartition, BrokerId], str] = {}
    for entry in _array(document, "partitions"):
        partition = TopicPartition(_text(_field(entry, "topic")), _int(_field(entry, "partition")))
        replicas = tuple(BrokerId(_int(r)) for r in _items(_field(entry, "replicas")))
        dirs = [ANY_LOG_DIR for _ in replicas]
        if "log_dirs" in entry:
            dirs = [_text(d) for d in _items(entry["log_dirs"])]
        if len(dirs) != len(replicas):
            raise InvalidInputError(
                f"Size of replicas list {_java_list(replicas)} is different from size of log dirs "
                f"list {_java_list(dirs)} for partition {partition}"
            )
        listed.append((partition, replicas))
        log_dirs |= {
            (partition, replica): directory
            for replica, directory in zip(replicas, dirs, strict=True)
            if directory != ANY_LOG_DIR
        }
    return StockPlan(tuple(listed), log_dirs)


def check_plan(plan: StockPlan, *, empty: str) -> None:
    """Check a plan before ``--execute``; ``empty`` is the message for one without entries."""
    if not plan.listed:
        raise InvalidInputError(empty)
    if not all(replicas for _, replicas in plan.listed):
        raise InvalidInputError("Partition replica list cannot be empty")
    twice = duplicates_of(partition for partition, _ in plan.listed)
    if twice:
        names = ",".join(map(str, twice))
        raise InvalidInputError(
            f"Partition reassignment contains duplicate topic partitions: {names}"
        )
    problems = [
        f"{partition} contains multiple entries for {','.join(map(str, again))}"
        for partition, replicas in plan.listed
        if (again := duplicates_of(replicas))
    ]
    if problems:
        raise InvalidInputError(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(problems)}"
        )


def read_topics(text: str) -> list[str]:
    """Decode a list of topics."""
    try:
        document = _first_document(text)
    except JSONDecodeError as error:
        raise InvalidInputError("The input string is not a valid JSON") from error
    return topics_of(document)


def topics_of(document: object) -> list[str]:
    """Return the topics of a document."""
    _check_version(document)
    topics = [_text(_field(entry, "topic")) for entry in _array(document, "topics")]
    twice = duplicates_of(topics)
    if twice:
        raise InvalidInputError(
            f"List of topics to reassign contains duplicate entries: {_java_list(twice)}"
        )
    return topics


def read_brokers(text: str) -> list[BrokerId]:
    """Parse a list of brokers such as ``0,1,2``."""
    brokers: list[BrokerId] = []
    for part in text.split(","):
        if not part.lstrip("+-").isdigit():
            raise InvalidInputError(f'For input string: "{part}"')
        brokers.append(BrokerId(int(part)))
    twice = duplicates_of(brokers)
    if twice:
        raise InvalidInputError(f"Broker list contains duplicate entries: {_java_list(twice)}")
    return brokers


def duplicates_of(items: Iterable[_Item]) -> list[_Item]:
    """Return the items that occur more than once, sorted."""
    return sorted(item for item, count in Counter(items).items() if count > 1)


# --- JSON, with the messages of Kafka's parser ---------------------------------------------------


def _first_document(text: str) -> object:
    """Parse the JSON at the begin of a text; Kafka's parser ignores what follows it."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    document: object = json.JSONDecoder().raw_decode(text, start)[0]
    return document


def _check_version(document: object) -> None:
    version = _int(_object(document).get("version", _FORMAT))
    if version != _FORMAT:
        raise InvalidInputError(f"Not supported version field value {version}")


def _array(document: object, key: str) -> list[Any]:
    found = _object(document).get(key, [])
    if not isinstance(found, list):
        _refuse("Expected JSON array, received {}", found)
    return found


def _object(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - as above
    if not isinstance(value, dict):
        _refuse("Expected JSON object, received {}", value)
    return value


def _field(entry: Any, key: str) -> Any:  # noqa: ANN401 - as above
    if key not in _object(entry):
        raise InvalidInputError(f"No such field exists: `{key}`")
    return entry[key]


def _items(value: Any) -> list[Any]:  # noqa: ANN401 - as above
    return list(_expect("JSON array", value, lambda v: isinstance(v, list)))


def _text(value: Any) -> str:  # noqa: ANN401 - as above
    return str(_expect("String", value, lambda v: isinstance(v, str)))


def _int(value: Any) -> int:  # noqa: ANN401 - as above
    return int(_expect("Integer", value, lambda v: type(v) is int and -_INT_MAX <= v < _INT_MAX))


def _expect(kind: str, value: Any, is_right: Callable[[Any], bool]) -> Any:  # noqa: ANN401 - as above
    if not is_right(value):
        _refuse(f"Expected `{kind}` value, received {{}}", value)
    return value


def _refuse(sentence: str, value: Any) -> NoReturn:  # noqa: ANN401 - as above
    raise InvalidInputError(sentence.format(json.dumps(value, separators=(",", ":"))))


def _java_list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


# --- texts ---------------------------------------------------------------------------------------


def plan_document(
    plan: Mapping[TopicPartition, Replicas], log_dirs: NamedDirs = NO_DIRS
) -> dict[str, object]:
    """Return a plan as Kafka's tool prints it: sorted, with log directories."""
    partitions = [
        {
            "topic": p.topic,
            "partition": p.partition,
            "replicas": list(replicas),
            "log_dirs": listed_dirs(replicas, log_dirs.get(p, ())),
        }
        for p, replicas in sorted(plan.items())
    ]
    return {"version": 1, "partitions": partitions}


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def proposal_text(current: object, proposed: object) -> str:
    """Return a proposal: the documents of the current and of the proposed plan."""
    return (
        f"Current partition replica assignment\n{_json(current)}\n\n"
        f"Proposed partition reassignment configuration\n{_json(proposed)}"
    )


def plural(count: int) -> str:
    """Return the ending of a plural."""
    return "" if count == 1 else "s"


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """List partitions, sorted."""
    return ",".join(map(str, sorted(partitions)))


def current_text(plan: Mapping[TopicPartition, Replicas]) -> str:
    """Return the current replicas, which serve as a rollback plan."""
    return (
        f"Current partition replica assignment\n\n{_json(plan_document(plan))}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def active_text(active: Mapping[TopicPartition, ActiveReassignment]) -> str:
    """List the active reassignments."""
    if not active:
        return "No partition reassignments found."
    lines = []
    for partition, found in sorted(active.items()):
        adding = f" adding: {ids(found.adding)}." if found.adding else ""
        removing = f" removing: {ids(found.removing)}." if found.removing else ""
        lines.append(f"{partition}: replicas: {ids(found.replicas)}.{adding}{removing}")
    return "\n".join(("Current partition reassignments:", *lines))


def verified_text(partition: TopicPartition, now: Sequence[int] | None, target: Replicas) -> str:
    """Return the state of a partition; ``now`` is None while its reassignment is active."""
    if now is None:
        return f"Reassignment of partition {partition} is still in progress."
    if tuple(now) == target:
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {ids(now)} "
        f"rather than {ids(target)}."
    )


def move_text(move: Placement, here: str | None, future: str | None) -> str:
    """Return the state of a replica that is to be in a log directory."""
    partition, broker, wanted = move
    if here is None:
        return (
            f"Partition {partition} is not found in any live log dir on broker {broker}. There is "
            "likely an offline log directory on the broker."
        )
    if future is None and here == wanted:
        return f"Reassignment of replica {partition}-{broker} completed successfully."
    if future is None:
        return (
            f"Partition {partition} on broker {broker} is not being moved from log dir {here} to "
            f"{wanted}."
        )
    if future == wanted:
        return f"Reassignment of replica {partition}-{broker} is still in progress."
    return (
        f"Partition {partition} on broker {broker} is being moved to log dir {future} instead of "
        f"{wanted}."
    )


def move_started_text(move: Placement) -> str:
    """Return the message about a replica that gets a log directory; it ends with a space."""
    partition, broker, wanted = move
    return (
        f"Successfully started moving log directory to {wanted} for replica {partition} with "
        f"broker {broker} "
    )


def started_text(partitions: Sequence[TopicPartition]) -> str:
    """Return the message of a successful ``--execute``."""
    names = partitions_text(partitions)
    return f"Successfully started partition reassignment{plural(len(partitions))} for {names}"


def cancelled_text(partitions: Sequence[TopicPartition]) -> str:
    """Return the message of a successful ``--cancel``."""
    names = partitions_text(partitions)
    return f"Successfully cancelled partition reassignment{plural(len(partitions))} for: {names}"


def clearing_text(level: str, names: Sequence[object]) -> str:
    """Return the message about the cleared throttles of brokers or topics."""
    found = ",".join(map(str, names))
    return f"Clearing {level}-level throttles on {level}{plural(len(names))} {found}"
