"""
The commands of the guide and of the README: how each is run, or why it is not.

The commands of a document stand in an order in which they can be run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

TOPIC: Final = "orders"
"""The topic of the documents."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command that is run."""

    command: str
    output: str = ""
    """A regular expression that its output matches somewhere."""
    codes: tuple[int, ...] = (0,)
    interrupt_after_s: float | None = None
    """Seconds until Ctrl-C, for a command that does not end by itself."""
    is_listed: bool = True
    """Whether the document lists it; otherwise it only prepares the next command."""


def prepare(command: str) -> Run:
    """Return a command that the document does not list."""
    return Run(command, is_listed=False)


@dataclass(frozen=True, slots=True)
class Serve:
    """A command that runs until the end of its document, as a daemon does."""

    command: str
    is_listed: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """What is done with the commands of one document."""

    steps: tuple[Run | Serve, ...]
    not_run: dict[str, str] = field(default_factory=dict)
    """Commands with the reason why they are not run."""

    @property
    def listed(self) -> set[str]:
        """The commands that the document is to list."""
        steps = {step.command for step in self.steps if step.is_listed}
        return steps | self.not_run.keys()


PAUSED: Final = r"(waiting|held up) +(broker \d+|everything) is paused .*\(paused"
"""What ``explain`` prints of a partition that is paused."""
NAME: Final = "names the command; the examples have its arguments"
FULL: Final = "needs a disk that is nearly full; it is a test of its own"
MINUTES: Final = "takes minutes; runs what other tests run"
CONTAINERS: Final = "builds an image and starts containers, for minutes; it is a test of its own"
DOCKER: Final = "needs a Docker engine"
INSTALLS: Final = "installs from a package index; `make setup` made the environment of this test"
ACLS: Final = (
    "needs brokers with an authorizer; integration/test_locked_clusters.py gives these permissions"
)
KUBERNETES: Final = "needs a Kubernetes cluster"
PACKAGED: Final = "integration/containers/test_debian.py builds and installs the package"
TYPED: Final = "integration/test_quickstart.py types it into terminals"
LAGGING: Final = "integration/test_lagging_replicas.py has a replica that stays out of sync"
ENDS: Final = "changes the whole cluster; tests of its own"
SAMPLE: Final = "stands for many commands: it has an ellipsis"

RUN: Final = Serve("reassigner run --journal-dir /var/lib/reassigner")
DAEMON: Final = Serve("reassigner run --journal-dir /var/lib/reassigner", is_listed=False)
"""For the documents that do not start a daemon themselves."""
DOCTOR: Final = Run("reassigner doctor", r"\d+ critical, \d+ warning, \d+ info", (0, 2))
ACCEPTED: Final = rf"Accepted as request_\d+: {TOPIC}-0"
EXECUTED: Final = r"request_\d+ has ended: 1 of 1 done"
HELD: Final = (prepare("reassigner pause --broker 1"), prepare("reassigner execute plan.json"))
"""A request that is open and does not begin."""
IDLE: Final = prepare("reassigner watch --until-idle")
"""So that no cancellation lasts into the next document, whose topic has the same name."""
EXPORT: Final = "export REASSIGNER_ZOOKEEPER=zk1:2181,zk2:2181/kafka"
UNDONE: Final = "[Uu]nd|back"
STATUS: Final = Run("reassigner status", r"\d+ partitions? in flight", (0, 2))
HISTORY: Final = Run("reassigner list --history", r"request_\d+ \(request\): 1 of 1 done")

PAGES: Final = {
    "README.md": Page(
        steps=(
            Run(EXPORT.replace(" ", " PATH=/opt/reassigner/bin:$PATH ", 1)),
            DOCTOR,
            RUN,
            Run("make help", "make it again|a real cluster"),
            Run("reassigner execute plan.json --dry-run", r"orders-0: 1,2,3 -> 3,4,5"),
            Run("reassigner execute plan.json --throttle 50MB --wait", EXECUTED),
            Run("reassigner watch", r"0 partitions in flight", interrupt_after_s=4),
            Run("reassigner explain orders-7", "orders-7 is not being reassigned"),
            Run("reassigner pause", "everything is paused"),
            prepare("reassigner resume"),
            Run("reassigner cancel --topic orders", "There is nothing to cancel"),
            Run("reassigner verify plan.json", "Reassignment of partition orders-0 is completed"),
            HISTORY,
            Run("reassigner generate orders --drain 5 --output plan.json", '"topic":"orders"'),
            Run("reassigner undo REQUEST", UNDONE, (0, 2)),
            IDLE,
            Run("reassigner leaders --evacuate 5", "broker 5 leads no partition"),
            prepare("reassigner leaders --return 5 --wait"),
            Run("reassigner drain 5 --wait", "broker 5 is empty: it can be shut down"),
            prepare("reassigner drain --stop"),
            IDLE,
        ),
        not_run={
            "make demo": MINUTES,
            "make test": MINUTES,
            "make cluster": "runs until Ctrl-C; these tests start the same cluster",
            "python3.11 -m venv /opt/reassigner": INSTALLS,
            "PIP_CONSTRAINT=constraints.txt /opt/reassigner/bin/pip install .": INSTALLS,
            "docker compose up --build --wait": DOCKER,
            "make containers": CONTAINERS,
            "reassigner quiesce": NAME,
        },
    ),
    "coexistence.md": Page(steps=(DAEMON, DOCTOR, Run("reassigner pause", "everything is paused"))),
    "concepts.md": Page(
        steps=(
            DAEMON,
            *HELD,
            Run("reassigner explain TOPIC-PARTITION", PAUSED),
            Run("reassigner limits", "max-partitions-in-flight: 100"),
            Run("reassigner throttle", "throttle"),
            Run("reassigner throttle RATE|none --request ID", r"throttle"),
        ),
        not_run={"reassigner execute": NAME, "reassigner queue add": NAME},
    ),
    "deployment.md": Page(
        steps=(
            Run(
                'token=$(openssl rand -hex 32); echo "$token"; printf %s "$token" | sha256sum',
                r"(?s)^[0-9a-f]{64}\n[0-9a-f]{64} ",
            ),
            DAEMON,
            DOCTOR,
        ),
        not_run={
            "apt purge": PACKAGED,
            "apt install ./build/deb/kafka-reassigner_0.1.0-1_amd64.deb": PACKAGED,
            "make deb": PACKAGED,
            "systemctl enable --now reassigner": PACKAGED,
            "pip install .": INSTALLS,
            "helm install reassigner deploy/helm/reassigner "
            "--set settings.zookeeper=zk1:2181/kafka": KUBERNETES,
            "helm package deploy/helm/reassigner": KUBERNETES,
            "docker build -f deploy/Dockerfile -t kafka-reassigner:0.1.0 .": DOCKER,
            "docker compose up --build --wait": DOCKER,
            "kubectl apply --kustomize deploy/kubernetes": KUBERNETES,
            "make containers": CONTAINERS,
            "make integration CLUSTER=containers": CONTAINERS,
            "make acceptance": MINUTES,
            "make test": MINUTES,
            "make unit": MINUTES,
            "pip check": "a step of the build of the image",
            "python -m integration.containers": CONTAINERS,
            "reassigner pipeline": NAME,
            "reassigner verify": NAME,
        },
    ),
    "engines.md": Page(
        steps=(
            DAEMON,
            *HELD,
            Run("reassigner cancel --partition TOPIC-N", "Cancelling as cancel-|is complete"),
            IDLE,
        ),
        not_run={
            "reassigner cancel": NAME,
            "reassigner doctor --config FILE": NAME,
            "reassigner pause": NAME,
            "reassigner status": NAME,
            "python -m tests.sim.delegated_campaigns": MINUTES,
            "make test": MINUTES,
            "make test-all": MINUTES,
        },
    ),
    "failures.md": Page(
        steps=(DAEMON, DOCTOR, STATUS),
        not_run={
            "reassigner cancel": NAME,
            "reassigner doctor --fix --no-daemon": ENDS,
            "reassigner list": NAME,
            "reassigner undo REQUEST": NAME,
        },
    ),
    "migration.md": Page(
        steps=(
            DAEMON,
            Run("reassigner execute plan.json", rf"{ACCEPTED}|{EXECUTED}"),
            IDLE,
            Run("reassigner execute plan.json --throttle 50MB", EXECUTED),
            Run("reassigner verify plan.json", "Reassignment of partition orders-0 is completed"),
            prepare("reassigner pause --broker 1"),
            Run("reassigner execute orders.json", r"Accepted as request_\d+: orders-1"),
            STATUS,
            Run("reassigner status --json", r'"in_flight": ', (0, 2)),
            Run("reassigner list", r"request_\d+: .*0 of 1 done"),
            Run("reassigner throttle N --request ID", "50 MB/s"),
            Run("reassigner throttle RATE --request ID", "50 MB/s"),
            Run("reassigner throttle RATE", "50 MB/s per broker"),
            Run("reassigner pause", "everything is paused"),
            prepare("reassigner resume"),
            Run("reassigner cancel REQUEST", "Cancelling as cancel-|is complete"),
            IDLE,
            DOCTOR,
        ),
        not_run={
            "reassigner cancel --everything": "asks for confirmation on a terminal",
            "reassigner stock": NAME,
        },
    ),
    "monitoring.md": Page(
        steps=(
            DAEMON,
            Run(
                "curl -s http://127.0.0.1:8095/metrics | grep ^reassigner_active_controller",
                r"^reassigner_active_controller [01]\.0",
            ),
            Run("promtool test rules deploy/prometheus/rules.test.yml", "SUCCESS"),
        )
    ),
    "notifications.md": Page(
        steps=(
            Serve(
                "reassigner run --journal-dir /var/lib/reassigner "
                "--notify-exec /usr/local/bin/notify --notify-on ended,stalled,refused"
            ),
            prepare("reassigner execute plan.json --wait"),
            prepare("sleep 2"),
            Run(
                "curl -s http://127.0.0.1:8095/metrics | grep ^reassigner_notifications_total",
                r'result="delivered",target="exec"\} 1\.0|target="exec",result="delivered"\} 1\.0',
            ),
        )
    ),
    "operating.md": Page(
        steps=(
            DAEMON,
            DOCTOR,
            *HELD,
            STATUS,
            Run("reassigner explain TOPIC-PARTITION", rf"{PAUSED}.*\n  what to do"),
            Run("reassigner limits", "max-partitions-in-flight: 100"),
            Run("reassigner limits --under-min-isr warn", "under-min-isr: warn"),
            Run("reassigner throttle none --request ID", "throttle none"),
            Run("reassigner resume", r"\Abroker 1 is paused since"),
            prepare("reassigner disable"),
            Run("reassigner enable", "Enabled: new reassignments are accepted"),
            prepare("reassigner resume --all"),
            Run("reassigner watch", r"request_\d+: ", (0, 2), interrupt_after_s=6),
            IDLE,
            Run(
                'reassigner quiesce --deadline 30m --wait --reason "end of ZooKeeper"',
                "[Rr]eady",
            ),
            Run("reassigner quiesce --cancel", "[Rr]eady"),
            Run("reassigner quiesce --export history.json", "[Rr]eady"),
            prepare("reassigner resume"),
        ),
        not_run={
            "reassigner drain --stop": NAME,
            "reassigner quiesce": NAME,
            "reassigner execute plan.json --tolerate-lagging 3": LAGGING,
            "reassigner limits --request request_0000000007 --tolerate-lagging 3": LAGGING,
            "reassigner limits --request request_0000000007 --unset tolerate-lagging": LAGGING,
        },
    ),
    "plans.md": Page(
        steps=(
            DAEMON,
            Run(
                "reassigner execute plan.json --dry-run --throttle 50MB",
                r"orders-0: 1,2,3 -> 3,4,5 \(adds 4,5, drops 1,2\)\n(.*\n)*Time: .*"
                r"by the throttle(.*\n)*broker  copies(.*\n)*directory .* peak",
            ),
            Run(
                "reassigner execute plan.json --dry-run --out approved.json",
                r"Its hash is\n[0-9a-f]{64}",
            ),
            prepare("reassigner pause --broker 1"),
            Run("reassigner execute approved.json --approved HASH --approved-by NAME", ACCEPTED),
            Run("reassigner list", "0 of 1 done"),
            prepare("reassigner resume --all"),
            IDLE,
            Run("reassigner undo REQUEST", UNDONE, (0, 2)),
            IDLE,
            Run("reassigner verify REQUEST", "was undone since", (4,)),
            Run("reassigner replication orders 2", "", (0, 2)),
            IDLE,
            Run("reassigner rebalance", "", (0, 2)),
            IDLE,
            Run("reassigner generate --relieve 4 --below 80%", "full before"),
            Run("reassigner generate --relieve 1 --below 80% --output away.json", "full before"),
            Run("reassigner generate --budget 2TB", "the fullest broker has"),
            Run("reassigner drain 4", "broker 4", (0, 2)),
            prepare("reassigner drain 4 --wait"),
            prepare("reassigner drain --stop"),
            Run("reassigner add 5", "", (0, 2)),
            IDLE,
        ),
        not_run={
            "make forecasts": MINUTES,
            "reassigner generate": NAME,
            "reassigner stock": NAME,
        },
    ),
    "tenures.md": Page(
        steps=(
            DAEMON,
            *HELD,
            Run("reassigner pause", "everything is paused"),
            STATUS,
            Run("reassigner resume", r"\Abroker 1 is paused since"),
            prepare("reassigner resume --all"),
            IDLE,
            DOCTOR,
        ),
        not_run={"reassigner explain": NAME},
    ),
    "doctor.md": Page(steps=(DAEMON, DOCTOR)),
    "leaders.md": Page(
        steps=(
            DAEMON,
            Run(
                'reassigner leaders --evacuate 5 --reason "kernel update"',
                "broker 5 leads no partition: it can be restarted",
            ),
            Run("reassigner leaders", "5"),
            Run("reassigner limits --leader-moves 5", "5"),
            Run("reassigner leaders --return 5", "the leaderships of broker 5 are back"),
            prepare("reassigner leaders --evacuate 4 --wait"),
            DOCTOR,
            prepare("reassigner leaders --return 4 --wait"),
        ),
        not_run={
            "reassigner cancel": NAME,
            "reassigner leaders --forget 5": NAME,
            "reassigner status": NAME,
        },
    ),
    "latency.md": Page(
        steps=(
            DAEMON,
            Run("reassigner throttle auto", "throttle: auto"),
            Run("reassigner limits", "auto"),
            Run("reassigner throttle none", "throttle: none"),
            Run("reassigner execute plan.json --throttle auto", rf"{ACCEPTED}|{EXECUTED}"),
            IDLE,
        ),
    ),
    "cookbook.md": Page(
        steps=(
            Run(EXPORT),
            DAEMON,
            Run("reassigner drain 5 --dry-run", r"orders-\d: .*drops 5"),
            Run(
                'reassigner drain 5 --reason "out of warranty" --throttle 50MB --wait',
                "broker 5 is empty: it can be shut down",
            ),
            Run("reassigner drain --stop 5", "broker 5"),
            IDLE,
            Run("reassigner add 6 --dry-run", "copy"),
            Run("reassigner add 6 --throttle 50MB --wait", "broker 5 has its share"),
            Run("reassigner leaders --evacuate 5", "broker 5 leads no partition"),
            Run("reassigner leaders --return 5", "the leaderships of broker 5 are back"),
            Run("reassigner rebalance --dry-run", ""),
            Run("reassigner rebalance --throttle 50MB --wait", ""),
            prepare("reassigner replication orders 2 --wait"),
            Run("reassigner replication orders 3 --dry-run", "copy"),
            Run("reassigner replication orders 3 --throttle 50MB --wait", "3"),
            Run("reassigner list --history", r"request_\d+ \(request\): "),
            Run("reassigner undo request_0000000000 --dry-run", UNDONE),
            # What other requests have moved since is refused.
            Run("reassigner undo request_0000000000 --throttle 50MB --wait", UNDONE, (0, 3)),
            prepare("reassigner replication orders 3 --wait"),
            DOCTOR,
            STATUS,
            Run(
                "reassigner generate --relieve 1 --below 80% --output away.json",
                "1: .*full before|Nothing has to move",
            ),
            prepare("reassigner generate orders --broker-list 1,2,3,4 --execute --wait"),
            Run("reassigner cancel request_0000000000", "There is nothing to cancel"),
            # Broker 5 has none of the topic now, so the plan adds it.
            prepare("reassigner pause --broker 5"),
            prepare("reassigner execute plan.json"),
            Run("reassigner throttle", "throttle"),
            Run("reassigner throttle auto", "throttle: auto"),
            Run("reassigner throttle 20MB", "20 MB/s"),
            Run("reassigner throttle 20MB --request request_0000000000", "20 MB/s"),
            Run("reassigner limits --max-partitions-in-flight 10", "10"),
            Run('reassigner limits --window "22:00-05:00 Europe/Berlin"', "22:00-05:00"),
            prepare("reassigner limits --unset window"),
            Run("reassigner explain orders-0", PAUSED),
            Run("reassigner cancel --partition orders-0", "Cancelling|complete"),
            Run("reassigner pause", "everything is paused"),
            Run("reassigner resume", "paused"),
            prepare("reassigner resume --all"),
            IDLE,
        ),
        not_run={
            "reassigner cancel": NAME,
            "reassigner execute away.json --dry-run": FULL,
            (
                "reassigner execute away.json --throttle 50MB --max-partitions-in-flight 1 --wait"
            ): FULL,
            'reassigner quiesce --deadline 2h --wait --reason "KRaft" --export history.json': ENDS,
            "reassigner doctor --migration": ENDS,
        },
    ),
    "drain.md": Page(
        steps=(
            DAEMON,
            Run("reassigner drain 5 --dry-run", r"orders-\d: .*drops 5"),
            Run(
                'reassigner drain 5 --reason "disk swap" --throttle 50MB --wait',
                "broker 5 is empty: it can be shut down",
            ),
            Run("reassigner drain 6", "6", (0, 1, 2)),
            Run("reassigner drain", "broker 5"),
            Run("reassigner drain --stop 5", "broker 5"),
            IDLE,
        ),
        not_run={"reassigner drain 5 --approved-by NAME": "needs require_approval"},
    ),
    "kraft.md": Page(
        steps=(DAEMON, DOCTOR),
        not_run={
            'reassigner quiesce --deadline 2h --wait --reason "KRaft" --export history.json': ENDS,
            "reassigner doctor --migration": ENDS,
            "reassigner resume": ENDS,
            "systemctl start reassigner": "integration/test_kraft_migration.py starts a daemon",
        },
    ),
    "rollout.md": Page(
        steps=(DAEMON, DOCTOR, Run("reassigner execute plan.json --dry-run", "orders-0")),
    ),
    "pipeline.md": Page(
        steps=(
            DAEMON,
            Run(
                "reassigner pipeline snapshot --zookeeper zk1:2181/kafka --out before",
                "5 brokers",
            ),
            Run(
                "reassigner pipeline plan before --drain 4 --out plan",
                "replicas",
                (0, 2),
            ),
            Run(
                "reassigner pipeline rebase plan/requests/wave-0001.json --out now.json",
                r"3 unchanged: now\.json",
            ),
            Run(
                "for request in plan/requests/*.json; do\n"
                'reassigner execute "$request" --zookeeper zk1:2181/kafka --wait || break\n'
                "done",
                r"has ended: (\d+) of \1 done",
            ),
            Run("reassigner pipeline snapshot --zookeeper zk1:2181/kafka --out after", "5 brokers"),
            Run(
                "reassigner pipeline report journal --plan plan --after after --out report",
                "report",
            ),
        ),
        not_run={
            "pip install 'kafka-reassigner[pipeline]'": INSTALLS,
            "reassigner pipeline": NAME,
            "reassigner execute": NAME,
            "spark-submit --master ... $(which reassigner) pipeline plan ...": SAMPLE,
            "make bench-pipeline": MINUTES,
        },
    ),
    "quickstart.md": Page(
        steps=(Run("export PATH=/opt/reassigner/bin:$PATH"), Run(EXPORT), DOCTOR, RUN),
        not_run={
            "make demo": MINUTES,
            "python3.11 -m venv /opt/reassigner": INSTALLS,
            "PIP_CONSTRAINT=constraints.txt /opt/reassigner/bin/pip install .": INSTALLS,
            "docker compose up --build --wait": DOCKER,
            "docker compose exec reassigner reassigner status": DOCKER,
            **dict.fromkeys(
                (
                    "make cluster",
                    ". build/cluster.env",
                    "reassigner run --journal-dir build/journal",
                    "reassigner generate --all-topics --drain 5 --output build/plan.json",
                    "reassigner execute build/plan.json --dry-run --throttle 200KB",
                    "reassigner execute build/plan.json --throttle 200KB",
                    "reassigner watch",
                    "reassigner status",
                    "reassigner pause",
                    "reassigner explain orders-0",
                    "reassigner resume",
                    "reassigner throttle 500KB --request request_0000000000",
                    "reassigner watch request_0000000000",
                    "reassigner verify build/plan.json",
                    "reassigner list --history",
                    "reassigner undo request_0000000000 --wait",
                ),
                TYPED,
            ),
        },
    ),
    "faq.md": Page(
        steps=(
            DAEMON,
            Run("reassigner execute plan.json --dry-run", "orders-0"),
            *HELD,
            STATUS,
            Run("reassigner explain TOPIC-PARTITION", PAUSED),
            Run("reassigner disable", "[Dd]isabled"),
            prepare("reassigner enable"),
            Run("reassigner pause", "everything is paused"),
            prepare("reassigner resume --all"),
            Run("reassigner watch", "", (0, 2), interrupt_after_s=4),
            IDLE,
        ),
        not_run={
            "reassigner cancel --everything": "asks for confirmation on a terminal",
            "reassigner quiesce": NAME,
            "reassigner stock": NAME,
        },
    ),
    "security.md": Page(
        steps=(),
        not_run={
            "pip install '.[kerberos]'": INSTALLS,
            "pip install '.[zookeeper-sasl]'": INSTALLS,
            "kafka-acls.sh --bootstrap-server broker1:9093 --command-config admin.properties \\\n"
            "--add --allow-principal User:reassigner --cluster \\\n"
            "--operation ClusterAction --operation Describe --operation Alter "
            "--operation DescribeConfigs": ACLS,
            "kafka-acls.sh --bootstrap-server broker1:9093 --command-config admin.properties \\\n"
            "--add --allow-principal User:reassigner --topic '*' --operation AlterConfigs": ACLS,
            "kafka-acls.sh --bootstrap-server broker1:9093 --command-config admin.properties \\\n"
            "--add --allow-principal User:reassigner --topic __reassigner_probe "
            "--operation Write": ACLS,
            "reassigner doctor": NAME,
            "kafka-acls.sh --bootstrap-server broker1:9093 --command-config admin.properties \\\n"
            "--add --allow-principal User:reassigner --topic '*' --operation DescribeConfigs": ACLS,
        },
    ),
    "status-page.md": Page(
        steps=(DAEMON, prepare("reassigner execute plan.json --wait"), HISTORY),
        not_run={
            "reassigner status": NAME,
            "reassigner pipeline report ... --out DIR/NAME": SAMPLE,
        },
    ),
    "stock.md": Page(
        steps=(
            DAEMON,
            Run(
                "REASSIGNER_ZOOKEEPER=zk1:2181/kafka \\\n"
                "reassigner stock             --bootstrap-server b1:9092 --execute "
                "--reassignment-json-file plan.json --throttle 50000000",
                r"Successfully started partition reassignment for orders-0",
            ),
        ),
        not_run={
            "kafka-reassign-partitions.sh --bootstrap-server b1:9092 --execute "
            "--reassignment-json-file plan.json --throttle 50000000": "a script of Kafka's "
            "distribution; integration/test_stock.py runs the same tool",
            "reassigner stock": NAME,
            "reassigner execute": NAME,
            "reassigner generate": NAME,
        },
    ),
}
