"""Forecasts as lines of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from controller.core.model import count_text
from controller.planning.forecast import DirectoryShare, Forecast, TimeRange, Wait
from controller.previews.plan_facts import Preview
from controller.units import names_text, show_bytes, show_duration, show_range

ROWS_MAX: Final = 40
"""Brokers and directories that are printed; ``--json`` has all of them."""
PATH_MAX: Final = 24
BROKER_HEADS: Final = ("broker", "copies", "in", "serves", "out", "drops", "freed", "leaders")
DIRECTORY_HEADS: Final = ("directory", "in", "freed", "size", "now", "peak", "end")
BASES: Final = {"throttle": "the throttle", "past_copies": "past copies"}


def forecast_lines(preview: Preview) -> Iterator[str]:
    """Describe a forecast: a summary, tables of brokers and directories, waits and notes."""
    found = preview.forecast
    if not found.changes:
        return
    yield ""
    yield from summary_lines(found)
    yield from _table((BROKER_HEADS, *broker_rows(found)), "brokers")
    yield from _table(_directories(found), "directories")
    for wait in found.waits:
        yield wait_line(wait, found.changes)
    for note in preview.notes:
        yield f"Note: {note}"


def summary_lines(found: Forecast) -> Iterator[str]:
    """Describe amount and time in a few lines."""
    unknown = f" and {found.sizes_unknown} of unknown size" if found.sizes_unknown else ""
    yield (
        f"{count_text(found.changes, 'partition')} in {count_text(found.steps, 'step')}: "
        f"{count_text(found.copies, 'replica')} to copy ({show_bytes(found.bytes)}{unknown}), "
        f"{count_text(found.leaders_moved, 'leader')} to move"
    )
    number, size = found.relocated
    if number:
        yield f"{count_text(number, 'replica')} to move to other directories ({show_bytes(size)})"
    yield f"Time: {time_words(found.time)}"


def time_words(time: TimeRange | None) -> str:
    """Describe a range of time."""
    if time is None:
        return "unknown: there is no throttle, and no past copies to go by"
    low = show_duration(time.low_s)
    basis = " and ".join(BASES[name] for name in time.basis)
    busiest = "" if time.busiest is None else f"; broker {time.busiest} is the busiest"
    by = f" (by {basis}{busiest})" if basis else ""
    if time.high_s is None:
        return f"at least {low}, without an upper bound{by}"
    return f"{show_range(time.low_s, time.high_s)}{by}"


def broker_rows(found: Forecast) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each broker, see ``BROKER_HEADS``."""
    for broker, share in sorted(found.brokers.items()):
        yield (
            str(broker),
            str(share.copies_in),
            show_bytes(share.bytes_in),
            str(share.copies_served),
            show_bytes(share.bytes_served),
            str(share.dropped),
            show_bytes(share.bytes_dropped),
            f"+{share.leaders_gained} -{share.leaders_lost}",
        )


def directory_rows(found: Forecast) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each log directory, the fullest first; see ``DIRECTORY_HEADS``."""
    for row in sorted(found.directories, key=_fullest_first):
        yield (
            f"{row.broker} {row.path}",
            show_bytes(row.bytes_in),
            show_bytes(row.bytes_dropped),
            "-" if row.total_bytes is None else show_bytes(row.total_bytes),
            *(
                "-"
                if amount is None or not row.total_bytes
                else f"{100 * amount / row.total_bytes:.1f}%"
                for amount in (row.used_bytes, row.peak_bytes, row.end_bytes)
            ),
        )


def _directories(found: Forecast) -> Iterator[tuple[str, ...]]:
    """Yield the table of directories with short paths."""
    yield DIRECTORY_HEADS
    for place, *cells in directory_rows(found):
        broker, _, path = place.partition(" ")
        short = path if len(path) <= PATH_MAX else f"...{path[3 - PATH_MAX :]}"
        yield (f"{broker} {short}", *cells)


def _fullest_first(row: DirectoryShare) -> tuple[float, int, str]:
    peak_share = (row.peak_bytes or 0) / row.total_bytes if row.total_bytes else 0.0
    return -peak_share, row.broker, row.path


def _table(rows: Iterable[tuple[str, ...]], noun: str) -> Iterator[str]:
    """Align columns to the right, the first one to the left."""
    rows = list(rows)
    if len(rows) == 1:
        return
    more = len(rows) - 1 - ROWS_MAX
    shown = rows[: ROWS_MAX + 1]
    widths = [max(len(row[n]) for row in shown) for n in range(len(shown[0]))]
    yield ""
    for row in shown:
        cells = (cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((row[0].ljust(widths[0]), *cells))
    if more > 0:
        yield f"and {more} more {noun}"
    if noun == "directories":
        yield ""


def wait_line(wait: Wait, changes: int) -> str:
    """Describe what will wait, and for what."""
    if wait.partitions:
        who = names_text(wait.partitions)
    elif wait.count:
        who = count_text(wait.count, "partition")
    else:
        who = "all" if changes > 1 else "it"
    return f"Will wait for {wait.by.value}: {who}: {wait.detail}"
