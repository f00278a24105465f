"""Page, ``/status``, ``status``, ``explain``, ``list`` and metrics show the same at one moment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from controller.core.core_settings import EngineName
from controller.core.model import BrokerId, ZkVersion, Zxid
from controller.core.pacing.controls import Controls
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    LEADER_RATE,
    EntityConfig,
    broker_entity,
)
from controller.core.requests.outcomes import RequestHistory
from controller.web.http_messages import HttpRequest
from controller.web.routes import Health, Routes
from tests.cli.builders import FakeCluster, Terminal
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, partition_state
from tests.telemetry.playing import Played

MB = 1_000_000
THROTTLE = 5 * MB


class Screens:
    """Everything that shows the figures of a daemon."""

    def __init__(self, played: Played) -> None:
        """Show what is played."""
        self._played = played
        health = Health(clock=played.clock)
        health.last_cycle = played.clock.now
        self._routes = Routes(
            metrics=played.metrics,
            publisher=played.publisher,
            health=health,
            wall=played.clock.wall,
        )
        history = RequestHistory(request=REQUEST, czxid=Zxid(1))
        self._cluster = FakeCluster(
            brokers=frozenset(range(1, 9)), histories={REQUEST: history}, statuses=[self.status]
        )
        self._cluster.assign(tp(1), (1, 2, 5, 3), adding=(5,), removing=(3,))
        self._cluster.states[tp(1)] = partition_state(1, (1, 2, 3))
        self._terminal = Terminal(self._cluster)

    def get(self, path: str) -> str:
        """Return what is served at a path; the loop answers questions meanwhile."""
        with ThreadPoolExecutor(1) as pool:
            response = pool.submit(self._routes.answer, HttpRequest(path))
            while wait([response], 0.01).not_done:
                self._played.publisher.tend(self._played.view)
            return response.result().body.decode()

    @property
    def status(self) -> dict[str, Any]:
        """Return ``/status``."""
        found: dict[str, Any] = json.loads(self.get("/status"))
        return found

    def run(self, *words: str) -> str:
        """Return the lines of a command."""
        self._cluster.explanations[tp(1)] = json.loads(self.get("/explain?partition=t-1"))
        result = self._terminal.run(*words)
        assert result.exit_code in {0, 2}, result.output
        return result.stdout

    def pass_time(self, seconds: float) -> None:
        """Let time pass without a report of any broker."""
        self._played.go(seconds)
        self._cluster.statuses = [self.status]

    def metric(self, name: str, **labels: str) -> float | None:
        """Return a metric."""
        return self._played.metrics.registry.get_sample_value(f"reassigner_{name}", labels)


@pytest.fixture
def screens(tmp_path: Path, engine: EngineName) -> Iterator[Screens]:
    """Yield the screens of a throttled request with two copies of different length."""
    played = Played(tmp_path, engine)
    view = played.view
    view.pacing_process.controls = Controls(throttle=THROTTLE)
    for broker in (1, 4, 5):
        rates = dict.fromkeys((LEADER_RATE, FOLLOWER_RATE), str(THROTTLE))
        config = EntityConfig(rates, ZkVersion(0))
        view.pacing_leadership.entity_configs[broker_entity(BrokerId(broker))] = config
    for number, size in enumerate((40 * MB, 300 * MB)):
        played.add(number, size, to=4 + number)
        played.begin(number)
    played.go(30)
    played.read(0, 30 * MB)
    played.read(1, 60 * MB)
    played.go(0)
    yield Screens(played)
    played.journal.close()


def words_of(html: str) -> str:
    """Return the words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_all_screens_show_the_same_figures(screens: Screens) -> None:
    """Rates of copy, broker, request and all; their ends; bytes; and the throttle in force."""
    status, page = screens.status, screens.get("/?still=1")
    texts = {
        "page": words_of(page),
        "status": screens.run("status"),
        "explain": screens.run("explain", "t-1"),
        "list": screens.run("list"),
    }
    (request,) = status["requests"]
    second = next(p for p in status["in_flight"] if p["partition"] == 1)
    (copy,) = second["copies"]
    # Rates: 1 and 2 MB/s of two copies from broker 1 are 3 MB/s of the request, and in all.
    assert (copy["bytes_per_s"], second["bytes_per_s"]) == (2 * MB, 2 * MB)
    assert request["bytes_per_s"] == status["total"]["bytes_per_s"] == 3 * MB
    loads = {load["broker"]: load for load in status["broker_loads"]}
    assert (loads[5]["in_bytes_per_s"], loads[1]["out_bytes_per_s"]) == (2 * MB, 3 * MB)
    assert screens.metric("request_bytes_per_second", slot="0") == 3 * MB
    assert screens.metric("bytes_per_second") == 3 * MB
    assert screens.metric("broker_in_bytes_per_second", broker="5") == 2 * MB
    assert screens.metric("broker_out_bytes_per_second", broker="1") == 3 * MB
    assert screens.metric("broker_throttle_bytes_per_second", broker="5") == THROTTLE
    assert screens.metric("request_progress_ratio", slot="0") == request["share"]
    # Ends: the request takes as long as its longest copy.
    assert copy["eta_s"] == [96, 200]
    assert request["eta_s"] == status["total"]["eta_s"] == [96, 201]
    for bound, seconds in (("low", 96), ("high", 201)):
        assert screens.metric("request_eta_seconds", slot="0", bound=bound) == seconds
        assert screens.metric("eta_seconds", bound=bound) == seconds
    expected = {
        "page": (
            "Throughput 3 MB/s",
            "Time left 96 s to 3 min",
            "90 MB of 340 MB 3 MB/s 96 s to 3 min",
            "1 → 5 20 % 60 MB of 300 MB 2 MB/s 96 s to 3 min",
            "1 2 MB/s 240 MB 0 0 B/s 0 B",
            "throttle 5 MB/s per broker, for requests without their own in force now: 5 MB/s on b",
        ),
        "status": (
            "90 MB of 340 MB copied, 3 MB/s, 96 s to 3 min left",
            "broker 1 to 5: 60 MB of 300 MB copied, 2 MB/s, 96 s to 3 min left",
            "broker 5: in 1 (240 MB left, 2 MB/s), out 0",
            "throttle in force: 5 MB/s on broker 1,4,5",
            "0 waiting; 3 MB/s, 96 s to 3 min left",
        ),
        "explain": (
            "60 MB copied, 240 MB left, in all steps, 2 MB/s, 96 s to 3 min left",
            "broker 1 to 5: 60 MB of 300 MB copied, 2 MB/s, 96 s to 3 min left",
            "5 MB/s per broker, in force",
        ),
        "list": ("90 MB of 340 MB copied, 3 MB/s, 96 s to 3 min left",),
    }
    for name, found in texts.items():
        for words in expected[name]:
            assert words in found, (name, found)
    assert f'value="{request["share"]:.4f}"' in page
    assert f'value="{copy["share"]:.4f}"' in page


def test_unknown_is_shown_as_unknown_and_never_as_zero(screens: Screens) -> None:
    """Everywhere, with the reason why there is no estimate."""
    screens.pass_time(31)
    page, text = words_of(screens.get("/?still=1")), screens.run("status")
    assert "Throughput unknown" in page
    assert "no estimate: its rate is not measured yet" in page
    assert "rate unknown, no estimate: its rate is not measured yet" in text
    assert screens.metric("bytes_per_second") is None
    assert screens.metric("request_bytes_per_second", slot="0") is None
    assert screens.metric("broker_in_bytes_per_second", broker="5") is None


def test_rates_of_copies_brokers_requests_and_all_add_up_while_copies_come_and_go(
    tmp_path: Path, engine: EngineName
) -> None:
    """At each instant, on each screen: of measured copies, young ones, and after some ended."""
    played = Played(tmp_path, engine)
    played.go(0)
    screens = Screens(played)
    for number in range(6):
        played.add(number, 100 * MB, to=4 + number % 2)
    held: dict[int, int] = {}
    begun, ended = {0: 0, 12: 1, 21: 2, 30: 3, 42: 4, 51: 5}, {24: 0, 45: 1}
    for second in range(0, 60, 3):
        if second in begun:
            played.begin(begun[second])
            held[begun[second]] = 0
        if second in ended:
            played.end(ended[second])
            del held[ended[second]]
        played.go(3)
        for number in held if second % 6 == 0 else ():
            held[number] += (3 + number) * MB
            played.read(number, held[number])
        played.go(0)
        _add_up(screens)
    assert any(p["copies"] for p in screens.status["in_flight"])
    played.journal.close()


def _add_up(screens: Screens) -> None:
    """Check the sums of one moment; what is unknown counts as nothing."""
    status = screens.status
    copies = [copy for p in status["in_flight"] for copy in p["copies"]]
    known = [copy["bytes_per_s"] for copy in copies if copy["bytes_per_s"] is not None]
    total = status["total"]["bytes_per_s"]
    assert total == (sum(known) if known or not copies else None)
    for loads, key in (
        (status["broker_loads"], "in_bytes_per_s"),
        (status["broker_loads"], "out_bytes_per_s"),
        (status["requests"], "bytes_per_s"),
        (status["in_flight"], "bytes_per_s"),
    ):
        assert sum(load[key] or 0 for load in loads) == (total or 0), key
    assert screens.metric("bytes_per_second") == total
    for load in status["broker_loads"]:
        received = sum(
            copy["bytes_per_s"] or 0 for copy in copies if copy["broker"] == load["broker"]
        )
        assert (load["in_bytes_per_s"] or 0) == received
        measured = screens.metric("broker_in_bytes_per_second", broker=str(load["broker"]))
        assert measured == load["in_bytes_per_s"]
