"""The gate between the loop thread and the IO thread."""

from __future__ import annotations

import threading

from controller.brokers.broker_connections import Gate


def test_open_gate_lets_pass() -> None:
    """A new gate is open."""
    gate = Gate()
    with gate.passing() as is_open:
        assert is_open
    assert gate.is_open


def test_closed_gate_stays_closed() -> None:
    """Closing twice is no error, and nothing opens it again."""
    gate = Gate()
    gate.close()
    gate.close()
    with gate.passing() as is_open:
        assert not is_open
    assert not gate.is_open


def test_close_waits_for_who_is_inside() -> None:
    """When ``close`` returns, what was being done inside is done."""
    gate, order = Gate(), list[str]()
    inside, resume = threading.Event(), threading.Event()

    def pass_through() -> None:
        with gate.passing():
            inside.set()
            resume.wait(10)
            order.append("done inside")

    passing = threading.Thread(target=pass_through)
    passing.start()
    inside.wait(10)

    def close() -> None:
        gate.close()
        order.append("closed")

    closing = threading.Thread(target=close)
    closing.start()
    resume.set()
    closing.join(10)
    passing.join(10)
    assert order == ["done inside", "closed"]
