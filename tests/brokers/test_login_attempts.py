"""The pace of logins to brokers after one was refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from tenacity import wait_exponential

from controller.brokers.connection_settings import (
    FIRST_S,
    MOST_S,
    PROVEN_S,
    GSSError,
    LoginAttempts,
)

HOUR_S = 3600


class Rig:
    """Attempts with a clock that the test turns."""

    def __init__(self) -> None:
        self.now = 1000.0
        pauses = wait_exponential(multiplier=FIRST_S, max=MOST_S)
        self.attempts = LoginAttempts(lambda: self.now, pauses)

    def log_in(self, where: str, password: str = "p", *, accepted: bool) -> bool:  # noqa: S107
        """Return whether a login was attempted."""
        try:
            if not self.attempts.begin(where, password):
                return False
        except ConnectionError:
            return False
        with suppress(SaslAuthenticationFailedError), self.attempts.verdict(where, password):
            if not accepted:
                raise SaslAuthenticationFailedError
        return True


def test_a_wrong_password_is_tried_a_few_times_an_hour_by_all_connections() -> None:
    """Twenty-five connections that retry four times a second are one client to the directory."""
    rig = Rig()
    tried = 0
    for _ in range(HOUR_S * 4):
        rig.now += 0.25
        tried += sum(rig.log_in(f"b{n}:9092", accepted=False) for n in range(25))
    assert tried <= 6 + HOUR_S / MOST_S + 1


def test_a_password_that_became_wrong_is_tried_twice_a_minute_at_most() -> None:
    """Every broker has accepted it before."""
    rig = Rig()
    for n in range(10):
        assert rig.log_in(f"b{n}", accepted=True)
    tried = 0
    for _ in range(HOUR_S):
        rig.now += 1
        tried += sum(rig.log_in(f"b{n}", accepted=False) for n in range(10))
    assert tried <= 3 + HOUR_S / PROVEN_S


def test_one_broker_that_refuses_does_not_keep_others_waiting_for_long() -> None:
    """Its own pauses grow; a broker that bounces is reached within half a minute."""
    rig = Rig()
    assert rig.log_in("good", accepted=True)
    for _ in range(20):
        rig.now += MOST_S
        rig.log_in("bad", accepted=False)
    assert not rig.log_in("good", accepted=True)
    rig.now += PROVEN_S
    assert rig.log_in("good", accepted=True)
    assert not rig.log_in("bad", accepted=False)


def test_another_password_is_tried_at_once() -> None:
    """The file was corrected."""
    rig = Rig()
    assert rig.log_in("a", "wrong", accepted=False)
    assert not rig.log_in("a", "wrong", accepted=False)
    assert rig.log_in("a", "right", accepted=True)


def test_one_connection_tries_a_password_that_nothing_vouches_for() -> None:
    """Others ask again; when it is accepted, all pass."""
    attempts = LoginAttempts(lambda: 1000.0)
    assert attempts.begin("a", "p")
    assert not attempts.begin("b", "p")
    with attempts.verdict("a", "p"):
        pass
    assert attempts.begin("b", "p")
    assert attempts.begin("c", "p")


def test_a_lost_connection_is_no_verdict() -> None:
    """The next one tries."""
    attempts = LoginAttempts(lambda: 1000.0)
    assert attempts.begin("a", "p")
    with pytest.raises(OSError, match="gone"), attempts.verdict("a", "p"):
        raise OSError("gone")
    assert attempts.begin("b", "p")


def test_an_end_of_the_connection_counts_as_a_refusal_until_the_password_is_trusted() -> None:
    """It can overtake the broker's answer; with a trusted password, brokers just bounce."""
    rig = Rig()
    for is_trusted in (False, True):
        assert rig.attempts.begin("a", "p")
        with pytest.raises(KafkaConnectionError), rig.attempts.verdict("a", "p"):
            raise KafkaConnectionError("socket disconnected")
        if not is_trusted:
            assert not rig.log_in("b", accepted=True)
            rig.now += FIRST_S
            assert rig.log_in("b", accepted=True)
            rig.now += FIRST_S
    assert rig.log_in("b", accepted=True)


def test_a_key_table_without_a_ticket_counts_as_a_refusal() -> None:
    """Each attempt asks the key distribution centre, which may lock the account."""
    rig = Rig()
    for _ in range(2):
        assert rig.attempts.begin("a", "table")
        with pytest.raises(GSSError), rig.attempts.verdict("a", "table"):
            raise GSSError(0, 0)
        with pytest.raises(ConnectionError, match="in a row"):
            rig.attempts.begin("b", "table")
        rig.now += 10
    assert rig.attempts.begin("b", "another table")


def test_the_message_says_when_it_is_tried_again() -> None:
    """So that an operator knows that nothing hangs."""
    rig = Rig()
    rig.log_in("a", accepted=False)
    with pytest.raises(ConnectionError, match=f"refused 1 times .*a: .* in {FIRST_S:.0f} s"):
        rig.attempts.check("a", "p")
