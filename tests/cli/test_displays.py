"""Tests of ``controller.cli.displays``."""

from __future__ import annotations

import io

from rich.console import Console

from controller.cli.displays import PARTITIONS_MAX, Lines, draw
from tests.cli.builders import a_partition, a_request, a_status


def drawn(**status: object) -> str:
    """Return the bars as text."""
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as capture:
        console.print(draw("1 of 4 done", 1, 4, a_status(**status)))
    return capture.get()


def test_the_whole_and_every_partition_have_a_bar() -> None:
    """Numbers beside the bars, for those who want to know exactly."""
    text = drawn(requests=[a_request(done=1)], in_flight=[a_partition(step=2)])
    assert "1 of 4 done" in text
    assert "request legacy-" in text
    assert "A2-syncing 2/3" in text
    assert "1,2,3 -> 2,3" in text


def test_what_is_over_has_no_bar() -> None:
    """Requests that ended stay in the status, not on the screen."""
    over = {**a_request(done=2), "state": "done"}
    assert "request legacy-" not in drawn(requests=[over])


def test_a_full_screen_is_cut() -> None:
    """The rest is counted."""
    many = [a_partition(partition=n) for n in range(PARTITIONS_MAX + 4)]
    assert "and 4 more" in drawn(in_flight=many)


def test_brackets_from_the_cluster_are_not_markup() -> None:
    """A reason may hold anything."""
    blocked = {"by": "limit", "detail": "[red]all[/nonsense]"}
    assert "[red]all[/nonsense]" in drawn(in_flight=[a_partition(blocked_on=blocked)])


def test_lines_come_only_when_they_change() -> None:
    """The same news twice is no news."""
    written: list[str] = []
    lines = Lines(written.append)
    for step in (1, 1, 2):
        lines.show("going", 0, 1, a_status(in_flight=[a_partition(step=step)]))
    assert [line.split(",")[1] for line in written if line.startswith("t-0")] == [
        " step 1 of 3",
        " step 2 of 3",
    ]
    assert written.count("going") == 1
