"""The pages show the status, escaped and well formed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from controller.actions.submission import PlanSubmission
from controller.core.core_settings import EngineName
from controller.core.cycle import observe
from controller.core.disks.model import Silence
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    LogDir,
    MinFree,
    OutcomeKind,
    Refusal,
    RefusalReason,
    RequestId,
    TopicPartition,
)
from controller.core.pacing.controls import (
    Controls,
    Drain,
    Drains,
    Evacuation,
    Limits,
    Pause,
    Pauses,
    Quiesce,
    UnderMinIsr,
)
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.phases import Syncing
from controller.core.requests.submissions import RequestOptions
from controller.core.view import ClusterView
from controller.previews.plan_files import PlanFile
from controller.telemetry.cluster_counts import (
    AssignedReplicas,
    Incremental,
    assigned_replicas,
    work_counts,
)
from controller.telemetry.copies import Copies
from controller.telemetry.json_values import Clocks
from controller.telemetry.partition_documents import BLOCKED, Filter, PartitionDocuments
from controller.telemetry.status_document import status_of
from controller.telemetry.timelines import Timeline, Timelines
from controller.web.access import ANYONE, Identity, TokenRole
from controller.web.broker_survey import SurveyedBroker, SurveyedCluster
from controller.web.page_plans import BrokerChoice
from controller.web.pages import (
    UNGUARDED_MAX,
    render_form,
    render_history,
    render_login,
    render_page,
    render_plan_form,
    render_starting,
    render_submitted,
)
from controller.web.steering import PageAction
from tests.core.builders import tp
from tests.telemetry.builders import (
    REQUEST,
    START,
    a_view,
    measured,
    partition_state,
    run_to_end,
)
from tests.telemetry.test_copy_volumes import two_to_copy
from tests.telemetry.test_measurements import CHANGE

VOID = {"meta", "br", "input"}


class Balanced(HTMLParser):
    """Collects tags that are not closed in order."""

    def __init__(self) -> None:
        """Begin outside of everything."""
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an opened tag."""
        del attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note a closed tag."""
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)


OPERATOR = Identity("<alice>", TokenRole.OPERATE, "secret")
NOW = Instant(1000.0)
ENDED = {
    "request": "<old>",
    "state": "done",
    "seconds": 4000.0,
    "entries": 7,
    "done": 6,
    "refused": 1,
    "cancelled": 0,
    "bytes_moved": 5_000_000,
}


def a_timeline() -> Timeline:
    """Return the timeline of a partition that was in three phases."""
    timelines = Timelines()
    for before, phase, seconds, at in (
        ("pending", "A2", 2.0, 0),
        ("A2", "A2-syncing", 1.0, 1),
        ("A2-syncing", "ended", 9.0, 10),
    ):
        change = replace(CHANGE, phase=phase, before=before, seconds=seconds, request="r")
        timelines.add_change(change, START + timedelta(seconds=at))
    timelines.end_request({**ENDED, "request": "r"}, START + timedelta(seconds=10))
    found = timelines.of("r")
    assert found is not None
    return found


def page(
    view: ClusterView,
    counted: Incremental[AssignedReplicas] | None = None,
    surveyed: SurveyedCluster | None = None,
    who: Identity | None = None,
    wanted: Filter | None = None,
) -> str:
    """Return the overview of a view."""
    assigned = AssignedReplicas() if counted is None else run_to_end(counted)
    clocks = Clocks(NOW, START)
    work = run_to_end(work_counts(view, clocks.now, 300.0))
    tracker = measured(view, clocks)
    documents = PartitionDocuments(view, clocks, Copies(), tracker, 300.0)
    status = run_to_end(
        status_of(
            view,
            clocks,
            work,
            engine="native",
            progress=tracker,
            documents=documents,
            assigned=assigned,
        )
    )
    wanted = wanted or Filter()
    listing = documents.page(wanted)
    return render_page(
        status,
        listing,
        wanted=wanted,
        who=OPERATOR if who is None else who,
        ended=[ENDED],
        reports=(),
        points=(),
        is_still=False,
        surveyed=surveyed,
    )


def a_busy_view() -> ClusterView:
    """Return a view with a partition in flight and a refusal."""
    built = a_view(1, 2, 3).with_partition(
        tp(), (1, 2, 3), adding=(3,), state=partition_state(1, (1, 2))
    )
    view = built.with_reassignment(tp(), (2, 3), Syncing(), step=1, since=0.0).view
    view.reassignments.by_partition[tp()].blocked = Blocked(
        BlockedBy.BROKER_DEAD, "<b>broker 3</b> is dead"
    )
    refusal = Refusal(REQUEST, "x", RefusalReason.MALFORMED, "no")
    view.requests.by_id[REQUEST].refused.append(refusal)
    return view


def test_the_page_is_well_formed() -> None:
    """Every tag is closed, with and without work."""
    for html in (
        render_starting(),
        page(a_view(1, epoch=None).view),
        page(a_busy_view()),
        page(two_to_copy(EngineName.DELEGATED).view),
        render_history("r", a_timeline(), START),
        render_history("r", None, START),
        render_form(PageAction.PAUSE, "<r>", OPERATOR, problem="<b>"),
    ):
        parser = Balanced()
        parser.feed(html)
        assert (parser.open, parser.wrong) == ([], [])


def test_the_page_shows_partitions_and_requests() -> None:
    """Phase, target and blocked reason."""
    html = page(a_busy_view())
    for text in (
        '<td data-label="partitions" class="n">1</td><td data-label="stalled" class="n bad">1</td>',
        ">t-0</a>: &lt;b&gt;broker 3&lt;/b&gt; is dead",
        "start the broker again or repair its disk",
        "t-0",
        "A2-syncing",
        "1, 2, 3",
        str(REQUEST),
        "stalled",
        "epoch 9",
    ):
        assert text in html


def test_phases_are_in_words_with_their_names_on_hover() -> None:
    """In the tables, in the filter and in the legend of the timeline."""
    html = page(a_busy_view())
    assert re.search(
        r'<span title="A2-syncing: [^"]+">.*?</span>copying, blocked</span>', html, re.DOTALL
    )
    assert '<option value="B5">deleting the old copy</option>' in html
    assert '<option value="in_flight">in flight</option>' in html
    assert 'title="B5: ' in render_history("r", a_timeline(), START)


@pytest.mark.parametrize(
    ("fates", "refused", "shown"),
    [
        ({}, 0, ('class="done"', '<span class="pill done">done</span>', "100 %")),
        (
            {OutcomeKind.CANCELLED: 1},
            0,
            ('class="stopped"', '<span class="pill wait">cancelled in part</span>', "50 %"),
        ),
        (
            {OutcomeKind.SUPERSEDED: 2},
            0,
            ('class="stopped"', '<span class="pill wait">superseded</span>', "0 %"),
        ),
        ({}, 2, ('class="stopped"', '<span class="pill bad">refused</span>', "0 %")),
    ],
)
def test_only_a_request_that_is_done_has_a_green_bar(
    fates: dict[OutcomeKind, int], refused: int, shown: tuple[str, ...]
) -> None:
    """Of what was refused, cancelled or superseded the bar shows the part that is done."""
    view = a_busy_view()
    view.reassignments.by_partition.clear()
    view.reassignments_leadership.specs_read = True
    refusal = Refusal(REQUEST, "x", RefusalReason.MALFORMED, "no")
    view.requests.by_id[REQUEST] = replace(
        view.requests.by_id[REQUEST],
        total=2,
        open=0,
        refused=[refusal] * refused,
        fates=Counter(fates),
    )
    html = page(view)
    for words in shown:
        assert words in html
    assert ('class="done"' in html) is (not fates and not refused)


def test_dead_brokers_are_named_in_red_where_brokers_are_counted() -> None:
    """And nowhere while all are live."""
    view = a_view(1, 2).with_partition(tp(), (1, 4)).view
    assert "dead" not in page(view)
    html = page(view, assigned_replicas(view))
    assert '<dd class="bad">2 <small>live, 1 dead: 4</small></dd>' in html
    assert '<b class="bad">dead: 4</b>' in html
    assert '>4</a> <span class="pill bad">dead</span>' in html


def test_every_broker_is_shown_with_what_it_has() -> None:
    """Also without work: what the daemon counts, and what brokers answered for the page."""
    built = a_view(1, 2).with_partition(tp(), (1, 2), state=partition_state(1, (1, 2)))
    view = built.view
    view.role.leading = True
    surveyed = SurveyedCluster(
        {
            BrokerId(1): SurveyedBroker(5_000_000, LogDir("/<data>", 100, 25)),
            BrokerId(2): SurveyedBroker(problem="<not allowed>"),
        },
        {BrokerId(1): 7},
    )
    view.leadership.states.clear()
    html = page(view, assigned_replicas(view), surveyed)
    rows = re.search(r'aria-label="brokers">(.*?)</table>', html, re.DOTALL)
    assert rows is not None
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", rows[1]))
    words = words.replace("\N{EN DASH}", "-")
    assert "1 - 1 7 5 MB 75 % of /&lt;data&gt; 75 %" in words
    assert "2 - 1 0 - -" in words
    assert 'title="&lt;not allowed&gt;"' in html


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Filter(), "No partition is in flight or waiting."),
        (
            Filter(broker=2),
            (
                "No partition is in flight or waiting on broker 2. It has 1 replica and leads 0 "
                "partitions."
            ),
        ),
        (
            Filter(broker=99),
            "There is no broker 99: it is not live, and no partition has a replica on it.",
        ),
        (
            Filter(topic="<t>", request="r", phase=BLOCKED, broker=1),
            (
                "No partition is blocked for request r of a topic with &#39;&lt;t&gt;&#39; in its "
                "name on broker 1. It has 1 replica and leads 1 partition."
            ),
        ),
    ],
)
def test_a_filter_that_selects_nothing_says_of_what(wanted: Filter, words: str) -> None:
    """What a broker holds without a reassignment is counted; a wrong id is named."""
    view = a_view(1, 2).with_partition(tp(), (1, 2), state=partition_state(1, (1, 2))).view
    view.role.leading = True
    assert words in page(view, assigned_replicas(view), wanted=wanted)


def test_blocked_copies_are_marked_in_the_table_of_brokers() -> None:
    """The tile of copies does not count them."""
    state = partition_state(1, (1, 2))
    built = a_view(1, 2).with_partition(tp(), (1, 2, 3), adding=(3,), state=state)
    view = built.with_reassignment(tp(), (2, 3), Syncing(), original=(1, 2), step=1).view
    view.reassignments.by_partition[tp()].blocked = Blocked(BlockedBy.BROKER_DEAD, "3 is dead")
    html = page(view)
    assert html.count('1 <span class="bad">(blocked)</span>') == 2
    assert "No replica is being copied." in html


def test_a_partition_that_copies_is_not_shown_as_blocked() -> None:
    """Its state is copying; without progress for too long it is stalled."""
    view = a_busy_view()
    copies = Blocked(BlockedBy.REPLICA_NOT_IN_ISR, "replica 3 is not in ISR", is_copying=True)
    view.reassignments.by_partition[tp()].wait(copies, Instant(0.0))
    html = page(view)
    assert "<small>0 blocked, 0 in flight and held up, 0 waiting</small></h2>" in html
    assert "No partition is blocked." in html
    assert "<h2>Copying <small>1 partition</small></h2>" in html
    assert "no report of its bytes yet" in html
    assert "1 partition is stalled: <code>replica_not_in_isr</code>. Remedy: check that" in html


def test_the_page_shows_what_copies_leave_free_and_which_brokers_are_not_guarded() -> None:
    """Of many brokers, some with the reason."""
    view = a_view(*range(7)).view
    assert "min_free is none" in page(view)
    view.options = replace(view.options, min_free=MinFree(share=0.02))
    html = page(view)
    assert "Copies leave 2% free" in html
    assert "copies may fill" not in html
    for broker in map(BrokerId, range(7)):
        epoch = view.cluster.brokers[broker].epoch
        why = Silence(epoch, Instant(0), "<no permission>", is_refused=True)
        view.disks.of(broker).silence = why
    html = page(view)
    assert html.count("copies may fill the disks of broker") == UNGUARDED_MAX
    assert "broker 0: &lt;no permission&gt;" in html
    assert "2 more brokers" in html


def test_values_from_the_cluster_are_escaped() -> None:
    """Names and reasons may contain markup."""
    html = page(a_busy_view())
    assert "<b>broker" not in html
    assert "&lt;b&gt;broker 3&lt;/b&gt; is dead" in html


HOSTILE = "<script>alert(1)</script>\"'"


def test_hostile_names_stay_text() -> None:
    """Of topics, requesters, reasons, pauses, paths and tokens, in text and in attributes."""
    built = a_view(1, 2, 3)
    partition = TopicPartition(HOSTILE, 0)
    built.with_partition(partition, (1, 2, 3), adding=(3,), state=partition_state(1, (1, 2)))
    view = built.with_reassignment(partition, (2, 3), Syncing(), step=1, since=0.0).view
    request = view.requests.by_id[REQUEST]
    request.options = RequestOptions(reason=HOSTILE, requested_by=HOSTILE)
    view.pacing_process.controls = Controls(Pauses(everything=Pause(HOSTILE, HOSTILE)))
    who = Identity(HOSTILE, TokenRole.OPERATE, HOSTILE)
    filled = dict.fromkeys(("broker", "plan", "reason", "throttle"), HOSTILE)
    for html in (
        page(view),
        render_history(HOSTILE, a_timeline(), START, who=who),
        render_form(PageAction.PAUSE, HOSTILE, who, problem=HOSTILE),
        render_login(HOSTILE, problem=HOSTILE),
        render_plan_form(
            who, filled, [BrokerChoice(BrokerId(1), HOSTILE)], [HOSTILE], problem=HOSTILE
        ),
        render_plan_form(who, {"kind": "undo", "request": HOSTILE, "topic": HOSTILE}, (), ()),
        render_submitted(who, RequestId(HOSTILE), PlanSubmission(plan=PlanFile(entries={}))),
    ):
        assert "<script>alert" not in html
        assert 'alert(1)</script>"' not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;" in html
        parser = Balanced()
        parser.feed(html)
        assert (parser.open, parser.wrong) == ([], [])


def test_the_page_loads_nothing_from_elsewhere() -> None:
    """Only the script of the same server, without which it works, too."""
    html = page(a_busy_view())
    assert re.findall(r'src="([^"]*)"', html) == ["/page.js"]
    assert "http://" not in html
    assert re.findall(r"<script[^>]*>", html) == ['<script src="/page.js" defer>']
    assert not re.search(r" on\w+=", html)


def test_copies_between_brokers_are_a_picture() -> None:
    """The source and the receiver of each copy, with the bytes that are left."""
    html = page(two_to_copy(EngineName.DELEGATED).view)
    assert "<title>1 serves 1 replica to 4</title>" in html
    assert html.count('class="route"') == 1
    assert "copies between brokers" not in page(a_view(1).view)


def test_phases_are_a_picture_on_one_axis() -> None:
    """A phase whose start was not seen begins by its duration."""
    html = render_history("r", a_timeline(), START)
    assert html.count('class="span"') == 3
    for words in (
        "t-0 waiting (pending) 2.0 s",
        "t-0 starting a step (A2) 1.0 s",
        "t-0 copying (A2-syncing) 9.0 s",
    ):
        assert words in html
    assert "67 min" in html


def test_only_the_overview_refreshes() -> None:
    """Unless it is asked not to."""
    html = page(a_busy_view())
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in html
    assert 'data-refresh="5"' in html
    assert "http-equiv" not in render_form(PageAction.CANCEL, "", OPERATOR)
    assert "http-equiv" not in render_history("r", None, START)


def test_ended_cancellation_is_at_100_percent() -> None:
    """It has no partitions of its own."""
    view = a_busy_view()
    view.requests.by_id[REQUEST] = replace(
        view.requests.by_id[REQUEST], total=0, open=0, refused=[]
    )
    view.reassignments.by_partition.clear()
    html = page(view)
    assert "100 %" in html
    assert "0 of 0 done" not in html


def test_brake_is_shown_with_what_holds_it_and_is_set_from_there() -> None:
    """By a form that says what it does."""
    view = a_view(1).view
    assert "under_min_isr" not in page(view)
    view.pacing_process.controls = Controls(limits=Limits(under_min_isr=UnderMinIsr.WARN))
    html = page(view)
    assert "under_min_isr: warn" in html
    assert "/control?action=wait" in html
    form = render_form(PageAction.WARN, "", OPERATOR)
    assert "Set under_min_isr to warn?" in form
    assert "everything" not in form


def test_drained_brokers_are_at_the_top() -> None:
    """With the reason, escaped, and what is left."""
    view = a_view(1).with_partition(tp(), (5, 1)).view
    assert "drained" not in page(view)
    drains = Drains({BrokerId(b): Drain("<swap>", "ann@desk") for b in (5, 6)})
    observe(view, ControlsRead(Controls(drains=drains)), Instant(0.0))
    html = page(view)
    assert "broker 5 is being drained by ann@desk: &lt;swap&gt; <small>1 replica left" in html
    assert "broker 6 is drained by ann@desk: &lt;swap&gt; <small>empty: it need not return" in html


def test_evacuated_brokers_are_named_in_the_table_of_brokers() -> None:
    """With author and reason, escaped; those who may operate get a link that returns them."""
    view = a_view(1, 2).view
    assert "evacuated" not in page(view)
    found = {BrokerId(2): Evacuation("<kernel>", "ann@desk", 1_767_312_000_000)}
    observe(view, ControlsRead(Controls(evacuated=found)), Instant(0.0))
    html = page(view)
    assert (
        "broker 2: leaderships evacuated since 2026-01-02 00:00:00Z by ann@desk: &lt;kernel&gt;"
        in html
    )
    assert 'href="/plan?kind=leaders&amp;task=return&amp;broker=2#leaders"' in html
    assert ">evacuated</span>" in html
    assert "/plan?kind=leaders" not in page(view, who=ANYONE)


def test_pause_or_resume_is_offered_whichever_applies() -> None:
    """Of a request, and of everything; a quiesce is ended by a resume, too."""
    view = a_busy_view()
    own, everything = f"action={{}}&amp;request={REQUEST}", 'action={}"'

    def offered(controls: Controls) -> list[str]:
        view.pacing_process.controls = controls
        html = page(view)
        kinds = [own.format(a) for a in ("pause", "resume")]
        kinds += [everything.format(a) for a in ("pause", "resume")]
        return [kind for kind in kinds if kind in html]

    assert offered(Controls()) == [own.format("pause"), everything.format("pause")]
    one = Controls(Pauses(requests={REQUEST: Pause()}))
    assert offered(one) == [own.format("resume"), everything.format("pause")]
    all_ = Controls(Pauses(everything=Pause()))
    assert offered(all_) == [own.format("pause"), everything.format("resume")]
    quiesced = Controls(Pauses(quiesce=Quiesce()))
    assert everything.format("resume") in offered(quiesced)


def test_pauses_and_kill_switch_are_at_the_top() -> None:
    """With the reason, escaped."""
    view = a_view(1).view
    assert "paused" not in page(view)
    view.pacing_process.controls = Controls(
        Pauses(brokers={BrokerId(5): Pause("<swap>", "ann@desk")})
    )
    view.requests_session.kill_switch = True
    html = page(view)
    assert "broker 5 is paused by ann@desk: &lt;swap&gt;" in html
    assert "new reassignments are disabled" in html
