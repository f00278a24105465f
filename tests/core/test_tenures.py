"""When the role is given back."""

from __future__ import annotations

from controller.core.effects import ClaimController, ResignController, SetTimer
from controller.core.events import Deposed, Orphan, OrphansRead, TimerFired
from controller.core.model import BrokerId, Instant, Zxid
from controller.core.options import Options
from controller.core.requests.topic_configs import CONFIG_TIMER
from controller.core.role.tenures import LINGER_TIMER
from tests.core.builders import Driver, tp


def run_timers(driver: Driver) -> None:
    """Let every timer fire that has to do with the tenure, each name once per setting."""
    seen = 0
    while True:
        timers = {
            e.name: e.at
            for e in driver.sent[seen:]
            if isinstance(e, SetTimer) and e.name != CONFIG_TIMER
        }
        seen = len(driver.sent)
        if not timers:
            return
        for name, at in sorted(timers.items(), key=lambda timer: timer[1]):
            driver.now = Instant(max(driver.now, at))
            driver.observe(TimerFired(name))


def test_the_role_is_given_back_when_the_last_work_was_an_election() -> None:
    """Elections of preferred leaders outlast the plan; when the last is held, idleness begins."""
    options = Options(tenure_linger_s=1.0, preferred_elections_per_second=1)
    driver = Driver({tp(n): (1, 2) for n in range(3)}, options=options)
    driver.submit({tp(n): (2, 1) for n in range(3)})
    run_timers(driver)
    assert [driver.view.states[tp(n)].leader for n in range(3)] == [2, 2, 2]
    assert any(isinstance(e, SetTimer) and e.name == LINGER_TIMER for e in driver.sent)
    assert any(isinstance(e, ResignController) for e in driver.sent)


def test_orphans_that_outlast_a_tenure_are_tried_again_though_nothing_happens() -> None:
    """A quiet cluster wakes nobody: the time itself has to be asked for."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure_linger_s=0.0))
    orphan = Orphan(BrokerId(3), tp(), Zxid(9), "not confirmed")
    driver.observe(OrphansRead(frozenset({orphan})))
    driver.observe(Deposed("another one"), *driver.own_records())
    driver.observe(OrphansRead(frozenset({orphan})))
    run_timers(driver)
    assert isinstance(driver.sent[-1], ClaimController)
