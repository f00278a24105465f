"""
Plans on a Spark cluster: a standalone master and two workers, of which executors are killed.

The plan of a cluster that loses executors is the same as any other, byte for byte.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from integration.rigs.daemon_process import run_reassigner
from integration.rigs.processes import dying_with_parent
from integration.rigs.reserved_ports import LOCALHOST

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark") is None, reason="the extra `pipeline` is not installed"
    ),
]
if importlib.util.find_spec("pyspark") is not None:
    from integration.rigs.standalone_spark import StandaloneSpark

WITHIN_S: Final = 1_200.0
ENVIRONMENT: Final = {"SPARK_LOCAL_IP": LOCALHOST}
BROKERS: Final = 12
PARTITIONS: Final = 4_000
STAGES: Final = ("placing replicas", "planning bulk", "fine tuning", "choosing leaders", "writing")
"""A message of each, after which an executor is killed."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """Give a cluster of two workers."""
    with StandaloneSpark.running(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture(scope="module")
def snapshot(spark: StandaloneSpark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a snapshot of a skewed cluster with two empty brokers, written on the Spark cluster."""
    directory = tmp_path_factory.mktemp("snapshot")
    partitions = []
    sizes = ["topic,partition,size_bytes"]
    for n in range(PARTITIONS):
        # Squares are skewed; the three replicas are in three racks.
        first = n * n % 10
        replicas = [first, (first + 1 + n % 2 * 3) % 12, (first + 5) % 12]
        replicas = [r % 10 if r < 10 else (r + 3) % 10 for r in replicas]
        partitions.append(
            {"topic": f"t{n % 40}", "partition": n // 40, "replicas": list(dict.fromkeys(replicas))}
        )
        sizes.append(f"t{n % 40},{n // 40},{1_000_000 + n * 7919 % 9_000_000}")
    current = directory / "current.json"
    current.write_text(json.dumps({"version": 1, "partitions": partitions}))
    (directory / "sizes.csv").write_text("\n".join(sizes) + "\n")
    brokers = "".join(f"{n},{'abc'[n % 3]},100000000000\n" for n in range(BROKERS))
    (directory / "brokers.csv").write_text("broker,rack,capacity_bytes\n" + brokers)
    out = directory / "snapshot"
    files = ("--sizes", f"{directory}/sizes.csv", "--brokers", f"{directory}/brokers.csv")
    arguments = ("snapshot", "--out", str(out), "--from", str(current), *files)
    done = run_reassigner(
        *("pipeline", *arguments, "--master", spark.url), within_s=WITHIN_S, settings=ENVIRONMENT
    )
    assert done.code == 0, done.stdout
    return out


def planned(spark: StandaloneSpark, snapshot: Path, out: Path, *, kills: bool) -> int:
    """Make a plan; with ``kills``, kill an executor in each stage. Return the number of kills."""
    arguments = ("plan", str(snapshot), "--out", str(out), "--master", spark.url)
    killed = 0
    with subprocess.Popen(
        dying_with_parent([sys.executable, "-m", "controller.cli", "pipeline", *arguments]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **ENVIRONMENT},
        cwd=Path(__file__).resolve().parent.parent,
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if kills and any(stage in line for stage in STAGES):
                killed += spark.kill_executor(killed) is not None
        code = process.wait(WITHIN_S)
    assert code in {0, 2}, "".join(said)
    return killed


def contents(out: Path) -> Mapping[str, bytes]:
    """Return the files of a plan for people and tools."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*.json"))
        if path.is_file()
    }


def test_a_plan_is_the_same_though_executors_are_killed(
    spark: StandaloneSpark, snapshot: Path, tmp_path: Path
) -> None:
    """An executor is killed in each stage; what it held is computed again."""
    undisturbed, disturbed, local = (tmp_path / name for name in ("one", "two", "three"))
    planned(spark, snapshot, undisturbed, kills=False)
    killed = planned(spark, snapshot, disturbed, kills=True)
    print(
        f"{killed} executors were killed; the most memory of one: {spark.executor_bytes >> 20} MB"
    )
    assert killed >= len(STAGES)
    assert len(contents(undisturbed)) > 4
    assert contents(disturbed) == contents(undisturbed)
    arguments = ("plan", str(snapshot), "--out", str(local), "--master", "local[2]")
    done = run_reassigner("pipeline", *arguments, within_s=WITHIN_S)
    assert done.code in {0, 2}, done.stdout
    assert contents(local) == contents(undisturbed)
