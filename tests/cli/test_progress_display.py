"""Tests of ``controller.cli.progress_display``."""

from __future__ import annotations

import io

from rich.console import Console

from controller.cli.progress_display import Lines, parts_of
from controller.cli.terminal import drawn as drawn_part
from controller.cli.terminal_tables import ROWS_MAX
from tests.cli.builders import a_partition, a_request, a_status


def drawn(**status: object) -> str:
    """Return the bars as text."""
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as capture:
        parts = parts_of("1 of 4 done", 1, 4, a_status(**status))
        console.print(*map(drawn_part, parts), sep="\n")
    return capture.get()


def test_the_whole_and_every_partition_have_a_bar() -> None:
    """Numbers beside the bars, for those who want to know exactly."""
    text = drawn(requests=[a_request(done=1)], in_flight=[a_partition(step=2)])
    assert "1 of 4 done" in text
    assert "legacy-" in text
    assert "2/3  copying" in text
    assert "1,2,3     2,3" in text


def test_what_operators_hold_up_is_seen_while_watching() -> None:
    """Above everything else, and as one line where there is no terminal."""
    about = {"reason": "disk swap", "by": "ann@desk", "since_ms": 1_750_000_000_000}
    controls = {"paused": {"everything": about}, "disabled": False}
    words = "everything is paused since 2025-06-15 15:06:40Z by ann@desk: disk swap"
    assert words in drawn(controls=controls)
    written: list[str] = []
    lines = Lines(written.append)
    for _ in range(2):
        lines.show("", 0, 0, a_status(controls=controls))
    assert written.count(words) == 1


def test_what_is_over_has_no_bar() -> None:
    """Requests that ended stay in the status, not on the screen."""
    over = {**a_request(done=2), "state": "done"}
    lines = drawn(requests=[over]).splitlines()
    assert "%" not in "".join(lines[1:])
    assert lines[-1].strip() == "legacy-000000000000002a: 2 of 2 done"


def test_a_full_screen_is_cut() -> None:
    """The rest is counted."""
    many = [a_partition(partition=n) for n in range(ROWS_MAX + 4)]
    assert "and 4 more" in drawn(in_flight=many)


def test_brackets_from_the_cluster_are_not_markup() -> None:
    """A reason may hold anything."""
    blocked = {"by": "broker_dead", "detail": "[red]all[/nonsense]"}
    assert "[red]all[/nonsense]" in drawn(in_flight=[a_partition(blocked_on=blocked)])


def test_lines_are_printed_only_when_they_change() -> None:
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


def test_a_partition_that_copies_says_so() -> None:
    """It waits for nothing."""
    copies = a_partition(
        state="copying", adding_replicas=[3], phase_since="2026-01-02T03:04:05.000Z"
    )
    text = drawn(in_flight=[copies])
    assert "copying to 3" in text
    assert "waits for" not in text
