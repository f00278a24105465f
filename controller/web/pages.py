"""
The HTML pages, rendered from ``templates/``: every value escaped, and no script needed.

The overview with a table of partitions that its address filters, the history of one request, the
log-in, and a form that asks again before anything is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib import resources
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from controller.core.model import BrokerId, RequestId, count_text, request_text
from controller.core.pacing.controls import Evacuation
from controller.core.reason_kinds import BLOCKING, COPYING
from controller.core.reassignments.phases import LABELS
from controller.doctor.findings import CLIENTS_WAIT_NOW
from controller.previews.entries import unknown_text
from controller.previews.holds import evacuation_words, left_words, running_words
from controller.telemetry.advice import (
    OPEN_STATES,
    PHASE_MEANINGS,
    advice_for,
    burst_words,
    count_words,
    governor_lines,
    phase_of,
    phase_words,
    remedy_for,
    rolls_back,
    state_words,
    throttle_words,
    tone_of,
    wait_word,
)
from controller.telemetry.gauges import LOADS
from controller.telemetry.partition_documents import BLOCKED, IN_FLIGHT, Filter
from controller.telemetry.timelines import Timeline, TrendPoint
from controller.units import (
    low_rate_text,
    percent,
    show_bytes,
    show_duration,
    show_estimate,
    show_rate,
    show_throttle,
    show_time,
)
from controller.web.access import ANYONE, Identity
from controller.web.broker_survey import SurveyedBroker, SurveyedCluster
from controller.web.limits_form import FIELDS, SHOWN
from controller.web.page_plans import BrokerChoice, NewQuiesce, PlanPreview, Wanted, words_of
from controller.web.pictures import COLORS, charts_of, copy_matrix, fill_of, phase_timeline
from controller.web.report_index import IndexedReport
from controller.web.steering import MEANINGS, PageAction

Document = Mapping[str, Any]

REFRESH_S: Final = 5
UNGUARDED_MAX: Final = 5
REQUESTS_MAX: Final = 25
"""The most requests on the overview; the newest come first."""
COPYING_MAX: Final = 25
DIRECTORIES_MAX: Final = 25
"""The most log directories on the overview; the fullest come first."""
BROKERS_MAX: Final = 60
PATH_MAX: Final = 34
DOTS: Final[Mapping[str, int]] = {
    "pending": 0,
    "ordered": 1,
    "A1": 1,
    "A2": 1,
    "A2-syncing": 2,
    "B3": 3,
    "B5": 4,
    "placing": 5,
}
"""The place of each phase in the row of dots."""
LEADERSHIP_TASKS: Final[Mapping[str, str]] = {
    "evacuate": "move leaderships off the brokers, for maintenance",
    "return": "return leaderships to evacuated brokers",
    "forget": "keep the present order: no evacuation any longer",
}
"""What the form for leaderships offers."""
_LOCAL: Final = re.compile(r"/(?![/\\])[A-Za-z0-9_.,:/?&=%+~-]*")
_PHASES: Final = (IN_FLIGHT, BLOCKED, *list(LABELS.values())[:-1])


def render_starting() -> str:
    """Return the overview before the loop published a status."""
    return _render("starting", "starting", refresh_s=REFRESH_S)


def render_standby(status: Document, who: Identity) -> str:
    """
    Return the page of a daemon that does not lead: where the leader is, and nothing of the work.

    What a standby read of the work may be old, and it has no rates.
    """
    leader = status["leader"]
    address = leader if leader is None or "://" in leader else f"http://{leader}"
    is_safe = address is not None and urlsplit(address).scheme in {"http", "https"}
    return _render(
        "standby",
        "standby",
        refresh_s=REFRESH_S,
        at=status["at"],
        status=status,
        leader=address if is_safe else None,
        who=who,
        is_read_only=True,
    )


def render_page(  # noqa: PLR0913 - what it shows
    status: Document,
    listing: Document | None,
    *,
    wanted: Filter,
    who: Identity,
    ended: Sequence[Document],
    reports: Sequence[IndexedReport],
    points: Sequence[TrendPoint],
    is_still: bool,
    is_accepted: bool = False,
    surveyed: SurveyedCluster | None = None,
) -> str:
    """
    Return the overview; ``is_accepted``: a form was, and does not show yet.

    ``listing`` is a page of partitions, None where the loop was too busy to answer. Summaries of
    ``ended`` requests and ``reports`` come the latest first, ``points`` of the charts the oldest. A
    page that ``is_still`` does not refresh by itself.
    """
    loads, copies, brokers = status["broker_loads"], _copies(status), _brokers(status, surveyed)
    return _render(
        "overview",
        "overview",
        at=status["at"],
        refresh_s=None if is_still else REFRESH_S,
        interval_s=REFRESH_S,
        status=status,
        listing=listing,
        filter={k: v for k, v in asdict(wanted).items() if k != "page"},
        ended=_with_undone(ended, status),
        linked=_ids(status["requests"], ended),
        blocked=sum(n for by, n in status["blocked"].items() if by in BLOCKING),
        held_up=sum(n for by, n in status["blocked_in_flight"].items() if by not in BLOCKING),
        reports=reports,
        is_still=is_still,
        is_accepted=is_accepted,
        who=who,
        requests=status["requests"][:REQUESTS_MAX],
        counts_by_request={r["id"]: r["partitions"] for r in status["requests"]},
        charts=charts_of(points),
        copies=copies,
        copying_shown=len({(p["topic"], p["partition"]) for p, _ in copies}),
        directories=_directories(status["disks"]),
        matrix=copy_matrix(loads, status["routes"]),
        brokers=brokers,
        doubt=low_rate_text(status["limits"]["throttle"]),
        empty=_empty_text(wanted, loads, brokers),
        clients_wait_now=CLIENTS_WAIT_NOW,
        surveyed=surveyed,
        examples=_examples(status),
        phases=_PHASES,
        in_flight=IN_FLIGHT,
        throttle=throttle_words(status),
        burst=burst_words(status),
        governor=list(governor_lines(status)),
        unguarded_max=UNGUARDED_MAX,
    )


def render_history(  # noqa: PLR0913 - what it shows
    request: str,
    timeline: Timeline | None,
    now: datetime,
    reports: Sequence[IndexedReport] = (),
    *,
    status: Document | None = None,
    ended: Sequence[Document] = (),
    who: Identity = ANYONE,
) -> str:
    """
    Return the end of one request, the phases of its partitions, and the reports about it.

    The ``status`` may have the request, and ``ended`` are the summaries of those that have pages.
    """
    requests = () if status is None else status["requests"]
    known = next((r for r in requests if r["id"] == request), None)
    summary = None if timeline is None or timeline.summary is None else timeline.summary
    if summary is not None:
        (summary,) = _with_undone([summary], status or {})
    return _render(
        "history",
        request_text(RequestId(request)),
        at=now.isoformat(),
        request=request,
        timeline=timeline,
        picture=None if timeline is None else phase_timeline(timeline, now),
        reports=reports,
        known=known,
        shown=summary or known,
        summary=summary,
        linked=_ids(requests, ended),
        who=who,
    )


def render_form(action: PageAction, request: str, who: Identity, *, problem: str = "") -> str:
    """Return the form that asks again; an empty ``request`` means everything."""
    is_brake = action.is_brake
    return _render(
        "form",
        f"under_min_isr: {action}" if is_brake else f"{action.words} {request or 'everything'}",
        action=action,
        meaning=MEANINGS[action],
        request="" if is_brake else request,
        who=who,
        problem=problem,
    )


def render_limits(
    who: Identity,
    known: Mapping[str, str],
    in_force: Document,
    form: Mapping[str, str] | None = None,
    *,
    problem: str = "",
) -> str:
    """
    Return the form for throttle, window and limits, with those that are ``known`` to be set.

    A ``form`` that was sent is shown as it was; ``in_force`` are the limits of the status.
    """
    return _render(
        "limits",
        "throttle, window and limits",
        who=who,
        fields=FIELDS,
        shown=SHOWN,
        known=known,
        values={**known, **(form or {})},
        in_force=in_force,
        problem=problem,
    )


def render_partition(name: str, found: Document, who: Identity) -> str:
    """Return what is known of one partition: phase, reason to wait, copies and steps to come."""
    at = found["at"]
    return _render("partition", name, partition=name, found=found, at=at, who=who)


def render_login(target: str, *, problem: str = "") -> str:
    """Return the form that asks for a token, and then shows ``target``."""
    return _render("login", "log in", target=target, problem=problem)


def render_plan_form(
    who: Identity,
    form: Mapping[str, str],
    brokers: Sequence[BrokerChoice],
    topics: Sequence[str],
    *,
    problem: str = "",
) -> str:
    """Return the forms for work, one of them filled in as it was sent, or as a link has it."""
    chosen = form.get("broker", "").replace(",", " ").split()
    return _render(
        "plan",
        "plan",
        who=who,
        form=form,
        brokers=brokers,
        topics=topics,
        chosen=chosen,
        tasks=LEADERSHIP_TASKS,
        problem=problem,
    )


def render_preview(who: Identity, draft: str, shown: PlanPreview, wanted: Wanted) -> str:
    """Return what a draft would do, with the form that submits it."""
    words = words_of(wanted, shown.entries)
    return _render("preview", "preview", who=who, draft=draft, shown=shown, words=words)


def render_submitted(
    who: Identity, request: RequestId | None, wanted: Wanted, *, is_shown: bool = True
) -> str:
    """Return what was just submitted, with the id of the request, if there is any."""
    return _render(
        "submitted",
        "submitted",
        who=who,
        request=None if isinstance(wanted, NewQuiesce) else request,
        words=words_of(wanted, 0),
        is_shown=is_shown,
    )


def actions_of(paused: Mapping[str, Any], request: str) -> tuple[PageAction, PageAction]:
    """Return what can be done with a request, or with everything: pause or resume, and cancel."""
    if request:
        is_paused = request in paused["requests"]
    else:
        is_paused = bool(paused["everything"] or paused.get("quiesce"))
    return (PageAction.RESUME if is_paused else PageAction.PAUSE, PageAction.CANCEL)


def safe_path(target: str) -> str:
    """Return a path of this server to show after the log-in; the overview for anything else."""
    return target if _LOCAL.fullmatch(target) else "/"


def _ids(*listed: Sequence[Document]) -> frozenset[str]:
    """Return the ids of requests that have a page."""
    return frozenset(r.get("id") or r["request"] for requests in listed for r in requests)


def _with_undone(ended: Sequence[Document], status: Document) -> list[dict[str, Any]]:
    """Return summaries of the journal with what was undone since, and what cancellations did."""
    found, undone_by = [], dict[str, dict[str, int]]()
    known = {r["id"]: r for r in status.get("requests", ())}
    for name, undone in status.get("undone", {}).items():
        undone_by.setdefault(undone["by"], {})[name] = undone["entries"]
    for end in ended:
        undone = status.get("undone", {}).get(end["request"])
        gone = 0 if undone is None else min(undone["entries"], end["done"])
        row = {**end, "total": end["entries"], "undone": gone, "done": end["done"] - gone}
        row["undoes"] = undone_by.get(end["request"], {})
        row["cancels"] = known.get(end["request"], {}).get("cancels", {})
        if undone is not None and gone:
            row |= {"state": "undoing" if undone["open"] else "undone", "undone_by": undone["by"]}
        found.append(row)
    return found


def _examples(status: Document) -> dict[str, Document]:
    """Return one partition for each reason, preferably one in flight."""
    partitions = (*reversed(status["waiting"]), *reversed(status["in_flight"]))
    return {p["blocked_on"]["by"]: p for p in partitions if p["blocked_on"] is not None}


def _empty_text(wanted: Filter, loads: Sequence[Document], rows: Sequence[Document]) -> str:
    """Say that a filter selects no partition, and what the broker has that it names."""
    states = {IN_FLIGHT: "in flight", BLOCKED: "blocked"}
    words = states.get(wanted.phase, "in flight or waiting")
    words += f" ({phase_words(wanted.phase)})" if wanted.phase in LABELS.values() else ""
    words += f" for {request_text(RequestId(wanted.request))}" if wanted.request else ""
    words += f" of a topic with {wanted.topic!r} in its name" if wanted.topic else ""
    if wanted.broker is None:
        return f"No partition is {words}."
    known = (found for found in (*rows, *loads) if found["broker"] == wanted.broker)
    found = next(known, None)
    if found is None:
        unknown = unknown_text([BrokerId(wanted.broker)])
        return f"{unknown[0].upper()}{unknown[1:]}."
    held, leads = found["replicas"], found["leaders"]
    has = "" if held is None else f" It has {count_text(held, 'replica')}"
    has += f" and leads {count_text(leads, 'partition')}" if has and leads is not None else ""
    return f"No partition is {words} on broker {wanted.broker}.{has and f'{has}.'}"


def _copies(status: Document) -> list[tuple[Document, Document | None]]:
    """Return the copies of the first partitions that copy, stalled ones first."""
    copying = [p for p in status["in_flight"] if p["state"] == COPYING or p["copying_to"]]
    copying.sort(key=lambda p: not p["stalled"])
    return [(p, copy) for p in copying[:COPYING_MAX] for copy in _running(p)]


def _running(partition: Document) -> list[Document | None]:
    """Return the copies of a partition, of a blocked one those that go on all the same."""
    is_blocked, running = partition["blocked_on"] is not None, partition["copying_to"]
    found = [c for c in partition["copies"] if not is_blocked or c["broker"] in running]
    return found or [None]


def _brokers(status: Document, surveyed: SurveyedCluster | None) -> list[dict[str, Any]]:
    """Return the brokers: of too many, the dead and evacuated ones and those with work."""
    live = set(status["brokers"])
    evacuated = {found["broker"]: _evacuation_words(found) for found in status["evacuations"]}
    facts = surveyed or SurveyedCluster()

    def row(load: Document) -> dict[str, Any]:
        broker = load["broker"]
        known = facts.brokers.get(broker, SurveyedBroker())
        fill, label = None, ""
        if known.fullest is not None:
            volume = {**asdict(known.fullest), "total_bytes": known.fullest.total}
            volume |= {"usable_bytes": known.fullest.usable, "reserved_bytes": 0}
            fill = fill_of(volume, status["disks"])
        if fill is not None and known.fullest is not None:
            label = f"{fill['used']:.0f} % of {known.fullest.path}"
        leaders = load["leaders"]
        if leaders is None and facts.leaders is not None:
            leaders = facts.leaders.get(broker, 0)
        return {
            **load,
            "leaders": leaders,
            "is_dead": broker not in live,
            "evacuated": evacuated.get(broker, ""),
            "size": known.size,
            "problem": known.problem,
            "fill": fill,
            "label": label,
        }

    rows = [row(load) for load in status["broker_loads"]]
    rows.sort(
        key=lambda r: (
            not (r["is_dead"] or r["evacuated"]),
            not any(r[key] for key in LOADS),
            r["broker"],
        )
    )
    return sorted(rows[:BROKERS_MAX], key=lambda r: r["broker"])


def _evacuation_words(found: Document) -> str:
    about = Evacuation(found["reason"], found["by"], found["since_ms"], found["returning"])
    return evacuation_words(about, found.get("verdict"))


def _directories(disks: Document) -> list[dict[str, Any]]:
    """Return the log directories with their fill: failed ones, then the fullest."""
    found = []
    for directory in disks["log_dirs"]:
        fill = fill_of(directory, disks)
        label = ""
        if fill is not None:
            label = f"{fill['used']:.1f} % used, {fill['reserved']:.1f} % reserved for copies"
        found.append({**directory, "fill": fill, "label": label})

    def key(directory: Document) -> tuple[bool, float, int, str]:
        fill = directory["fill"]
        share = 0.0 if fill is None else fill["used"] + fill["reserved"]
        return not directory["failed"], -share, directory["broker"], directory["path"]

    return sorted(found, key=key)[:DIRECTORIES_MAX]


def dots_of(phase: str) -> list[str]:
    """Return the state of each dot of a phase's row: past, now or next."""
    now = DOTS.get(phase, 0)
    row = range(max(DOTS["B5"], now) + 1)
    return ["past" if n < now else "now" if n == now else "next" for n in row]


def show_ago(moment: str, at: str) -> str:
    """Format a moment relative to another, both in ISO 8601."""
    seconds = (datetime.fromisoformat(at) - datetime.fromisoformat(moment)).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{show_duration(seconds)} ago" if seconds > 0 else f"in {show_duration(-seconds)}"


def _shorten(path: str) -> str:
    """Return the last parts of a long path, which distinguish it from others."""
    if len(path) <= PATH_MAX:
        return path
    end = path[1 - PATH_MAX :]
    slash = end.find("/")
    return f"…{end if slash < 0 else end[slash:]}"


def _coded(text: str) -> Markup:
    """Return a text with what stands in backticks set as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup().join(
        Markup("<code>{}</code>").format(part) if n % 2 else escape(part)
        for n, part in enumerate(parts)
    )


def _query(**fields: object) -> str:
    return urlencode({k: v for k, v in fields.items() if v not in ("", None)})


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("controller.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        bytes=show_bytes,
        rate=show_rate,
        throttle=show_throttle,
        percent=percent,
        duration=show_duration,
        ago=show_ago,
        time=show_time,
        coded=_coded,
        counted=count_text,
        shorten=_shorten,
    )
    environment.globals.update(
        query=_query,
        actions_of=actions_of,
        open_states=OPEN_STATES,
        blocking=BLOCKING,
        cluster_name=str,
        colors=COLORS,
        phase_words=phase_words,
        phase_of=phase_of,
        wait_word=wait_word,
        phase_title=lambda phase: f"{phase}: {PHASE_MEANINGS.get(phase, '')}",
        state_words=state_words,
        dots_of=dots_of,
        left_words=left_words,
        running_words=running_words,
        rolls_back=rolls_back,
        remedy=advice_for,
        remedy_for=remedy_for,
        time_left=lambda of: show_estimate(of["eta_s"], of["no_estimate"]),
        tone_of=tone_of,
        count_words=lambda counts: list(count_words(counts)),
        request_text=request_text,
    )
    return environment


_TEMPLATES: Final = _environment()


def name_cluster(name: Callable[[], str]) -> None:
    """Show this name of the cluster on every page from now on; empty while it is not known."""
    _TEMPLATES.globals["cluster_name"] = name


def _render(name: str, title: str, **values: object) -> str:
    defaults = {"refresh_s": None, "who": ANYONE, "title": title, "is_read_only": False}
    defaults |= {"page": name, "linked": None}
    return _TEMPLATES.get_template(f"{name}.html").render({**defaults, **values})


SCRIPT: Final = resources.files("controller.web").joinpath("templates", "page.js").read_bytes()
"""Refreshes parts of the overview in place."""
