"""Tests of ``controller.previews.plan_files``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from controller.core.model import ZkVersion
from controller.core.requests.submissions import LegacyPlan
from controller.errors import InvalidInputError
from controller.previews.entries import EntryState, read_entries
from controller.previews.plan_files import FILE_BYTES_MAX, document_of, read_plan
from tests.cli.builders import CZXID, FakeCluster
from tests.cli.families import FakeOperator
from tests.core.builders import replicas, tp


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a plan may be written."""
    return tmp_path / "plan.json"


def test_a_plan_of_the_stock_tool_is_read(path: Path) -> None:
    """With or without log_dirs "any"."""
    entry = {"topic": "t", "partition": 0, "replicas": [3, 1], "log_dirs": ["any", "any"]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    assert read_plan(path).entries == {tp(): replicas(3, 1)}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"nonsense",
        b'{"version":2,"partitions":[]}',
        b'{"partitions":{}}',
        b'{"partitions":[]}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_no_plan_is_refused_in_one_line(path: Path, content: bytes) -> None:
    """Whatever it is, the name of the file and a reason come back."""
    path.write_bytes(content)
    with pytest.raises(InvalidInputError) as refused:
        read_plan(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        {},
        {"topic": "t", "partition": 0},
        {"topic": "", "partition": 0, "replicas": [1]},
        {"topic": "a/b", "partition": 0, "replicas": [1]},
        {"topic": "t", "partition": -1, "replicas": [1]},
        {"topic": "t", "partition": True, "replicas": [1]},
        {"topic": "t", "partition": 2**31, "replicas": [1]},
        {"topic": "t", "partition": 0, "replicas": []},
        {"topic": "t", "partition": 0, "replicas": [1, 1]},
        {"topic": "t", "partition": 0, "replicas": ["1"]},
        {"topic": "t", "partition": 0, "replicas": [-1]},
        {"topic": "t", "partition": 0, "replicas": [10**400]},
        {"topic": "t", "partition": 0, "replicas": 1},
        {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["data"]},
    ],
)
def test_one_wrong_entry_refuses_the_file(path: Path, entry: object) -> None:
    """Nothing was written yet: there is no reason to be satisfied with a part."""
    good = {"topic": "t", "partition": 9, "replicas": [1]}
    path.write_text(json.dumps({"version": 1, "partitions": [good, entry]}))
    with pytest.raises(InvalidInputError, match="one entry is invalid"):
        read_plan(path)


def test_many_wrong_entries_are_summed_up(path: Path) -> None:
    """The first twenty are named."""
    path.write_text(json.dumps({"version": 1, "partitions": [{"n": n} for n in range(50)]}))
    with pytest.raises(InvalidInputError) as refused:
        read_plan(path)
    lines = str(refused.value).splitlines()
    assert lines[0].endswith("50 entries are invalid:")
    assert lines[-1] == "  and 30 more"


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """With the reason of the system."""
    with pytest.raises(InvalidInputError, match="No such file"):
        read_plan(tmp_path / "none.json")
    with pytest.raises(InvalidInputError, match="directory"):
        read_plan(tmp_path)


def test_an_endless_file_is_not_read_whole(path: Path) -> None:
    """A plan of that size would not fit into a znode by far."""
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(InvalidInputError, match="larger than"):
        read_plan(path)


def standing(cluster: FakeCluster, target: Sequence[int]) -> EntryState:
    """Return where an entry for the first partition stands."""
    return read_entries(FakeOperator(cluster), {tp(): replicas(*target)})[0].state


def test_an_entry_in_the_znode_is_submitted() -> None:
    """Until the daemon has a record of it."""
    cluster = FakeCluster().assign(tp(), (1, 2))
    cluster.create_plan({tp(): replicas(2, 3)})
    assert standing(cluster, (2, 3)) is EntryState.SUBMITTED
    cluster.accept(tp(), (2, 3))
    assert standing(cluster, (2, 3)) is EntryState.ACCEPTED


def test_a_changed_target_is_submitted_until_the_record_has_it() -> None:
    """The record of the old target does not count."""
    cluster = FakeCluster().assign(tp(), (1, 2))
    cluster.accept(tp(), (2, 3))
    cluster.plan = LegacyPlan({tp(): replicas(3, 4)}, ZkVersion(0), CZXID)
    assert standing(cluster, (3, 4)) is EntryState.SUBMITTED


def test_an_entry_whose_topic_znode_changes_is_moving() -> None:
    """By us, or by a Kafka controller to the same target."""
    cluster = FakeCluster().assign(tp(), (2, 3, 1), adding=(3,), removing=(1,))
    assert standing(cluster, (2, 3)) is EntryState.MOVING
    cluster.accept(tp(), (2, 3))
    assert standing(cluster, (2, 3)) is EntryState.MOVING


def test_an_entry_at_its_target_is_done() -> None:
    """In the very order."""
    cluster = FakeCluster().assign(tp(), (2, 3))
    assert standing(cluster, (2, 3)) is EntryState.DONE
    assert standing(cluster, (3, 2)) is EntryState.REFUSED


def test_an_entry_that_is_nowhere_is_refused() -> None:
    """Not in the znode, not recorded, not at its target."""
    assert standing(FakeCluster().assign(tp(), (1, 2)), (2, 3)) is EntryState.REFUSED
    assert standing(FakeCluster(), (2, 3)) is EntryState.REFUSED
    broken = FakeCluster(topics={"t": "it is not JSON"})
    assert standing(broken, (2, 3)) is EntryState.REFUSED


def test_the_way_back_leaves_out_what_is_being_added() -> None:
    """Originals: the record's, else RS without AR."""
    cluster = FakeCluster().assign(tp(), (2, 3, 1), adding=(3,))
    plan = {tp(): replicas(2, 3)}
    assert read_entries(FakeOperator(cluster), plan)[0].original == replicas(2, 1)
    cluster.accept(tp(), (2, 3), original=(1, 2))
    assert read_entries(FakeOperator(cluster), plan)[0].original == replicas(1, 2)
    assert read_entries(FakeOperator(FakeCluster()), plan)[0].original is None


def test_a_document_is_sorted_and_can_be_read_again(path: Path) -> None:
    """The rollback that is printed is a plan."""
    plan = {tp(1): replicas(2), tp(0): replicas(1, 2)}
    path.write_text(json.dumps(document_of(plan)))
    assert list(read_plan(path).entries) == [tp(0), tp(1)]
