"""
Terminal, page and Kafka's tool submit the same request, and refuse for the same reason.

On a cluster for each engine. ``tests/actions/test_surfaces.py`` has all cases, without a cluster.
"""

from __future__ import annotations

import html
import http.client
import json
import re
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.engine_matrix import ENGINES, Row
from integration.rigs.operator_actions import await_moving, plan_file
from integration.rigs.plans import (
    Daemons,
    await_end,
    await_tenure,
    copies_held,
    fill,
    outcome,
    plan_of,
    submit,
)
from integration.rigs.requests import await_outcome, reassigner, submit_request
from integration.rigs.reserved_ports import LOCALHOST, ReservedPort
from integration.rigs.waiting import eventually
from integration.shown_moves import TOKEN, with_tokens

FACTORS = "--allow-replication-factor-change"
CANCEL = "/admin/cancel_reassignment_in_progress"


@pytest.fixture(scope="module", params=ENGINES, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row of each engine."""
    found: Row = request.param
    return found


@pytest.fixture
def cluster(row_cluster: Cluster) -> Cluster:
    """Give it to the other fixtures."""
    return row_cluster


def test_every_surface_submits_and_refuses_alike(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """The same plan by a terminal, the page and Kafka's tool; then what each refuses."""
    topic = make_topic({0: (1, 2)})
    there, back = {(topic, 0): (1, 3)}, {(topic, 0): (1, 2)}
    daemon = daemons.make(*with_tokens(tmp_path))
    daemon.token = TOKEN
    daemon.start()

    assert "set http_token or REASSIGNER_HTTP_TOKEN" in reassigner(cluster, "doctor").stdout
    path = plan_file(tmp_path, there)
    where = ("--zookeeper", cluster.zookeeper_connect)
    command = ("execute", path, "--wait", "--json", "--reason", "why", *where)
    done = run_reassigner(*command, errors_too=False)
    assert done.code == 0, done.stdout
    by_terminal = json.loads(done.stdout)["request"]
    await_end(cluster, there, within_s=60)

    plan = Path(plan_file(tmp_path, back)).read_text()
    by_page = submitted(daemon, plan, reason="why")
    ended = [await_outcome(cluster, name, within_s=60) for name in (by_terminal, by_page)]
    await_end(cluster, back, within_s=60)
    same = ("kind", "total", "done", "refused", "reason")
    assert {k: ended[0].get(k) for k in same} == {k: ended[1].get(k) for k in same}

    stock = ("stock", "--execute", "--reassignment-json-file", plan_file(tmp_path, there))
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    assert reassigner(cluster, *stock, *servers).code == 0
    await_end(cluster, there, within_s=60)

    for action, words in (
        ("pause", ("pause", "--request", by_page)),
        ("cancel", ("cancel", by_page)),
        ("cancel", ("cancel", "request_9999999999")),
        ("pause", ("pause", "--request", "a/b")),
    ):
        status, body = sent(daemon, "/control", action=action, request=words[-1])
        said = reassigner(cluster, *words).stdout.strip().removeprefix("reassigner: ")
        assert (status, said in html.unescape(body)) == (http.HTTPStatus.CONFLICT, True), said
    assert cluster.zk.exists(CANCEL) is None

    assert reassigner(cluster, "disable", "--reason", "incident").code == 0
    status, body = sent(daemon, "/plan", plan=plan)
    said = reassigner(cluster, "execute", path).stdout.strip().removeprefix("reassigner: ")
    assert "new reassignments are disabled" in said
    assert (status, said in html.unescape(body)) == (http.HTTPStatus.CONFLICT, True), said
    assert reassigner(cluster, "enable").code == 0
    assert outcome(cluster, by_page) is not None


def test_a_replication_factor_changes_only_when_that_is_requested(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """By terminal and page alike; plans of Kafka's tool and of its znode are carried out."""
    topic = make_topic({0: (1, 2)})
    there = {(topic, 0): (1, 3)}
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    daemon = daemons.make(*with_tokens(tmp_path))
    daemon.token = TOKEN
    daemon.start()
    wide, narrow = {(topic, 0): (1, 2, 3)}, {(topic, 0): (1, 2)}
    path = plan_file(tmp_path, wide)
    refused = reassigner(cluster, "execute", path)
    assert refused.code == 3
    said = refused.stdout.strip().removeprefix("reassigner: ")
    assert f"the replication factor of 1 partition rises from 2 to 3: {topic}-0" in said
    status, body = sent(daemon, "/plan", plan=Path(path).read_text())
    assert (status, said in html.unescape(body)) == (http.HTTPStatus.CONFLICT, True), body
    submitted(daemon, Path(path).read_text(), **{FACTORS.strip("-"): "1"})
    await_end(cluster, wide, within_s=60)
    stock = ("stock", "--execute", "--reassignment-json-file", plan_file(tmp_path, narrow))
    assert reassigner(cluster, *stock, *servers).code == 0
    await_end(cluster, narrow, within_s=60)
    assert reassigner(cluster, "execute", path, FACTORS, "--wait").code == 0
    submit(cluster, plan_of(there))
    await_end(cluster, there, within_s=60)


def test_tasks_are_planned_carried_out_and_undone(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Each answers of the cluster what an operator asked; a broker that does not exist is named."""
    home = dict.fromkeys(range(4), (1, 2))
    topic = make_topic(home)
    fill(cluster, [(topic, number) for number in home])
    daemons.start()

    def last_line(*command: str, code: int = 0) -> str:
        done = reassigner(cluster, *command)
        assert done.code == code, done.stdout
        ids.extend(re.findall(r"^(request_\d+) has ended", done.stdout, re.MULTILINE))
        return done.stdout.splitlines()[-1]

    def loads() -> list[int]:
        held = [broker for number in home for broker in cluster.replicas(topic, number)]
        return [held.count(broker) for broker in sorted(cluster.brokers)]

    ids: list[str] = []
    widen = ("replication", topic, "3")
    planned = f"4 partitions of {topic} would have 3 replicas; 0 have it now"
    assert last_line(*widen, "--dry-run") == planned
    wide = f"4 partitions of {topic} have 3 replicas"
    assert last_line(*widen, "--throttle", "50MB", "--wait") == wide
    assert all(len(cluster.replicas(topic, number)) == 3 for number in home)
    assert last_line(*widen) == wide
    undo = ("undo", ids[-1], "--throttle", "50MB", "--wait")
    undone = f"{ids[-1]} is undone: 4 partitions with the replicas of before"
    assert last_line(*undo) == undone
    await_end(cluster, {(topic, number): r for number, r in home.items()}, within_s=60)
    assert last_line(*undo) == undone
    assert reassigner(cluster, "verify", ids[-1]).code == 4

    fifth = ("add", "5", "--exclude-topics", f"(?!{topic}).*")
    assert last_line(*fifth, "--wait") == "broker 5 has its share of 1 replica"
    assert loads()[4] == 1
    even = last_line("rebalance", topic, "--wait")
    assert even == "each broker has 1 to 2 replicas and 0 to 1 preferred leaders"
    assert max(loads()) - min(loads()) <= 1
    unknown = "there is no broker 9: it is not live, and no partition has a replica on it"
    for words in (("add", "9"), ("pause", "--broker", "9"), ("generate", topic, "--drain", "9")):
        assert last_line(*words, code=1) == f"reassigner: {unknown}"


def test_consequences_are_said_before_and_while_they_last(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """A closed window with its end, a pause, what is superseded, and what clients wait for."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    hour = (time.gmtime().tm_hour + 3) % 24
    window = f"{hour:02d}:00-{(hour + 1) % 24:02d}:00"
    daemon = daemons.start("--tenure-linger", "1")
    waits = "clients wait, and time out after 60 s by default, for: creating and altering topics"
    reminds = "some requests of clients wait until the daemon gives the controller role back"
    is_native = row.engine == "native"
    with copies_held(cluster, [(topic, 0)]) as let_go:
        first = submit_request(cluster, {(topic, 0): (1, 3)})
        await_moving(cluster, [(topic, 0)])
        assert (reminds in reassigner(cluster, "status").stdout) is is_native
        assert (reminds in daemon.get("/")[1]) is is_native
        assert reassigner(cluster, "pause", "--broker", "5").code == 0
        assert "broker 5 is paused since" in reassigner(cluster, "status").stdout, "at once"
        assert reassigner(cluster, "throttle", "50MB", "--request", first).code == 0
        assert f"{first}: throttle 50 MB/s" in reassigner(cluster, "limits").stdout
        plan = plan_file(tmp_path, {(topic, 0): (1, 4), (topic, 1): (1, 4)})
        done = reassigner(cluster, "execute", plan, "--window", window)
        assert done.code == 0, done.stdout
        assert f"outside of the window {window} UTC, which opens at 20" in done.stdout
        assert f" {hour:02d}:00:00Z, in " in done.stdout
        assert "Note: broker 5 is paused since " in done.stdout
        assert f"It supersedes 1 partition of {first}: {topic}-0" in done.stdout
        assert (waits in done.stdout) is is_native
        words = reassigner(cluster, "explain", f"{topic}-0", f"{topic}-1").stdout
        assert f"{topic}-0 is " in words
        assert words.count(f"outside of the window {window} UTC, which opens at 20") >= 1
        let_go()
    (request,) = set(re.findall(r"Accepted as (request_\d+)", done.stdout))
    assert reassigner(cluster, "undo", request, "--wait").code == 0
    await_end(cluster, {(topic, 0): (1, 2), (topic, 1): (1, 2)}, within_s=60)
    assert reassigner(cluster, "resume", "--all").code == 0
    assert first not in reassigner(cluster, "limits").stdout
    eventually(
        lambda: waits not in reassigner(cluster, "status").stdout,
        within_s=30,
        what="it is said no longer",
    )


def test_a_copy_beside_a_dead_replica_is_shown(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """What the partition waits for, and the copy that goes on, on every screen."""
    topic = make_topic({0: (1, 2)})
    daemon = daemons.start("--tenure-linger", "1")
    plan = plan_file(tmp_path, {(topic, 0): (1, 3, 4)})
    with copies_held(cluster, [(topic, 0)]) as let_go:
        more = ("--step-size", "all", "--allow-replication-factor-change")
        assert reassigner(cluster, "execute", plan, *more).code == 0
        await_moving(cluster, [(topic, 0)])
        cluster.brokers[4].stop()

        def shown() -> bool:
            found = daemon.status()["in_flight"]
            return bool(found) and (found[0]["state"], found[0]["copying_to"]) == ("blocked", [3])

        eventually(shown, within_s=40, what=lambda: f"both are known: {daemon.status()}")
        (partition,) = daemon.status()["in_flight"]
        assert {c["broker"]: c["no_estimate"] for c in partition["copies"]}[4] is not None
        for words in (("status",), ("explain", f"{topic}-0")):
            found = reassigner(cluster, *words).stdout
            assert "(broker_dead" in found
            assert "meanwhile copying to 3" in found
        page = daemon.get("/")[1]
        assert "meanwhile copying to 3" in page
        assert daemon.status()["partitions"]["copying"] == 1
        cluster.brokers[4].start()
        let_go()
    await_end(cluster, {(topic, 0): (1, 3, 4)}, within_s=90)


def test_what_doctor_recommends_lets_clients_be_answered(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """With the native engine: Kafka's tool lists the reassignment during the tenure."""
    found = reassigner(cluster, "doctor").stdout
    if row.engine != "native":
        assert "clients_wait" not in found
        return
    advice = found[found.index("clients_wait") :]
    settings = dict(re.findall(r'(\w+) = "([^"]+)"', advice.partition("what to do: ")[2]))
    port = ReservedPort()
    here = {"endpoint_listen": port.address, "endpoint_advertise": port.address}
    options = [w for n, v in {**settings, **here}.items() for w in (f"--{n.replace('_', '-')}", v)]
    assert len(settings) == 4, advice
    topic = make_topic({0: (1, 2)})
    daemon = daemons.start("--engine", "native", *options, "--tenure-linger", "1")
    with copies_held(cluster, [(topic, 0)]) as let_go:
        submit_request(cluster, {(topic, 0): (1, 3)})
        await_tenure(daemon)
        eventually(
            lambda: f"{topic}-0" in cluster.reassign_partitions("--list").stdout,
            within_s=60,
            what="Kafka's tool lists it",
        )
        assert daemon.status()["tenure"]["held"]
        assert "clients wait" not in reassigner(cluster, "status").stdout
        let_go()
    await_end(cluster, {(topic, 0): (1, 3)}, within_s=60)
    port.close()


def submitted(daemon: Daemon, plan: str, **fields: str) -> str:
    """Preview and submit a plan on the page; return its request."""
    status, body = sent(daemon, "/plan", plan=plan, **fields)
    assert status == http.HTTPStatus.OK, body
    (draft,) = re.findall(r'name="draft" value="([^"]+)"', body)
    status, body = sent(daemon, "/submit", draft=draft)
    assert status == http.HTTPStatus.OK, body
    (request,) = set(re.findall(r"request_\d{10}", body))
    return str(request)


def sent(daemon: Daemon, path: str, **fields: str) -> tuple[int, str]:
    """Send a form with the token of an operator."""
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Authorization": f"Bearer {TOKEN}",
    }
    connection = http.client.HTTPConnection(LOCALHOST, daemon.port.number, timeout=30)
    try:
        connection.request("POST", path, urlencode(fields), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
