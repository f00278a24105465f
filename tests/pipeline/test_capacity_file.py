"""Capacities of brokers from a file: rules first, exceptions after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.errors import InvalidInputError
from controller.pipeline.capacity_file import read_capacities
from controller.planning.broker_capacities import BrokerTraits, shared_by

BROKERS = [
    BrokerTraits(1, "a", "big-1.example"),
    BrokerTraits(2, "a", "small-2.example"),
    BrokerTraits(13, None, None),
]


def written(directory: Path, text: str) -> Path:
    """Write a file."""
    path = directory / "capacities.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_later_row_replaces_what_an_earlier_one_says(tmp_path: Path) -> None:
    """Rules by rack and by the beginning of the host name, and one broker by its id."""
    text = (
        "\ufeffbroker,rack,host,disk_bytes,bytes_in_per_s\n,,,1TB,100MB\n,,big-,2TB,\n13,,,,50MB\n"
    )
    found = read_capacities(written(tmp_path, text)).of(BROKERS)
    assert found == {"disk": [2e12, 1e12, 1e12], "bytes_in": [1e8, 1e8, 5e7]}


def test_a_load_without_a_capacity_follows_another(tmp_path: Path) -> None:
    """Replicas follow the disk, leaders bytes out, leader bytes in follow bytes in."""
    text = "disk_bytes,bytes_in_per_s,bytes_out_per_s,replicas\n4TB,2MB,3MB,1000\n"
    found = shared_by(read_capacities(written(tmp_path, text)).of(BROKERS[:1]))
    assert found == {
        "disk": [4e12],
        "bytes_in": [2e6],
        "bytes_out": [3e6],
        "replicas": [1000.0],
        "leader_bytes_in": [2e6],
        "leaders": [3e6],
    }
    assert shared_by({}) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("broker,disk\n1,2\n", "column disk is unknown"),
        ("broker,rack\n1,a\n", "no column is a capacity"),
        ("broker,disk_bytes\nx,1TB\n", "line 2: column broker is not an id: x"),
        ("broker,disk_bytes\n1,much\n", "line 2: column disk_bytes: bytes such as"),
        ("broker,replicas\n1,0\n", "line 2: column replicas is not a positive number: 0"),
        ("broker,disk_bytes\n1,1TB,9\n", "line 2 has another number of columns"),
        ("broker,disk_bytes\n1\n", "line 2 has another number of columns"),
    ],
)
def test_a_wrong_file_is_refused_by_line_and_column(tmp_path: Path, text: str, words: str) -> None:
    """The message begins with the file."""
    path = written(tmp_path, text)
    with pytest.raises(InvalidInputError, match=r".") as raised:
        read_capacities(path)
    assert words in str(raised.value)
    assert str(raised.value).startswith(str(path))


def test_a_broker_without_a_capacity_is_named(tmp_path: Path) -> None:
    """Shares cannot be computed from the capacities of some brokers."""
    path = written(tmp_path, "rack,disk_bytes\na,1TB\n")
    with pytest.raises(InvalidInputError, match="column disk_bytes is missing for broker 13"):
        read_capacities(path).of(BROKERS)
