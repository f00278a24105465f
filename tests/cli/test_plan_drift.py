"""Plans that say what they were made from: ``execute`` refuses them late, ``rebase`` fits them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.builders import FakeCluster, Terminal
from tests.core.builders import tp

REFUSED = 3
LEFT_OUT = 2


def entry(partition: int, original: list[int] | None, target: list[int]) -> dict[str, Any]:
    """Return an entry of a plan about the topic t."""
    found: dict[str, Any] = {"topic": "t", "partition": partition, "replicas": target}
    return found if original is None else found | {"original_replicas": original}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a plan: made when both partitions were on 1 and 2."""
    plan = tmp_path / "wave-0001.json"
    entries = [entry(n, [1, 2], [3, 2]) for n in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    return plan


def a_terminal(first: tuple[int, ...], second: tuple[int, ...]) -> Terminal:
    """Return a terminal of a cluster with both partitions as they are now."""
    return Terminal(FakeCluster().assign(tp(0), first).assign(tp(1), second))


def test_a_plan_of_this_cluster_is_accepted(path: Path) -> None:
    """Unchanged partitions and such as are there already are no obstacle."""
    assert a_terminal((1, 2), (3, 2)).run("execute", str(path), "--dry-run").exit_code == 0


def test_a_plan_of_another_time_is_refused_with_the_partitions(path: Path) -> None:
    """Nothing is written when a partition has changed since."""
    terminal = a_terminal((1, 2), (4, 2))
    result = terminal.run("execute", str(path))
    assert result.exit_code == REFUSED
    assert "1 of 2 partitions changed since the plan was made" in result.stderr
    assert "t-1: it has changed, and the entry cannot be kept" in result.stderr
    assert not terminal.cluster.submitted


def test_a_plan_that_says_nothing_of_its_time_is_not_held_against_the_cluster(path: Path) -> None:
    """A plan of Kafka's own tool asks for its target whatever is there."""
    path.write_text(json.dumps({"version": 1, "partitions": [entry(0, None, [3, 2])]}))
    assert a_terminal((4, 2), (1, 2)).run("execute", str(path), "--dry-run").exit_code == 0


def test_rebase_writes_what_can_still_be_requested(path: Path, tmp_path: Path) -> None:
    """One where another replica moved is kept with that; one that left broker 1 is left out."""
    out = tmp_path / "now.json"
    result = a_terminal((1, 5), (4, 2)).run("pipeline", "rebase", str(path), "--out", str(out))
    assert result.exit_code == LEFT_OUT
    assert json.loads(out.read_text())["partitions"] == [entry(0, None, [3, 5])]
    assert "t-1: it has changed, and the entry cannot be kept" in result.stdout
    assert "1 rebased, 1 conflicting" in result.stdout


def test_rebase_of_what_is_done_requests_nothing(path: Path, tmp_path: Path) -> None:
    """What has the wanted replicas is not asked for again; exit code 0."""
    out = tmp_path / "now.json"
    result = a_terminal((3, 2), (3, 2)).run(
        "pipeline", "rebase", str(path), "--out", str(out), "--json"
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout)["counts"]["done"] == 2
    assert json.loads(out.read_text())["partitions"] == []


@pytest.mark.parametrize("verb", [("execute",), ("pipeline", "rebase")])
def test_a_request_planned_for_another_cluster_is_refused(
    path: Path, verb: tuple[str, ...]
) -> None:
    """Both ids are named, and nothing is written, even where the partitions would fit."""
    path.write_text(json.dumps(json.loads(path.read_text()) | {"cluster_id": "another"}))
    terminal = a_terminal((1, 2), (1, 2))
    out = () if verb == ("execute",) else ("--out", str(path.with_name("now.json")))
    result = terminal.run(*verb, str(path), *out)
    assert result.exit_code == 1
    assert "wave-0001.json was planned for the cluster another, this cluster is the-cluster" in (
        result.stderr
    )
    assert not terminal.cluster.submitted
    assert not path.with_name("now.json").exists()


def test_a_request_planned_for_this_cluster_is_accepted(path: Path) -> None:
    """The id in the file is the one the cluster has."""
    path.write_text(json.dumps(json.loads(path.read_text()) | {"cluster_id": "the-cluster"}))
    assert a_terminal((1, 2), (1, 2)).run("execute", str(path), "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        ({"snapshot": {"cluster_id": "another"}}, 1),
        ({"snapshot": {"cluster_id": "the-cluster"}}, 0),
        ({"snapshot": {"cluster_id": ""}}, 0),
        ([], 0),
    ],
)
def test_a_stock_file_is_of_the_cluster_that_the_summary_beside_it_names(
    tmp_path: Path, summary: object, code: int
) -> None:
    """A plan of the pipeline without a cluster names none; another program's file is no summary."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [entry(0, None, [3, 2])]}))
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    result = a_terminal((1, 2), (1, 2)).run("execute", str(plan), "--dry-run")
    assert result.exit_code == code
