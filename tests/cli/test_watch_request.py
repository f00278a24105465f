"""Tests of ``reassigner watch REQUEST``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.core.model import OutcomeKind, RequestId
from tests.cli.builders import FakeCluster, a_partition, a_request, a_status
from tests.cli.test_execute import NAME, OTHER, Scene, accept, finish
from tests.core.builders import tp


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a scene with an accepted request that the daemon's status shows."""
    found = Scene(tmp_path)
    found.terminal.steps = [accept]
    assert found.execute().exit_code == 0
    own = {**a_request(done=1, in_flight=1), "id": NAME}
    other = {**a_request(in_flight=1), "id": OTHER}
    partitions = [a_partition(request=NAME), a_partition(topic="other", request=OTHER)]
    found.cluster.statuses = [a_status(requests=[own, other], in_flight=partitions)]
    return found


def test_a_request_is_followed_to_its_end(scene: Scene) -> None:
    """Exit code 0; other requests are not mentioned."""
    scene.terminal.steps = [finish]
    result = scene.terminal.run("watch", NAME)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{NAME}: in flight, 1 of 2 done")
    assert any(line.startswith("t-0: copying") for line in lines)
    assert OTHER not in result.stdout
    assert not any(line.startswith("other-0") for line in lines)
    assert lines[-1] == f"{NAME} has ended: 2 of 2 done"


def test_a_request_that_has_ended_is_reported_at_once(scene: Scene) -> None:
    """Without waiting, and without a daemon."""
    finish(scene.cluster)
    scene.cluster.leader = None
    result = scene.terminal.run("watch", NAME)
    assert (result.exit_code, result.stdout) == (
        0,
        f"{NAME} has ended: 2 of 2 done\n",
    )


def test_a_cancelled_request_ends_with_four(scene: Scene) -> None:
    """With what became of each partition."""

    def cancel(cluster: FakeCluster) -> None:
        cluster.call_off(tp(0), OutcomeKind.ROLLED_BACK)
        cluster.call_off(tp(1), OutcomeKind.CANCELLED, "by cancel-1")
        cluster.conclude(RequestId(NAME))

    scene.terminal.steps = [cancel]
    result = scene.terminal.run("watch", NAME)
    assert result.exit_code == 4
    assert "t-0 was rolled back" in result.stdout


def test_an_interrupt_ends_with_two(scene: Scene) -> None:
    """The request continues."""
    scene.terminal.steps = [KeyboardInterrupt()]
    assert scene.terminal.run("watch", NAME).exit_code == 2
    assert set(scene.cluster.specs) == {tp(0), tp(1)}


def test_it_continues_while_no_daemon_leads(scene: Scene) -> None:
    """Another daemon takes over."""
    scene.cluster.leader = None
    scene.terminal.steps = [lambda _: None, finish]
    result = scene.terminal.run("watch", NAME)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "no leading reassigner answers"


def test_for_programs_every_line_is_a_document(scene: Scene) -> None:
    """The exit code says how it ended."""
    scene.terminal.steps = [finish]
    result = scene.terminal.run("watch", NAME, "--json")
    (document,) = map(json.loads, result.stdout.splitlines())
    assert [r["id"] for r in document["requests"]] == [NAME]


def test_an_unknown_request_is_not_waited_for(scene: Scene) -> None:
    """And a daemon's address alone does not say how a request ended."""
    unknown = scene.terminal.run("watch", "request_0000000099")
    assert (unknown.exit_code, "is not known" in unknown.stderr) == (1, True)
    both = scene.terminal.run("watch", NAME, "--http", "10.0.0.1:8095")
    assert (both.exit_code, "--http cannot be used with REQUEST" in both.stderr) == (1, True)
