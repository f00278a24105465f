"""Capacities of log directories come from a file that is checked and followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.brokers.log_dirs import DiskCapacities, read_capacities
from controller.core.model import BrokerId
from controller.errors import InvalidInputError

FILE = """
[default]
"/data" = "1TB"

[4]
"/data/1" = "2TB"
"/data/2" = 500
"""


def followed(path: Path) -> tuple[DiskCapacities, list[str]]:
    """Return the capacities in a file, and the problems that are reported later."""
    problems: list[str] = []
    return DiskCapacities(path, problems.append), problems


def test_broker_has_its_own_table_or_that_of_all_others(tmp_path: Path) -> None:
    """Most clusters have one kind of machine."""
    path = tmp_path / "disks.toml"
    path.write_text(FILE)
    capacities, _ = followed(path)
    assert capacities(BrokerId(4)) == {"/data/1": 2 * 10**12, "/data/2": 500}
    assert capacities(BrokerId(5)) == {"/data": 10**12}


def test_json_is_read_as_well(tmp_path: Path) -> None:
    """By the suffix of the file."""
    path = tmp_path / "disks.json"
    path.write_text('{"4": {"/data": 7}}')
    assert read_capacities(path) == {"4": {"/data": 7}}
    assert followed(path)[0](BrokerId(5)) == {}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("d.toml", "[4", "not a TOML file"),
        ("d.json", "{", "not a JSON file"),
        ("d.json", "[]", "must be a table of brokers"),
        ("d.toml", "[four]", "four: must be a broker id or 'default'"),
        ("d.toml", "4 = 5", "4: must be a table of log directories"),
        ("d.toml", '[4]\ndata = "1TB"', "4: 'data' is not an absolute path"),
        ("d.toml", '[4]\n"/data" = true', "4, /data: must be bytes such as '2TB'"),
        ("d.toml", '[4]\n"/data" = "much"', "4, /data: bytes such as"),
        ("d.toml", '[4]\n"/data" = 0', "4, /data: bytes such as"),
    ],
)
def test_wrong_value_is_named(tmp_path: Path, name: str, text: str, why: str) -> None:
    """With the file and the place in it."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInputError) as refused:
        DiskCapacities(path, print)
    assert str(path) in str(refused.value)
    assert why in str(refused.value)


def test_missing_file_is_refused_at_the_start(tmp_path: Path) -> None:
    """A wrong path would leave brokers unguarded."""
    with pytest.raises(InvalidInputError, match="No such file"):
        followed(tmp_path / "none.toml")


def test_changed_file_is_read_again_and_an_invalid_one_changes_nothing(tmp_path: Path) -> None:
    """Disks are replaced while the daemon runs; a problem is reported once."""
    path = tmp_path / "disks.toml"
    path.write_text(FILE)
    capacities, problems = followed(path)
    for text, expected in (('[5]\n"/data" = 7', {"/data": 7}), ("[5", {"/data": 7})):
        path.write_text(text)
        os.utime(path, ns=(0, len(text)))
        assert capacities(BrokerId(5)) == capacities(BrokerId(5)) == expected
    path.unlink()
    assert capacities(BrokerId(5)) == {"/data": 7}
    assert len(problems) == 2
