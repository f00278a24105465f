"""Tests of ``reassigner stock``: texts to the byte; beside the real tool in ``integration``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.model import (
    BrokerId,
    OutcomeKind,
    PartitionOutcome,
    RequestId,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.throttle_settings import broker_entity, topic_entity
from controller.core.requests.submissions import LegacyPlan, Submission, Throttle
from controller.doctor.broker_answers import BrokerAnswers, Disks
from controller.znodes.cancellations import KillSwitch
from tests.cli.builders import FakeCluster, Terminal
from tests.cli.scripted_answers import CANCEL
from tests.core.builders import replicas, tp

SERVER = ("--bootstrap-server", "b:9092")
OLD = ("--zookeeper", "zk:2181")
CLEARED = (
    "Clearing broker-level throttles on brokers 1,2,3,4\n"
    "Clearing topic-level throttles on topic t\n"
)
CURRENT = (
    '{"version":1,"partitions":['
    '{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},'
    '{"topic":"t","partition":1,"replicas":[1,2],"log_dirs":["any","any"]}]}'
)


class Scene:
    """Two partitions on 1 and 2, and a plan that moves both to 2 and 3."""

    def __init__(self, directory: Path) -> None:
        """Write the plan."""
        self.cluster = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2))
        self.terminal = Terminal(self.cluster)
        self.directory = directory
        self.plan = self.write({"partitions": [_entry(0, 2, 3), _entry(1, 2, 3)]})

    def write(self, document: object, name: str = "plan") -> str:
        """Write a file."""
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps(document))
        return str(path)

    def run(self, *arguments: str, where: tuple[str, ...] = SERVER) -> tuple[int, str]:
        """Run the verb; return its exit code and standard output."""
        result = self.terminal.run("stock", *where, *arguments)
        return result.exit_code, result.stdout

    def on_plan(self, *arguments: str, where: tuple[str, ...] = SERVER) -> tuple[int, str]:
        """Run the verb with the plan."""
        return self.run(*arguments, "--reassignment-json-file", self.plan, where=where)


def _entry(partition: int, *assigned: int) -> dict[str, object]:
    return {"topic": "t", "partition": partition, "replicas": list(assigned)}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Give a scene."""
    return Scene(tmp_path)


# --- 3.9 -----------------------------------------------------------------------------------------


def test_an_accepted_plan_is_reported_as_started(scene: Scene) -> None:
    """What is, the throttle, and what was started; the request carries the throttle."""
    seen: list[Throttle | None] = []

    def accept(cluster: FakeCluster) -> None:
        seen.extend(s.options.throttle for s in cluster.submitted.values())
        cluster.take_up()

    scene.terminal.steps = [accept]
    assert scene.on_plan("--execute", "--throttle", "5000") == (
        0,
        (
            f"Current partition replica assignment\n\n{CURRENT}\n\n"
            "Save this to use as the --reassignment-json-file option during rollback\n"
            "Warning: You must run --verify periodically, until the reassignment completes, to "
            "ensure the throttle is removed.\n"
            "The inter-broker throttle limit was set to 5000 B/s\n"
            "Successfully started partition reassignments for t-0,t-1\n"
        ),
    )
    assert seen == [5000]


def test_what_the_daemon_refuses_is_an_error_of_the_partition(scene: Scene) -> None:
    """Exit code 1 and the daemon's reason."""
    scene.terminal.steps = [lambda cluster: cluster.take_up({tp(1): "no such broker"})]
    code, said = scene.on_plan("--execute")
    assert code == 1
    assert said.endswith("rollback\nError reassigning partition(s):\nt-1: no such broker\n")


def test_text_after_the_plan_is_ignored_as_by_kafkas_tool(scene: Scene) -> None:
    """Jackson reads the first document; a byte order mark before it is an error there."""
    scene.terminal.steps = [FakeCluster.take_up]
    path = Path(scene.plan)
    path.write_text(path.read_text() + "\n\nSave this to use as the plan\n")
    assert scene.on_plan("--execute")[0] == 0


def test_a_second_plan_needs_additional(scene: Scene) -> None:
    """Whatever is being reassigned, by us or by others, counts."""
    scene.cluster.assign(tp(5), (1, 2, 3), adding=(3,))
    code, said = scene.on_plan("--execute")
    assert code == 1
    assert said.startswith("Cannot execute because there is an existing partition assignment.  Use")
    assert not scene.cluster.submitted
    scene.terminal.steps = [FakeCluster.take_up]
    assert scene.on_plan("--execute", "--additional")[0] == 0


@pytest.mark.parametrize("where", [SERVER, OLD])
def test_nothing_is_written_without_a_daemon_to_carry_it_out(
    scene: Scene, where: tuple[str, ...]
) -> None:
    """Neither without a daemon nor while new work is disabled."""
    scene.cluster.leader = None
    _, said = scene.on_plan("--execute", where=where)
    assert "no reassigner leads: start one with `reassigner run`" in said
    scene.cluster.leader, scene.cluster.switch = "d:1", KillSwitch("incident", "ann", 0)
    _, said = scene.on_plan("--execute", where=where)
    assert "disabled" in said
    assert not scene.cluster.submitted


@pytest.mark.parametrize("where", [SERVER, OLD])
@pytest.mark.parametrize("action", ["--execute", "--verify"])
def test_a_dry_run_says_the_same_and_writes_nothing(
    scene: Scene, where: tuple[str, ...], action: str
) -> None:
    """Standard output up to where something would have been written, on standard error why."""
    scene.cluster.throttled = {topic_entity("t")}
    scene.cluster.assign(tp(0), (2, 3)).assign(tp(1), (2, 3))
    result = scene.terminal.run(
        "stock", *where, action, "--reassignment-json-file", scene.plan, "--dry-run"
    )
    assert result.exit_code == 0
    assert "Nothing was written." in result.stderr
    assert not scene.cluster.submitted
    assert scene.cluster.throttled


def test_what_is_under_way_is_listed_as_a_whole(scene: Scene) -> None:
    """Ours by its target, another's as the topic znode has it."""
    scene.cluster.accept(tp(0), (3, 4), (1, 2))
    scene.cluster.assign(tp(0), (1, 2, 3), adding=(3,))
    scene.cluster.assign(tp(1), (2, 3, 1), removing=(1,))
    assert scene.run("--list") == (
        0,
        (
            "Current partition reassignments:\n"
            "t-0: replicas: 3,4,1,2. adding: 3,4. removing: 1,2.\n"
            "t-1: replicas: 2,3,1. removing: 1.\n"
        ),
    )


def test_verification_reports_each_partition_and_clears_throttles_at_the_end(scene: Scene) -> None:
    """In progress, elsewhere, completed; throttles go once nothing is reassigned any more."""
    scene.cluster.throttled = {topic_entity("t"), broker_entity(BrokerId(2))}
    scene.cluster.accept(tp(0), (2, 3), (1, 2))
    head = "Status of partition reassignment:\n"
    elsewhere = (
        "There is no active reassignment of partition t-1, but replica set is 1,2 rather than "
        "2,3.\n\n"
    )
    progress = "Reassignment of partition t-0 is still in progress.\n"
    assert scene.on_plan("--verify") == (0, head + progress + elsewhere)
    assert scene.cluster.throttled
    scene.cluster.finish(tp(0), (2, 3))
    done = "Reassignment of partition t-0 is completed.\n"
    assert scene.on_plan("--verify", "--preserve-throttles") == (0, head + done + elsewhere)
    assert scene.cluster.throttled
    assert scene.on_plan("--verify") == (0, head + done + elsewhere + CLEARED)
    assert not scene.cluster.throttled


def test_a_cancelled_plan_is_reported_as_cancelled(scene: Scene) -> None:
    """Only what is under way is called off; a line of the tool has no end."""
    scene.cluster.accept(tp(0), (2, 3), (1, 2))
    seen: list[frozenset[object]] = []

    def take_up(cluster: FakeCluster) -> None:
        assert cluster.cancellation is not None
        seen.append(cluster.cancellation.partitions)
        cluster.call_off(tp(0), OutcomeKind.ROLLED_BACK)
        cluster.cancellation = None

    scene.terminal.steps = [take_up]
    assert scene.on_plan("--cancel") == (
        0,
        (
            "Successfully cancelled partition reassignment for: t-0\n"
            f"None of the specified partition moves are active.{CLEARED}"
        ),
    )
    assert seen == [frozenset({tp(0)})]
    assert scene.on_plan("--cancel", "--preserve-throttles") == (
        0,
        (
            "None of the specified partition reassignments are active.\n"
            "None of the specified partition moves are active."
        ),
    )


@pytest.mark.parametrize("where", [SERVER, OLD])
def test_what_began_can_be_cancelled_while_new_work_is_disabled(
    scene: Scene, where: tuple[str, ...]
) -> None:
    """The kill switch keeps work from beginning, and is thrown when something goes wrong."""
    scene.cluster.accept(tp(0), (2, 3), (1, 2))
    scene.cluster.switch = KillSwitch("incident", "ann", 0)
    ended: list[TopicPartition] = []

    def take_up(cluster: FakeCluster) -> None:
        assert cluster.cancellation is not None
        cluster.call_off(tp(0), OutcomeKind.ROLLED_BACK)
        cluster.cancellation = None
        ended.append(tp(0))

    scene.terminal.steps = [take_up]
    code, said = scene.run("--cancel", where=OLD) if where == OLD else scene.on_plan("--cancel")
    assert code == 0, said
    assert "disabled" not in said
    assert ended == [tp(0)]


def test_what_cannot_be_cancelled_is_an_error(scene: Scene) -> None:
    """The daemon's reason, and exit code 1."""
    scene.cluster.accept(tp(0), (2, 3), (1, 2))

    def skip(cluster: FakeCluster) -> None:
        cluster.specs.clear()
        cluster.cancellation = None
        cluster.record_outcome(
            PartitionOutcome(RequestId(CANCEL), tp(0), OutcomeKind.SKIPPED, "it would go offline")
        )

    scene.terminal.steps = [skip]
    code, said = scene.on_plan("--cancel")
    assert code == 1
    assert said == "Error cancelling partition reassignment for:\nt-0: it would go offline\n"


def test_a_proposal_keeps_to_the_brokers_and_prints_every_partition(scene: Scene) -> None:
    """Brokers that are not there are passed over, as the tool does."""
    topics = scene.write({"topics": [{"topic": "t"}]}, "topics")
    flags = ("--generate", "--topics-to-move-json-file", topics, "--broker-list")
    code, said = scene.run(*flags, "2,3,99")
    lines = said.splitlines()
    assert code == 0
    assert lines[:4] == [
        "Current partition replica assignment",
        CURRENT,
        "",
        "Proposed partition reassignment configuration",
    ]
    proposed = json.loads(lines[4])["partitions"]
    assert [set(p["replicas"]) for p in proposed] == [{2, 3}, {2, 3}]
    assert scene.run(*flags, "2") == (
        1,
        "Error: Replication factor: 2 larger than available brokers: 1.\n",
    )
    scene.cluster.racks = {2: "a"}
    assert scene.run(*flags, "2,3")[1].startswith("Error: Not all brokers have rack information.")
    assert scene.run(*flags, "2,3", "--disable-rack-aware")[0] == 0


def test_brokers_of_another_cluster_are_not_taken_for_ours(scene: Scene) -> None:
    """A plan for one cluster is never carried out on another."""
    scene.cluster.id = "another"
    code, said = scene.on_plan("--execute")
    assert code == 1
    assert said.startswith("Error: the brokers belong to cluster the-cluster, but ZooKeeper at")
    assert not scene.cluster.submitted


def placed(scene: Scene, *directories: str) -> None:
    """Let the plan move one partition, with these log directories."""
    entry = {**_entry(0, 2, 3), "log_dirs": list(directories)}
    scene.plan = scene.write({"partitions": [entry]})


def test_log_directories_and_their_throttle_are_submitted(scene: Scene) -> None:
    """Each named replica is reported as started, once the daemon accepted the plan."""
    seen: list[Submission] = []

    def accept(cluster: FakeCluster) -> None:
        seen.extend(cluster.submitted.values())
        cluster.take_up()

    scene.terminal.steps = [accept]
    placed(scene, "/data/a", "/data/b")
    code, said = scene.on_plan("--execute", "--replica-alter-log-dirs-throttle", "5000")
    assert (code, said[said.index("The replica-alter") :]) == (
        0,
        (
            "The replica-alter-dir throttle limit was set to 5000 B/s\n"
            "Successfully started partition reassignment for t-0\n"
            "Successfully started moving log directory to /data/a for replica t-0 with broker 2 \n"
            "Successfully started moving log directory to /data/b for replica t-0 with broker 3 \n"
        ),
    )
    (submission,) = seen
    assert submission.log_dirs == {tp(0): ((BrokerId(2), "/data/a"), (BrokerId(3), "/data/b"))}
    assert submission.options.log_dirs_throttle == 5000


def test_log_directory_has_to_be_absolute(scene: Scene) -> None:
    """Said before anything is written."""
    placed(scene, "any", "data/b")
    code, said = scene.on_plan("--execute")
    assert (code, said) == (
        1,
        "Error: the log directory data/b of t-0 on broker 3 is not absolute\n",
    )


@pytest.mark.parametrize(
    ("here", "future", "state", "clears"),
    [
        ("/b", None, "Reassignment of replica t-0-3 completed successfully.", True),
        ("/a", "/b", "Reassignment of replica t-0-3 is still in progress.", False),
        (
            "/a",
            "/c",
            "Partition t-0 on broker 3 is being moved to log dir /c instead of /b.",
            False,
        ),
        (
            "/a",
            None,
            "Partition t-0 on broker 3 is not being moved from log dir /a to /b.",
            True,
        ),
        (
            None,
            None,
            (
                "Partition t-0 is not found in any live log dir on broker 3. There is likely an "
                "offline log directory on the broker."
            ),
            True,
        ),
    ],
)
def test_verification_reports_where_replicas_are(
    scene: Scene, here: str | None, future: str | None, state: str, *, clears: bool
) -> None:
    """Throttles are cleared when nothing moves any more."""
    scene.cluster.assign(tp(0), (2, 3))
    disks = Disks(
        frozenset(),
        placed={} if here is None else {tp(0): here},
        futures={} if future is None else {tp(0): future},
    )
    answers = BrokerAnswers(disks={BrokerId(3): disks}, min_insync_replicas={})
    scene.cluster.snapshot = replace(scene.cluster.snapshot, brokers=answers)
    placed(scene, "any", "/b")
    code, said = scene.on_plan("--verify")
    _, completed, moved, *cleared = said.splitlines()
    assert (code, completed, moved) == (0, "Reassignment of partition t-0 is completed.", state)
    assert bool(cleared) is clears


def test_broker_that_does_not_report_its_directories_is_an_error(scene: Scene) -> None:
    """Whether its replicas moved is not known."""
    answers = BrokerAnswers(disks={BrokerId(3): "no answer in time"}, min_insync_replicas={})
    scene.cluster.snapshot = replace(scene.cluster.snapshot, brokers=answers)
    placed(scene, "any", "/b")
    code, said = scene.on_plan("--verify")
    assert code == 1
    assert said.endswith("Error: broker 3 does not report its log directories: no answer in time\n")


def test_the_old_tool_needs_brokers_for_log_directories(scene: Scene) -> None:
    """It has only ZooKeeper."""
    placed(scene, "any", "/b")
    for action in ("--execute", "--verify"):
        code, said = scene.on_plan(action, where=OLD)
        assert code == 0
        assert "bootstrap-server needs to be provided" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Command must include exactly one action"),
        (("--list", "--verify"), "Command must include exactly one action"),
        (("--execute",), 'Missing required argument "[reassignment-json-file]"'),
        (("--list", "--throttle", "1"), 'Option "[throttle]" can\'t be used with action "[list]"'),
    ],
)
def test_wrong_usage_is_reported_on_standard_error(
    scene: Scene, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 1, and nothing on standard output."""
    result = scene.terminal.run("stock", *SERVER, *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(message)


def test_a_cluster_has_to_be_named(scene: Scene) -> None:
    """As the tool wants it, even where the environment names a ZooKeeper."""
    result = scene.terminal.run("stock", "--list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Please specify --bootstrap-server")


# --- before 2.6 ----------------------------------------------------------------------------------


def test_the_old_tool_reports_a_start_and_an_end(scene: Scene) -> None:
    """Its words, and throttles that go with the last partition."""
    scene.terminal.steps = [FakeCluster.take_up]
    code, said = scene.on_plan("--execute", where=OLD)
    assert code == 0
    assert said.endswith("during rollback\nSuccessfully started reassignment of partitions.\n")
    progress = (
        "Status of partition reassignment: \n"
        "Reassignment of partition t-0 is still in progress\n"
        "Reassignment of partition t-1 is still in progress\n"
    )
    assert scene.on_plan("--verify", where=OLD) == (0, progress)
    for partition in (tp(0), tp(1)):
        scene.cluster.finish(partition, (2, 3))
    scene.cluster.throttled = {topic_entity("t")}
    done = progress.replace("is still in progress", "completed successfully")
    assert scene.on_plan("--verify", where=OLD) == (0, f"{done}Throttle was removed.\n")
    assert scene.on_plan("--verify", where=OLD) == (0, done)


def test_the_old_tool_reports_that_a_throttle_of_the_daemon_was_removed(scene: Scene) -> None:
    """The daemon lifted it at the end of the request; who verifies waits for the word."""
    scene.terminal.steps = [FakeCluster.take_up]
    assert scene.on_plan("--execute", "--throttle", "1000", where=OLD)[0] == 0
    for partition in (tp(0), tp(1)):
        scene.cluster.finish(partition, (2, 3))
    assert "Throttle was removed." not in scene.on_plan("--verify", where=OLD)[1]
    scene.cluster.conclude(RequestId("request_0000000004"), done=2)
    assert scene.on_plan("--verify", where=OLD)[1].endswith("\nThrottle was removed.\n")
    scene.plan = scene.write({"partitions": [_entry(0, 2, 3)]})
    assert "Throttle was removed." not in scene.on_plan("--verify", where=OLD)[1]


def test_the_old_tool_reports_failures_with_exit_code_0(scene: Scene) -> None:
    """So did it; scripts look at the text."""
    scene.cluster.plan = LegacyPlan({tp(1): replicas(1, 3)}, ZkVersion(0), Zxid(1))
    running = "There is an existing assignment running.\n"
    assert scene.on_plan("--execute", where=OLD) == (0, running)
    scene.cluster.plan = None
    failed = (
        "Status of partition reassignment: \n"
        "Reassignment of partition t-0 failed\n"
        "Reassignment of partition t-1 failed\n"
    )
    result = scene.terminal.run("stock", *OLD, "--verify", "--reassignment-json-file", scene.plan)
    assert (result.exit_code, result.stdout) == (0, failed)
    assert result.stderr.splitlines() == [
        "ERROR: Assigned replicas (1,2) don't match the list of replicas for reassignment (2,3) "
        f"for partition t-{number}"
        for number in (0, 1)
    ]
    scene.plan = scene.write({"partitions": []})
    assert scene.on_plan("--execute", where=OLD) == (
        0,
        "Partitions reassignment failed due to Partition reassignment data file is empty\n",
    )


def test_kip_236_cancels_everything(scene: Scene) -> None:
    """In the words of the proposal, with where everything was."""
    scene.cluster.accept(tp(0), (2, 3), (1, 2))

    def take_up(cluster: FakeCluster) -> None:
        cluster.call_off(tp(0), OutcomeKind.ROLLED_BACK)
        cluster.cancellation = None

    scene.terminal.steps = [take_up]
    code, said = scene.run("--cancel", where=OLD)
    assert code == 0
    assert said.splitlines()[:2] == [
        (
            "Rolling back the current pending reassignments Map(t-0 -> Map(replicas -> "
            "Buffer(2, 3), original_replicas -> Buffer(1, 2)))"
        ),
        "Successfully submitted cancellation of reassignments.",
    ]


def test_kip_236_queues(scene: Scene) -> None:
    """Its three options, in either form."""
    assert scene.on_plan("--execute-queue", where=OLD)[0] == 0
    assert scene.cluster.queue is not None
    assert scene.on_plan("--verify-queue")[0] == 2
    code, said = scene.on_plan("--generate-queue")
    assert code == 0
    assert said.startswith("Current partition replica assignment\n")
