"""Tests of ``controller.telemetry.journal``."""

from __future__ import annotations

import errno
import json
import os
from io import RawIOBase
from pathlib import Path
from typing import Any

import pytest

from controller.core.leadership.records import StateRecord
from controller.core.model import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion
from controller.core.reassignments.records import SpecEndedRecord
from controller.core.requests.records import LegacyPlanEndedRecord
from controller.errors import InvalidInputError
from controller.telemetry.journal import Journal, kind_of, line_of
from tests.core.builders import replicas, tp
from tests.telemetry.builders import REQUEST, START


class Hesitant(RawIOBase):
    """A file that takes few bytes at once, and after so many writes none at all."""

    def __init__(self, file: RawIOBase, at_most: int, *, full_after: int = 1_000_000) -> None:
        """Write to another file."""
        super().__init__()
        self._file = file
        self._at_most = at_most
        self.full_after = full_after

    def write(self, data: Any, /) -> int | None:  # noqa: ANN401 - a buffer, as the base says
        """Take a part."""
        if self.full_after <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.full_after -= 1
        return self._file.write(data[: self._at_most])

    def close(self) -> None:
        """Close the file beneath."""
        self._file.close()
        super().close()


def lines(path: Path) -> list[dict[str, Any]]:
    """Return what stands in a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_kinds_are_named_after_the_records() -> None:
    """In snake case."""
    assert kind_of(LegacyPlanEndedRecord(ZkVersion(1))) == "legacy_plan_ended"
    assert kind_of(SpecEndedRecord(tp(), None, REQUEST, "done")) == "goal_ended"


def test_a_line_carries_version_time_and_kind() -> None:
    """Each line can be read without the ones before it."""
    record = StateRecord(
        tp(), BrokerId(1), LeaderEpoch(4), replicas(1, 2), ControllerEpoch(9), ZkVersion(6)
    )
    line = json.loads(line_of(START, "state", record))
    assert line == {
        "v": 1,
        "at": "2026-01-02T03:04:05.000Z",
        "kind": "state",
        "topic": "t",
        "partition": 0,
        "leader": 1,
        "leader_epoch": 4,
        "isr": [1, 2],
        "controller_epoch": 9,
        "expected_version": 6,
        "leader_recovery_state": 0,
    }


def test_everything_is_on_disk_after_close(tmp_path: Path) -> None:
    """Closing waits for what was appended."""
    journal = Journal(tmp_path / "new" / "journal")
    journal.start()
    for number in range(500):
        journal.append(START, "counted", {"number": number})
    journal.close()
    found = lines(tmp_path / "new" / "journal" / "journal.jsonl")
    assert [line["number"] for line in found] == list(range(500))
    assert not journal.is_alive


def test_a_new_run_appends(tmp_path: Path) -> None:
    """What an earlier run wrote stays."""
    for run in range(2):
        journal = Journal(tmp_path)
        journal.start()
        journal.append(START, "run", {"run": run})
        journal.close()
    assert [line["run"] for line in lines(tmp_path / "journal.jsonl")] == [0, 1]


def test_files_are_rotated_by_size(tmp_path: Path) -> None:
    """The oldest is deleted."""
    journal = Journal(tmp_path, file_bytes_max=200, files_max=3)
    journal.start()
    for number in range(40):
        journal.append(START, "counted", {"number": number})
    journal.close()
    names = sorted(p.name for p in tmp_path.iterdir() if p.name != "journal.lock")
    assert names == ["journal.jsonl", "journal.jsonl.1", "journal.jsonl.2"]
    newest = lines(tmp_path / "journal.jsonl.1")[-1]["number"]
    assert lines(tmp_path / "journal.jsonl.2")[-1]["number"] < newest
    assert all(p.stat().st_size < 400 for p in tmp_path.iterdir())


def test_full_queue_drops_and_counts_lines(tmp_path: Path) -> None:
    """The count is written later."""
    journal = Journal(tmp_path, queue_max=2)
    for number in range(5):
        journal.append(START, "counted", {"number": number})
    assert journal.dropped == 3
    journal.start()
    journal.close()
    found = lines(tmp_path / "journal.jsonl")
    assert [line["kind"] for line in found] == ["counted", "counted", "journal_dropped"]
    assert found[-1]["entries"] == 3


def test_unusable_directory_is_refused_at_start(tmp_path: Path) -> None:
    """A wrong journal_dir is reported at the start."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="journal directory"):
        Journal(tmp_path / "file" / "journal")


def test_two_daemons_cannot_share_a_directory(tmp_path: Path) -> None:
    """Their lines and rotations would mix."""
    journal = Journal(tmp_path)
    with pytest.raises(InvalidInputError, match="another reassigner"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_full_disk_loses_lines_only(tmp_path: Path) -> None:
    """They are counted; neither appending nor closing fails."""
    (tmp_path / "journal.jsonl").symlink_to("/dev/full")
    journal = Journal(tmp_path)
    journal.start()
    for number in range(10):
        journal.append(START, "counted", {"number": number})
    journal.close()
    assert not journal.is_alive
    assert journal.dropped == 10


@pytest.mark.parametrize("at_most", [1, 7, 150, 10_000])
def test_lines_are_whole_after_partial_writes(tmp_path: Path, at_most: int) -> None:
    """A full disk may cut off the last one."""
    journal = Journal(tmp_path)
    disk = Hesitant(journal._file, at_most)
    journal._file = disk
    for number in range(3):
        journal.append(START, "counted", {"number": number, "filler": "x" * 100})
    journal.start()
    journal.close()
    assert [line["number"] for line in lines(tmp_path / "journal.jsonl")] == [0, 1, 2]


def test_cut_line_is_ended_before_the_next(tmp_path: Path) -> None:
    """A count of the missing lines follows."""
    journal = Journal(tmp_path)
    disk = Hesitant(journal._file, 40, full_after=3)
    journal._file = disk
    journal._append([(START, "counted", {"number": 0})])
    with pytest.raises(OSError, match="No space left"):
        journal._append([(START, "counted", {"number": 1})])
    disk.full_after = 100
    journal._append([(START, "counted", {"number": 2})])
    journal.close()
    text = (tmp_path / "journal.jsonl").read_text()
    first, cut, last = text.splitlines()
    assert (json.loads(first)["number"], json.loads(last)["number"]) == (0, 2)
    with pytest.raises(json.JSONDecodeError):
        json.loads(cut)


def test_the_position_is_what_is_written(tmp_path: Path) -> None:
    """An archive names it, so that the lines before it can be told from later ones."""
    journal = Journal(tmp_path)
    journal.start()
    journal.append(START, "one", {"n": 1})
    journal.close()
    file = tmp_path / "journal.jsonl"
    assert journal.position == {"path": str(file), "bytes": file.stat().st_size}
