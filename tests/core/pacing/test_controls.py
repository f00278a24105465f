"""Tests of what operators turn: what cannot be decoded holds as it stood before."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller.core.bases import Lifetime
from controller.core.model import BrokerId, PartitionAssignment
from controller.core.pacing.controls import Controls, Drain, Drains, Limits, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.znodes.paths import LIMITS, PAUSES, THROTTLE
from tests.core.builders import Driver, replicas, tp

TURNED = Controls(
    Pauses(brokers={BrokerId(3): Pause("disk swap")}), Limits(max_partitions_in_flight=1), 7
)
GARBAGE: Mapping[str, str] = dict.fromkeys((PAUSES, LIMITS, THROTTLE), "not JSON")


def read(driver: Driver, controls: Controls) -> None:
    """Let controls be read."""
    driver.observe(ControlsRead(controls))


@pytest.mark.parametrize("path", GARBAGE)
def test_what_cannot_be_understood_holds_as_it_stood_before(path: str) -> None:
    """The others are taken as they are; so it is after the session was lost, too."""
    driver = Driver({tp(): (1, 2)})
    read(driver, TURNED)
    for _ in range(2):
        read(driver, Controls(unreadable={path: GARBAGE[path]}))
        held = driver.view.pacing_process.controls
        assert (held.pauses, held.limits, held.throttle) == (
            TURNED.pauses if path == PAUSES else Pauses(),
            TURNED.limits if path == LIMITS else Limits(),
            TURNED.throttle if path == THROTTLE else None,
        )
        assert held.unreadable == {path: GARBAGE[path]}
        driver.view.end(Lifetime.SESSION)
    read(driver, Controls())
    assert driver.view.pacing_process.controls == Controls()


def test_the_request_of_drains_has_the_reason_of_each() -> None:
    """Of all if they share one; never longer than a reason may be."""
    one, two = BrokerId(4), BrokerId(5)
    assert Drains({one: Drain("swap"), two: Drain("swap")}).options.reason == "swap"
    assert Drains({two: Drain("swap"), one: Drain()}).options.reason == "broker 5: swap"
    assert Drains().options.reason == ""
    long = Drains({one: Drain("x" * 1000), two: Drain("y" * 1000)}).options.reason
    assert len(long) == 1000


@pytest.mark.parametrize("path", GARBAGE)
def test_what_was_never_understood_is_taken_for_a_pause_of_everything(path: str) -> None:
    """An operator wanted a pause, or lower limits than the settings have."""
    driver = Driver({tp(): (1, 2)})
    driver.view.pacing_process.controls_known = False
    read(driver, Controls(unreadable={path: GARBAGE[path]}))
    driver.submit({tp(): (1, 3)})
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 2))
    assert list(driver.view.reassignments.by_partition) == [tp()]
    pause = driver.view.pacing_process.controls.pauses.everything
    assert pause is not None
    assert pause.reason == f"{path} cannot be decoded: {GARBAGE[path]}"
    read(driver, Controls())
    driver.run(tp())
    assert driver.view.reassignments.by_partition == {}
