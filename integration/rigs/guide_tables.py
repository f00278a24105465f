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


NAME: Final = "names the command; the examples have its arguments"
MINUTES: Final = "takes minutes; runs what other tests run"
CONTAINERS: Final = "builds an image and starts containers, for minutes; it is a test of its own"
DOCKER: Final = "needs a Docker engine"
INSTALLS: Final = "installs from a package index; `make setup` made the environment of this test"
ACLS: Final = (
    "needs brokers with an authorizer; integration/test_locked_clusters.py gives these permissions"
)
SAMPLE: Final = "stands for many commands: it has an ellipsis"

RUN: Final = Serve("reassigner run --journal-dir /var/lib/reassigner")
DAEMON: Final = Serve("reassigner run --journal-dir /var/lib/reassigner", is_listed=False)
"""For the documents that do not start a daemon themselves."""
DOCTOR: Final = Run("reassigner doctor", r"\d+ critical, \d+ warning, \d+ info", (0, 2))
ACCEPTED: Final = rf"Accepted as request_\d+: {TOPIC}-0"
EXECUTED: Final = r"Request request_\d+ has ended: 1 of 1 done"
HELD: Final = (prepare("reassigner pause --broker 1"), prepare("reassigner execute plan.json"))
"""A request that is open and does not begin."""
IDLE: Final = prepare("reassigner watch --until-idle")
"""So that no cancellation lasts into the next document, whose topic has the same name."""
EXPORT: Final = "export REASSIGNER_ZOOKEEPER=zk1:2181,zk2:2181/kafka"
STATUS: Final = Run("reassigner status", r"\d+ partitions in flight", (0, 2))
HISTORY: Final = Run("reassigner list --history", r"request_\d+ \(request\): 1 of 1 done")

PAGES: Final = {
    "README.md": Page(
        steps=(
            Run(EXPORT.replace(" ", " PATH=$PWD/.venv/bin:$PATH ", 1)),
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
        ),
        not_run={
            "make demo": MINUTES,
            "make test": MINUTES,
            "make setup": "made the environment in which this test runs",
            "make cluster": "runs until Ctrl-C; these tests start the same cluster",
            "docker compose up --build --wait": DOCKER,
            "make containers": CONTAINERS,
        },
    ),
    "coexistence.md": Page(steps=(DAEMON, DOCTOR, Run("reassigner pause", "everything is paused"))),
    "concepts.md": Page(
        steps=(
            DAEMON,
            *HELD,
            Run("reassigner explain TOPIC-PARTITION", "waits for   paused: .*broker 1"),
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
            "docker build -f deploy/Dockerfile -t kafka-reassigner:0.1.0 .": DOCKER,
            "docker compose up --build --wait": DOCKER,
            "kubectl apply --kustomize deploy/kubernetes": "needs a Kubernetes cluster",
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
            "python -m tests.sim.delegated_campaigns": MINUTES,
            "make test": MINUTES,
            "make test-all": MINUTES,
        },
    ),
    "failures.md": Page(steps=(DAEMON, DOCTOR, STATUS)),
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
            STATUS,
            Run("reassigner explain TOPIC-PARTITION", r"waits for   paused: .*\n  what to do"),
            Run("reassigner limits", "max-partitions-in-flight: 100"),
            Run("reassigner throttle none --request ID", "throttle none"),
            Run("reassigner pause", "everything is paused"),
            Run("reassigner resume", r"\Abroker 1 is paused since"),
            prepare("reassigner disable"),
            Run("reassigner enable", "Enabled: new reassignments are accepted"),
            prepare("reassigner resume --all"),
            Run("reassigner watch", r"request request_\d+: ", (0, 2), interrupt_after_s=6),
        ),
        not_run={"make forecasts": MINUTES},
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
                r"4 unchanged: now\.json",
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
        steps=(
            Run("export PATH=/opt/reassigner/bin:$PATH"),
            Run("export PATH=$PWD/.venv/bin:$PATH"),
            Run(EXPORT),
            DOCTOR,
            RUN,
            Run(
                "reassigner execute plan.json --dry-run --throttle 50MB",
                r"orders-0: 1,2,3 -> 3,4,5 \(adds 4,5, drops 1,2\)",
            ),
            prepare("reassigner pause --broker 1"),
            Run(
                "reassigner execute plan.json --throttle 50MB",
                rf"(?s)Current partition replica assignment.*{ACCEPTED}",
            ),
            prepare("sleep 3"),  # the daemon's status is up to a few seconds old
            Run("reassigner status", r"request request_\d+: waiting", (2,)),
            Run("reassigner throttle 20MB --request request_0000000000", "throttle 20 MB/s"),
            Run("reassigner pause", "everything is paused"),
            Run("reassigner resume", r"\Abroker 1 is paused since"),
            Run(
                "reassigner cancel request_0000000000 --wait",
                "is complete: 1 cancelled before their first step",
            ),
            prepare("reassigner resume --all"),
            prepare("reassigner execute plan.json"),
            Run("reassigner watch --until-idle", "0 partitions in flight, 0 waiting"),
            Run("reassigner verify plan.json", "Reassignment of partition orders-0 is completed"),
            Run("reassigner explain orders-0", r"replicas    3,4,5\n  leader      3"),
            HISTORY,
        ),
        not_run={
            "make demo": MINUTES,
            "make cluster": "runs until Ctrl-C; these tests start the same cluster",
            "python3.11 -m venv /opt/reassigner": INSTALLS,
            "PIP_CONSTRAINT=constraints.txt /opt/reassigner/bin/pip install .": INSTALLS,
            "docker compose up --build --wait": DOCKER,
            "docker compose exec reassigner reassigner status": DOCKER,
        },
    ),
    "security.md": Page(
        steps=(),
        not_run={
            "pip install '.[kerberos]'": INSTALLS,
            "pip install '.[zookeeper-sasl]'": INSTALLS,
            "kafka-acls.sh --bootstrap-server broker1:9093 --command-config admin.properties \\\n"
            "--add --allow-principal User:reassigner --cluster \\\n"
            "--operation ClusterAction --operation Describe --operation Alter": ACLS,
            "kafka-acls.sh --bootstrap-server broker1:9093 --command-config admin.properties \\\n"
            "--add --allow-principal User:reassigner --topic '*' --operation DescribeConfigs": ACLS,
        },
    ),
    "status-page.md": Page(
        steps=(DAEMON, prepare("reassigner execute plan.json --wait"), HISTORY),
        not_run={"reassigner pipeline report ... --out DIR/NAME": SAMPLE},
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
            "reassigner generate": NAME,
        },
    ),
}
