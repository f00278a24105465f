"""The order that begins with what frees the fullest broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.model import MinFree
from controller.core.pacing.controls import QueueOrder
from tests.core.builders import Driver, tp
from tests.core.disks.reports import report
from tests.core.disks.test_disk_space import GB, guarded, one, reported

SIZES = {tp(0): 3 * GB, tp(1): 5 * GB, tp(2): 1 * GB}


def waiting(usable: dict[int, int], sizes: dict[int, int] | None = None) -> list[int]:
    """Return the order of partitions that leave brokers 4, 2 and 2, on disks of 1,000 GB."""
    driver = guarded([4], [2], [2], min_free=MinFree(share=1.0))
    driver.view.options = replace(driver.view.options, order=QueueOrder.MOST_USEFUL_FIRST)
    driver.submit({tp(n): [5] for n in range(3)})
    measured = SIZES if sizes is None else {tp(n): size for n, size in sizes.items()}
    dirs = {b: one(free) for b, free in usable.items()}
    others = [report(b, {}, at=driver.now, epoch=100) for b in range(7) if b not in usable]
    silent = (replace(answer, problem="no answer") for answer in others)
    driver.observe(*reported(driver, dirs, measured), *silent)
    return in_turn(driver)


def in_turn(driver: Driver) -> list[int]:
    """Return the pending partitions in their order."""
    line = driver.view.pacing.waiting
    return [p.partition for p in line.in_turn(list(line.requests()))]


def test_what_leaves_the_fullest_disk_is_first() -> None:
    """Whatever waits on the others; the largest of it first."""
    free = dict.fromkeys(range(7), 500 * GB)
    assert waiting({**free, 4: 300 * GB}) == [0, 1, 2]
    assert waiting({**free, 2: 300 * GB}) == [1, 2, 0]


@pytest.mark.parametrize("taken", [{}, {2: 1}, {4: 1}, {4: 5 * GB}])
def test_equally_full_brokers_are_compared_by_what_waits_there(taken: dict[int, int]) -> None:
    """Brokers that share a volume report what others write meanwhile: most is on broker 2."""
    free = dict.fromkeys(range(7), 500 * GB)
    assert waiting({b: n - taken.get(b, 0) for b, n in free.items()}) == [1, 2, 0]


def test_where_a_disk_is_unknown_the_broker_with_most_to_move_is_first() -> None:
    """Not the one whose disk is known."""
    free = dict.fromkeys(range(6), 500 * GB)
    assert waiting({**free, 4: 300 * GB}) == [1, 2, 0]
    assert waiting({**free, 4: 300 * GB}, {0: 7 * GB, 1: 5 * GB, 2: 1 * GB}) == [0, 1, 2]
