"""The forms of the status page write the same znodes as the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller.core.model import RequestId, ZkVersion, Zxid
from controller.core.pacing.controls import Controls, Limits, Pause, Pauses, UnderMinIsr
from controller.core.requests.outcomes import RequestHistory, Summary
from controller.core.requests.submissions import Submission
from controller.errors import CancellationPendingError, InvalidInputError
from controller.setting_sources import load_settings
from controller.settings import Settings
from controller.web.access import author
from controller.web.steering import PageSteering
from controller.zk.operator_client import OperatorClient
from tests.cli.builders import FakeCluster
from tests.cli.families import FakeOperator

NAME = RequestId("request_0000000001")
WAITING = RequestId("request_0000000002")


class Page:
    """A status page's steering of a cluster, at a fixed time."""

    def __init__(self) -> None:
        """Begin with one accepted request and one that waits to be."""
        waiting = Submission(WAITING, {}, ZkVersion(0), Zxid(1), 0)
        history = RequestHistory(request=NAME, czxid=Zxid(1))
        self.cluster = FakeCluster(submitted={WAITING: waiting}, histories={NAME: history})
        self.connections = 0
        settings = load_settings({"zookeeper": "zk:2181"}, environ={})
        self.steering = PageSteering(settings, connect=self._connect, now_ms=lambda: 77)

    @contextmanager
    def _connect(self, settings: Settings) -> Iterator[OperatorClient]:
        assert settings.zookeeper == "zk:2181"
        self.connections += 1
        yield FakeOperator(self.cluster)

    @property
    def pauses(self) -> Pauses:
        """The pauses in ZooKeeper."""
        return self.cluster.controls.pauses

    @pauses.setter
    def pauses(self, pauses: Pauses) -> None:
        self.cluster.controls = Controls(pauses)

    def cancelled(self) -> tuple[frozenset[RequestId], str]:
        """Return the cancelled requests, and the author of the cancellation."""
        assert self.cluster.cancellation is not None
        return self.cluster.cancellation.requests, self.cluster.cancellation.requested_by


def test_request_is_paused_and_resumed() -> None:
    """With who and when; a pause that stands is not overwritten; others stay."""
    page = Page()
    page.pauses = Pauses(requests={RequestId("other"): Pause("lunch")})
    page.steering.pause(NAME, "alice")
    page.steering.pause(WAITING, "alice")
    assert page.pauses.requests[NAME] == Pause(by=author("alice"), since_ms=77)
    page.pauses = Pauses(requests={**page.pauses.requests, NAME: Pause("mine")})
    page.steering.pause(NAME, "alice")
    assert page.pauses.requests[NAME] == Pause("mine")
    page.steering.resume(NAME, "alice")
    assert page.pauses.requests.keys() == {"other", WAITING}
    assert page.connections == 4


def test_everything_is_paused_and_resumed() -> None:
    """Pauses of single requests stay as they are."""
    page = Page()
    page.steering.pause(None, "alice")
    page.steering.pause(NAME, "alice")
    assert page.pauses.everything == Pause(by=author("alice"), since_ms=77)
    page.steering.resume(None, "alice")
    assert page.pauses == Pauses(requests={NAME: Pause(by=author("alice"), since_ms=77)})


def test_brake_is_set_beside_other_limits() -> None:
    """As by ``limits --under-min-isr``."""
    page = Page()
    page.cluster.controls = Controls(limits=Limits(max_partitions_in_flight=7))
    page.steering.warn(None, "alice")
    wanted = Limits(max_partitions_in_flight=7, under_min_isr=UnderMinIsr.WARN)
    assert page.cluster.controls.limits == wanted
    page.steering.wait(None, "alice")
    assert page.cluster.controls.limits.under_min_isr is UnderMinIsr.WAIT


def test_request_is_cancelled_or_everything() -> None:
    """A later one follows when the earlier one has selected its partitions."""
    page = Page()
    page.steering.cancel(NAME, "alice")
    assert page.cancelled() == (frozenset({NAME}), author("alice"))
    page.steering.cancel(None, "bob")
    assert page.cancelled() == (frozenset(), f"{author('alice')}, {author('bob')}")
    with pytest.raises(CancellationPendingError):
        page.steering.cancel(NAME, "alice")


def test_request_that_has_ended_is_neither_paused_nor_cancelled() -> None:
    """As by the commands: a pause of it would stay for nothing. One that stands is removed."""
    page = Page()
    summary = Summary(request=NAME, kind="request", total=1, done=1)
    page.cluster.histories[NAME] = RequestHistory(request=NAME, czxid=Zxid(1), summary=summary)
    for turn in (page.steering.pause, page.steering.cancel):
        with pytest.raises(InvalidInputError, match=f"request {NAME} has ended"):
            turn(NAME, "alice")
    assert page.pauses == Pauses()
    assert page.cluster.cancellation is None
    page.pauses = Pauses(requests={NAME: Pause("mine")})
    page.steering.resume(NAME, "alice")
    assert page.pauses == Pauses()


def test_unknown_request_is_refused() -> None:
    """A pause of an unknown request or broker would surprise an operator later."""
    page = Page()
    for turn in (page.steering.pause, page.steering.cancel):
        with pytest.raises(InvalidInputError, match="request nonsense is not known"):
            turn(RequestId("nonsense"), "alice")
    assert page.pauses == Pauses()
    assert page.cluster.cancellation is None
