"""Tests of ``controller.telemetry.page``."""

from __future__ import annotations

from html.parser import HTMLParser

from controller.core.model import Blocked, BlockedBy, Instant, Refusal, RefusalReason
from controller.core.phases import Syncing
from controller.core.view import ClusterView
from controller.telemetry.counts import work_counts
from controller.telemetry.page import render_page
from controller.telemetry.status import Clocks, status_of
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, START, a_view, partition_state

VOID = {"meta", "progress", "br"}


class Balanced(HTMLParser):
    """Notes tags that are not closed in order."""

    def __init__(self) -> None:
        """Begin outside of everything."""
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an opened tag."""
        del attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note a closed tag."""
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)


def page(view: ClusterView) -> str:
    """Return the page of a view."""
    clocks = Clocks(Instant(1000.0), START)
    work = work_counts(view, clocks.now, 300.0)
    return render_page(status_of(view, clocks, work, engine="native"))


def a_busy_view() -> ClusterView:
    """Return a view with a partition in flight and a refusal."""
    built = a_view(1, 2, 3).with_partition(
        tp(), (1, 2, 3), adding=(3,), state=partition_state(1, (1, 2))
    )
    view = built.with_reassignment(tp(), (2, 3), Syncing(), step=1, since=0.0).view
    view.reassignments[tp()].blocked = Blocked(BlockedBy.BROKER_DEAD, "<b>broker 3</b> is dead")
    refusal = Refusal(REQUEST, "x", RefusalReason.MALFORMED, "no")
    view.requests[REQUEST].refused.append(refusal)
    return view


def test_the_page_is_well_formed() -> None:
    """Every tag is closed, with much or nothing to show."""
    for html in (render_page(None), page(a_view(1, epoch=None).view), page(a_busy_view())):
        parser = Balanced()
        parser.feed(html)
        assert (parser.open, parser.wrong) == ([], [])


def test_the_page_shows_partitions_and_requests() -> None:
    """What is in flight, where to, and what it waits for."""
    html = page(a_busy_view())
    for text in (
        "<td>broker_dead</td><td>1</td><td>1</td>",
        "t-0",
        "A2-syncing",
        "1, 2, 3",
        str(REQUEST),
        "stalled",
        "epoch 9",
    ):
        assert text in html


def test_what_comes_from_the_cluster_is_escaped() -> None:
    """Names and reasons may hold anything."""
    html = page(a_busy_view())
    assert "<b>broker" not in html
    assert "&lt;b&gt;broker 3&lt;/b&gt; is dead" in html


def test_the_page_needs_no_other_file() -> None:
    """It works where nothing but the daemon can be reached."""
    html = page(a_busy_view())
    assert "src=" not in html
    assert "http://" not in html
    assert "<script" not in html
