"""Tests of ``reassigner execute`` with an approval: the file for it, and its submission."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.core.requests.submissions import plan_hash
from tests.cli.builders import FakeCluster
from tests.cli.test_execute import Scene
from tests.core.builders import replicas, tp

PLAN = {tp(0): replicas(2, 3), tp(1): replicas(2, 3)}
THERE = {tp(0): replicas(1, 2), tp(1): replicas(1, 2)}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a scene with the plan in this test's directory."""
    return Scene(tmp_path)


def write_approved(scene: Scene) -> tuple[Path, str]:
    """Write the plan for approval; return the file and its hash."""
    out = scene.path.parent / "approved.json"
    result = scene.execute("--dry-run", "--out", str(out))
    assert result.exit_code == 0, result.output
    hash_of_plan = plan_hash(PLAN, THERE)
    assert hash_of_plan in result.output
    return out, hash_of_plan


def run(scene: Scene, path: Path, *options: str) -> Any:  # noqa: ANN401 - typer's result
    """Execute a file."""
    return scene.terminal.run("execute", str(path), *options)


def test_a_dry_run_writes_the_plan_with_the_present_replicas_and_a_hash(scene: Scene) -> None:
    """Nothing is submitted."""
    out, hash_of_plan = write_approved(scene)
    document = json.loads(out.read_text())
    assert document["approval"] == {"hash": hash_of_plan}
    assert [e["original_replicas"] for e in document["partitions"]] == [[1, 2], [1, 2]]
    assert [e["replicas"] for e in document["partitions"]] == [[2, 3], [2, 3]]
    assert scene.cluster.submitted == {}


def test_an_approved_plan_is_submitted_with_its_hash_and_approver(scene: Scene) -> None:
    """The daemon verifies the hash by the replicas that the entries name."""
    out, hash_of_plan = write_approved(scene)
    seen: list[Any] = []

    def accept(cluster: FakeCluster) -> None:
        seen.extend(cluster.submitted.values())
        cluster.take_up()

    scene.terminal.steps = [accept]
    result = run(scene, out, "--approved", hash_of_plan, "--approved-by", "bob")
    assert result.exit_code == 0, result.output
    (request,) = seen
    assert (request.entries, request.expected) == (PLAN, THERE)
    assert (request.options.approved, request.options.approved_by) == (hash_of_plan, "bob")


@pytest.mark.parametrize("change", ["argument", "file", "replicas", "original_replicas", "missing"])
def test_a_plan_that_is_not_the_approved_one_is_refused(scene: Scene, change: str) -> None:
    """The file, its entries and the hash have to agree."""
    out, hash_of_plan = write_approved(scene)
    document = json.loads(out.read_text())
    entry = document["partitions"][0]
    match change:
        case "argument":
            hash_of_plan = "0" * 64
        case "file":
            document["approval"]["hash"] = "0" * 64
        case "missing":
            del entry["original_replicas"]
        case _:
            entry[change] = [2, 4] if change == "replicas" else [2, 1]
    out.write_text(json.dumps(document))
    result = run(scene, out, "--approved", hash_of_plan)
    assert result.exit_code == 3
    assert scene.cluster.submitted == {}


def test_a_plan_whose_partitions_changed_is_refused_by_the_command(scene: Scene) -> None:
    """The daemon would refuse these entries, too."""
    out, hash_of_plan = write_approved(scene)
    scene.cluster.assign(tp(0), (2, 1))
    result = run(scene, out, "--approved", hash_of_plan)
    assert result.exit_code == 3
    assert "changed since the plan was made" in result.output
    assert scene.cluster.submitted == {}


def test_a_plan_with_entries_that_would_be_refused_is_not_written_for_approval(
    scene: Scene,
) -> None:
    """It would be refused after the approval."""
    scene.write({tp(0): (2, 9)})
    out = scene.path.parent / "approved.json"
    result = scene.execute("--dry-run", "--out", str(out))
    assert result.exit_code == 3
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--out", "x.json"), "--out needs --dry-run"),
        (("--approved-by", "bob"), "--approved-by needs --approved"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(
    scene: Scene, options: tuple[str, ...], why: str
) -> None:
    """An option that has no effect would be taken for one that has."""
    result = scene.execute(*options)
    assert result.exit_code == 1
    assert why in result.output
