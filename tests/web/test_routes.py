"""Each path answers what it should."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from http import HTTPStatus

import pytest

from controller.core import model
from controller.core.model import Blocked, BlockedBy, Instant, RequestId, Route, Zxid
from controller.core.reassignments.phases import Syncing
from controller.core.requests.model import Request, kind_of
from controller.core.requests.outcomes import EndedHistory, Part
from controller.core.view import ClusterView
from controller.telemetry.metrics import SessionStatus
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, a_view, partition_state
from tests.web.serving import Served


def test_probes_of_a_running_daemon_say_ok(served: Served) -> None:
    """Both have status 200."""
    served.is_running()
    for path in ("/healthz", "/readyz"):
        response, body = served.fetch(path)
        assert (response.status, body) == (HTTPStatus.OK, "ok\n")


def test_probes_fail_with_a_reason(served: Served) -> None:
    """Status 503 with the reason."""
    response, body = served.fetch("/readyz")
    assert response.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert body == "the ZooKeeper session is lost\n"
    response, body = served.fetch("/healthz")
    assert (response.status, body) == (503, "the loop does not run\n")


def test_a_daemon_is_not_ready_before_it_has_a_status(served: Served) -> None:
    """A client that waits for readiness reads the status next."""
    served.health.last_cycle = served.clock.now
    served.health.session = lambda: SessionStatus.CONNECTED
    response, body = served.fetch("/readyz")
    assert (response.status, body) == (503, "the daemon is starting\n")
    served.is_running()
    assert served.fetch("/readyz")[0].status == HTTPStatus.OK


def test_one_partition_is_explained_by_the_loop(served: Served) -> None:
    """The loop answers on its own thread."""
    served.is_running()
    with served.cycling(a_view(1).with_reassignment(tp(), (4,)).view):
        response, body = served.fetch("/explain?partition=t-0")
    assert response.status == HTTPStatus.OK
    assert json.loads(body)["reassignment"]["target_replicas"] == [4]


@pytest.mark.parametrize("query", ["", "?", "?partition=t", "?partition=", "?topic=t"])
def test_explain_without_a_partition_shows_the_usage(served: Served, query: str) -> None:
    """Status 400."""
    response, body = served.fetch(f"/explain{query}")
    assert response.status == HTTPStatus.BAD_REQUEST
    assert "/explain?partition=TOPIC-NUMBER" in body


def test_nothing_is_explained_before_the_first_cycle(served: Served) -> None:
    """Status 503."""
    assert served.fetch("/explain?partition=t-0")[0].status == HTTPStatus.SERVICE_UNAVAILABLE


def test_the_status_is_the_newest_snapshot_with_the_health(served: Served) -> None:
    """Role and work are of the loop, readiness of the probes."""
    served.is_running()
    response, body = served.fetch("/status?pretty")
    assert response.headers["Content-Type"] == "application/json"
    document = json.loads(body)
    assert document["role"] == "leader"
    assert (document["ready"], document["unready_because"]) == (True, None)
    assert document["zookeeper"] == "connected"


def test_status_before_the_first_cycle_is_unavailable(served: Served) -> None:
    """Status 503."""
    response, _ = served.fetch("/status")
    assert response.status == HTTPStatus.SERVICE_UNAVAILABLE


def test_metrics_can_be_scraped_and_know_the_session(served: Served) -> None:
    """Prometheus' content type, and the state of the session."""
    served.is_running()
    response, body = served.fetch("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    line = 'reassigner_zookeeper_session{reassigner_zookeeper_session="connected"} 1.0'
    assert line in body


def test_the_page_is_html(served: Served) -> None:
    """Before and after the first cycle."""
    for _ in range(2):
        response, body = served.fetch("/")
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert body.startswith("<!doctype html>")
        served.is_running()


def test_unknown_paths_are_not_found(served: Served) -> None:
    """Status 404 with the known paths."""
    response, body = served.fetch("/etc/passwd")
    assert response.status == HTTPStatus.NOT_FOUND
    assert "/status" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_not_allowed(served: Served, method: str) -> None:
    """Status 405 names the allowed ones."""
    response, _ = served.fetch("/status", method)
    assert response.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert response.headers["Allow"] == "GET, HEAD"


def test_partitions_are_filtered_by_the_query(served: Served) -> None:
    """Invalid values select nothing in particular."""
    built = a_view(1, 2, 3, 4)
    for number in range(120):
        built.with_partition(tp(number), (1, 2)).with_reassignment(tp(number), (1, 3))
    served.is_running()
    with served.cycling(built.view):
        pages = {
            query: served.fetch(f"/?{query}")[1]
            for query in ("page=2", "page=99", "topic=zzz", "phase=pending&broker=3", "broker=4")
        }
        odd = served.fetch("/?broker=%F0%9F%98%80&page=-3&phase=%3Cb%3E&topic=")[1]
    assert "120 partitions, page 2 of 3" in pages["page=2"]
    assert "t-50<" in pages["page=2"]
    assert "t-49<" not in pages["page=2"]
    assert "120 partitions, page 3 of 3" in pages["page=99"]
    assert "0 partitions" in pages["topic=zzz"]
    assert "120 partitions" in pages["phase=pending&amp;broker=3".replace("&amp;", "&")]
    assert "0 partitions" in pages["broker=4"]
    assert "<b>" not in odd


def test_page_is_shown_while_the_loop_is_busy(served: Served) -> None:
    """Without the table, which only the loop can make."""
    served.is_running()
    _, body = served.fetch("/")
    assert "The loop is busy" in body


def test_nothing_may_run_load_or_frame_the_page(served: Served) -> None:
    """Even if escaping failed."""
    response, _ = served.fetch("/")
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_history_of_an_unknown_request_is_not_found(served: Served) -> None:
    """Its name is escaped."""
    response, body = served.fetch("/history?request=%3Cscript%3E")
    assert response.status == HTTPStatus.NOT_FOUND
    assert "&lt;script&gt;" in body
    assert "<script" not in body
    assert "No request of this name is known." in body


def test_a_standby_links_the_leader_and_shows_nothing_of_the_work(served: Served) -> None:
    """Its page and its status; an address that is no web address is not linked."""
    served.is_running()
    view = a_view(1).with_reassignment(tp(), (4,)).view
    view.role.leading = False
    served.clock.go(60)
    served.publisher.tend(view)
    assert "No daemon leads now" in served.fetch("/")[1]
    served.health.leader = lambda: "leader:8095"
    page = served.fetch("/")[1]
    assert "This daemon is a standby" in page
    assert '<a href="http://leader:8095/">http://leader:8095</a>' in page
    assert "Partitions" not in page
    assert 'data-page="standby"' in page
    assert json.loads(served.fetch("/status")[1])["leader"] == "leader:8095"
    served.health.leader = lambda: "https://leader:8095"
    assert '<a href="https://leader:8095/">' in served.fetch("/")[1]
    served.health.leader = lambda: "javascript://leader"
    assert "javascript" not in served.fetch("/")[1]


def test_the_leader_names_no_other_one(served: Served) -> None:
    """ZooKeeper is not asked for it."""
    served.is_running()
    served.health.leader = lambda: pytest.fail("it is asked")
    assert json.loads(served.fetch("/status")[1])["leader"] is None


def test_one_partition_has_a_page(served: Served) -> None:
    """With the reason why it waits, the remedy and the steps to come."""
    served.is_running()
    built = a_view(1, 2, 3).with_partition(tp(), (1, 2), state=partition_state(1, (1, 2)))
    view = built.with_reassignment(tp(), (2, 3)).view
    view.reassignments.by_partition[tp()].blocked = Blocked(BlockedBy.BROKER_DEAD, "<3> is dead")
    with served.cycling(view):
        response, page = served.fetch("/partition?partition=t-0")
        assert response.status == HTTPStatus.OK
        assert "Blocked: &lt;3&gt; is dead" in page
        assert "What to do: start the broker again" in page
        assert "Steps to come" in page
        assert '<ol start="1">' in page
        assert f"/history?request={REQUEST}" in page
        assert '<a href="/partition?partition=t-0">t-0</a>' in served.fetch("/")[1]
        response, page = served.fetch("/partition?partition=nothing-7")
        assert response.status == HTTPStatus.NOT_FOUND
        assert "There is no such partition." in page
    assert served.fetch("/partition?partition=nothing")[0].status == HTTPStatus.BAD_REQUEST


def test_the_page_of_a_partition_says_since_when_it_is_blocked(served: Served) -> None:
    """Its phase began before that. Steps to come are numbered from the one in flight on."""
    served.is_running()
    state = partition_state(1, (1, 2))
    built = a_view(1, 2, 4).with_partition(tp(), (1, 2, 3), adding=(3,), state=state)
    built.with_reassignment(tp(), (3, 4), Syncing(), original=(1, 2), since=960.0, step=1)
    running = built.view.reassignments.by_partition[tp()]
    running.blocked, running.blocked_since = Blocked(BlockedBy.BROKER_DEAD, "dead"), Instant(970.0)
    with served.cycling(built.view):
        page = served.fetch("/partition?partition=t-0")[1]
    words = re.sub(r"<[^>]+>", "", page)
    ((since, blocked_since),) = re.findall(r"copying since (.*), blocked since (.*)", words)
    assert since != blocked_since
    assert '<ol start="2">' in page


def test_every_page_names_the_cluster(served: Served) -> None:
    """Once it is known, in the head and in the title, escaped."""
    served.is_running()
    assert 'title="the cluster"' not in served.fetch("/")[1]
    served.publisher.cluster = "<prod>"
    for path in ("/", "/history?request=r"):
        page = served.fetch(path)[1]
        assert '<span class="cluster" title="the cluster">&lt;prod&gt;</span>' in page
        assert " &lt;prod&gt;</title>" in page


def _with_every_kind() -> ClusterView:
    """Return a view with requests of each kind, and in each state that links others."""
    built = a_view(1, 2, 3)
    for number in range(3):
        built.with_partition(tp(number), (1, 2), state=partition_state(1, (1, 2)))
    built.with_reassignment(tp(0), (1, 3), Syncing(), step=1).with_reassignment(tp(1), (1, 3))
    view = built.with_reassignment(tp(2), (1, 3)).view
    view.reassignments.by_partition[tp(1)].blocked = Blocked(BlockedBy.BROKER_DEAD, "3 is dead")
    undo, undone = RequestId("cancel-00000000000000ff"), RequestId("request_0000000001")
    forgotten = RequestId("request_0000000000")
    for kind in ("request_0000000002", "queue-01", "cancel-02", "drain-03", undone, undo):
        name = RequestId(kind)
        request = Request(Route.REQUEST, Instant(990.0), kind=kind_of(name), total=2)
        request.has_ended = True
        view.requests.by_id[name] = request
    view.requests.by_id[model.FOREIGN] = Request(Route.FOREIGN, Instant(1.0), kind="foreign")
    part = Part("0", 0, 1, cancels={forgotten: 1}, undoes={undone: 2})
    view.requests.by_id[undo].add_part(part)
    view.requests.ended[undo] = EndedHistory((), Zxid(0), part.undoes)
    view.requests.by_id[RequestId("cancel-02")].has_ended = False
    return view


class _Links(HTMLParser):
    """Collects the links of a page to this server."""

    def __init__(self) -> None:
        """Begin without any."""
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a link leads."""
        target = dict(attrs).get("href") if tag == "a" else None
        if target is not None and target.startswith("/"):
            self.found.add(target.partition("#")[0])


def test_no_link_is_dead(steerable: Served) -> None:
    """Of the overview with requests of each kind, and of the pages that it links."""
    cookie, _ = steerable.log_in()
    seen, due = set[str](), {"/"}
    view = _with_every_kind()
    steerable.publisher.tend(view, at_once=True)
    with steerable.cycling(view):
        for _ in range(3):
            links = _Links()
            for path in sorted(due):
                response, body = steerable.fetch(path, Cookie=cookie)
                assert response.status == HTTPStatus.OK, (path, body)
                if response.headers["Content-Type"].startswith("text/html"):
                    links.feed(body)
            seen |= due
            due = links.found - seen
    histories = {path for path in seen if path.startswith("/history")}
    assert any("cancel-00000000000000ff" in path for path in histories)
    assert any("cancel-02" in path for path in histories)
    assert not any("request_0000000000" in path for path in histories)


def test_a_cancellation_and_what_it_undid_name_each_other(served: Served) -> None:
    """The undone request is not green; both have pages."""
    served.is_running()
    view = _with_every_kind()
    served.publisher.tend(view, at_once=True)
    with served.cycling(view):
        overview = served.fetch("/")[1]
        assert '<span class="pill wait">undone</span>' in overview
        assert '<span class="pill bad">blocked: 1 of 3</span>' in overview
        page = served.fetch("/history?request=cancel-00000000000000ff")[1]
        words = " ".join(re.sub(r"<[^>]*>", " ", page).split())
        assert "undoes request_0000000001 (2 partitions)" in words
        assert "cancels request_0000000000 (1 partition)" in words
        page = served.fetch("/history?request=request_0000000001")[1]
        words = " ".join(re.sub(r"<[^>]*>", " ", page).split())
        assert "0 of 2 done 2 undone undone by cancel-00000000000000ff" in words
    assert re.search(r"<dt>Blocked</dt><dd class=\"bad\"><a href=\"#blocked\">1</a>", overview)


def test_blocked_partitions_can_be_listed(served: Served) -> None:
    """Those that wait for an operator or for a broker, in any phase."""
    served.is_running()
    view = _with_every_kind()
    served.publisher.tend(view, at_once=True)
    with served.cycling(view):
        listed = served.fetch("/?phase=blocked")[1].partition('id="listing"')[2]
    assert "1 partition, page 1 of 1" in listed
    assert "t-1</a>" in listed
