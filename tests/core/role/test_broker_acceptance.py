"""The role is given back where a leader does not reach the endpoint, and only there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.calls.broker_requests import AlterPartition
from controller.core.calls.records import BrokerRequestReceived
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.core_settings import EngineName, Options
from controller.core.effects import ResignController
from controller.core.model import BrokerEpoch, BrokerId, Instant
from controller.core.pacing.records import WallClockRead
from controller.core.role.eligibility import (
    CUT_OFF_S,
    UNMEASURED_S,
    WHOLE_S,
    native_refusals,
    refusals,
)
from controller.core.role.records import (
    BrokersRead,
    ControllerClaimed,
    Deposed,
    EndpointUnreachedRecord,
)
from controller.core.role.tenure_reset import REJECTED_RETRY_S
from tests.core.builders import EPOCH, Driver, tp
from tests.core.disks.reports import reports
from tests.core.leadership.test_isr_changes import with_two_listeners
from tests.core.requests.test_submitted import submission, submit

LEADER, ADDED = BrokerId(1), BrokerId(4)
GB = 10**9


def copying(engine: EngineName = EngineName.NATIVE, *, modern: bool = True) -> Driver:
    """Return a tenure with an endpoint, in which broker 4 copies what broker 1 leads."""
    own = Endpoint("BROKERS", "controller", 9999, "PLAINTEXT")
    entry = LiveBroker(BrokerId(1_000_000), BrokerEpoch(-1), (own,))
    driver = Driver({tp(): (1, 2, 3)}, options=Options(engine=engine))
    known = {BrokerId(n): with_two_listeners(BrokerId(n)) for n in range(7)}
    driver.observe(BrokersRead(known))
    driver.view.options = replace(driver.view.options, endpoint=entry)
    driver.observe(
        BrokersRead({n: replace(broker, has_features=modern) for n, broker in known.items()})
    )
    submit(driver, submission("request_0000000000", {tp(): (1, 2, 4)}))
    return driver


def report(driver: Driver, copied: int, whole: int = GB) -> None:
    """Report how much the leader and the added replica hold."""
    held = {tp(): {int(LEADER): whole, int(ADDED): copied}}
    driver.observe(*reports(driver.view, held, driver.now))


def wait(driver: Driver, seconds: float) -> list[str]:
    """Let time pass; return why the role is given back, if it is."""
    driver.now = Instant(driver.now + seconds)
    driver.observe(WallClockRead(driver.now))
    return [e.reason for e in driver.sent if isinstance(e, ResignController)]


def test_role_is_given_back_if_a_leader_does_not_request_a_whole_copy() -> None:
    """The reason names the broker and the address that it should have reached."""
    driver = copying()
    report(driver, GB)
    assert not wait(driver, WHOLE_S - 1)
    (why,) = wait(driver, 1)
    assert why.startswith("broker 1 sent no request to the controller endpoint at controller:9999")
    written = [r for change in driver.changes for r in change.records]
    assert EndpointUnreachedRecord(frozenset({LEADER}), why) in written


@pytest.mark.parametrize("copied", [0, GB - 1])
def test_a_copy_that_takes_long_shows_nothing(copied: int) -> None:
    """Its leader has nothing to ask for."""
    driver = copying()
    report(driver, copied)
    assert not wait(driver, UNMEASURED_S + 1)


def test_bytes_that_producers_wrote_between_two_reports_do_not_count() -> None:
    """The replica is in sync, though it never reports as much as the leader."""
    driver = copying()
    report(driver, 0)
    driver.now = Instant(driver.now + 10)
    report(driver, GB, 2 * GB)
    driver.now = Instant(driver.now + 10)
    report(driver, 3 * GB - GB // 20, 3 * GB)
    assert wait(driver, WHOLE_S)


def send(driver: Driver) -> None:
    """Let the leader ask for something."""
    epoch = driver.view.cluster.brokers[LEADER].epoch
    driver.observe(
        BrokerRequestReceived(1, AlterPartition(LEADER, epoch, 1, ()), driver.permission)
    )


def test_a_leader_that_sends_requests_reaches_the_endpoint() -> None:
    """Whatever it asks for, and however it is answered."""
    driver = copying()
    report(driver, GB)
    driver.now = Instant(driver.now + 1)
    send(driver)
    assert not wait(driver, UNMEASURED_S + 1)


def test_a_leader_that_is_cut_off_after_its_request_is_noticed_later() -> None:
    """The connection of its request says nothing about the present one."""
    driver = copying()
    send(driver)
    driver.now = Instant(driver.now + 1)
    report(driver, GB)
    assert not wait(driver, CUT_OFF_S - 1)
    assert wait(driver, 1)


def test_a_leader_that_sent_a_request_is_not_judged_without_sizes() -> None:
    """Its copy may take as long as it likes."""
    driver = copying()
    send(driver)
    assert not wait(driver, UNMEASURED_S + 1)


def test_leaders_that_write_their_isr_themselves_send_no_requests() -> None:
    """Below inter-broker protocol 2.7."""
    driver = copying(modern=False)
    report(driver, GB)
    assert not wait(driver, UNMEASURED_S + 1)


def test_where_sizes_are_not_reported_silence_counts_after_a_long_time() -> None:
    """No evidence of a whole copy: the role is not kept for ever without an ISR change."""
    driver = copying()
    assert not wait(driver, UNMEASURED_S - 1)
    assert wait(driver, 1)


def test_native_claims_the_role_again_after_a_back_off() -> None:
    """Until then the reason is shown."""
    driver = copying()
    report(driver, GB)
    (why,) = wait(driver, WHOLE_S)
    driver.observe(Deposed("resigned"))
    assert refusals(driver.view) == (why,)
    assert driver.view.role.retry_claim_at == driver.now + REJECTED_RETRY_S
    driver.observe(ControllerClaimed(EPOCH))
    assert refusals(driver.view) == ()


def test_auto_delegates_from_then_on() -> None:
    """As long as the process lasts: the next claim would freeze the ISRs again."""
    driver = copying(EngineName.AUTO)
    report(driver, GB)
    (why,) = wait(driver, WHOLE_S)
    driver.observe(Deposed("resigned"))
    driver.observe(*driver.own_records())
    assert driver.view.role.retry_claim_at < driver.now + REJECTED_RETRY_S
    assert native_refusals(driver.view) == (why,)
    assert driver.view.role.engine is EngineName.DELEGATED
    assert refusals(driver.view) == ()
