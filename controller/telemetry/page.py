"""
The status document as HTML: no script, no other file, everything escaped.

Three pages: the overview with a table that is filtered by its address, the history of one request,
and a form that asks for the token before anything is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlencode

from controller.core.blocked_reasons import COPYING
from controller.core.phases import LABELS
from controller.telemetry.page_frame import frame, ids, option, table
from controller.telemetry.partition_filter import IN_FLIGHT, Filter
from controller.telemetry.report_index import IndexedReport
from controller.telemetry.svg import duration, legend, matrix, quantity, timeline
from controller.telemetry.timelines import Timeline

ACTIONS: Final = ("pause", "resume", "cancel")
_STARTING: Final = "<p>The daemon is starting.</p>"
_PHASES: Final = (IN_FLIGHT, *list(LABELS.values())[:-1])


@dataclass(frozen=True, slots=True)
class Overview:
    """What the overview shows."""

    status: Mapping[str, Any]
    listing: Mapping[str, Any] | None = None
    """None: the loop was too busy to tell."""
    wanted: Filter = field(default_factory=Filter)
    ended: Sequence[Mapping[str, Any]] = ()
    """Summaries of ended requests, the latest first."""
    is_still: bool = False
    """Whether the page must not load itself anew, for somebody who types or reads."""
    is_steerable: bool = False
    """Whether a token is configured: only then there is anything to press."""
    reports: Sequence[IndexedReport] = ()
    """Of past work, the latest first."""


def render_page(shown: Overview | None) -> str:
    """Return the overview; None means that there is nothing to show yet."""
    if shown is None:
        return frame(_STARTING, refreshes=True)
    status = shown.status
    busy = matrix(status["broker_loads"], status["routes"])
    body = "\n".join(
        (
            _summary(status),
            _warnings(status),
            _stillness(shown),
            "<h2>Requests</h2>",
            _requests(status["requests"], shown),
            "<h2>Brokers</h2>",
            busy or '<p class="muted">No copies are under way or to come.</p>',
            _brokers(status["broker_loads"]),
            f"<h2>Blocked ({sum(status['blocked'].values())})</h2>",
            _blocked(status),
            '<h2 id="partitions">Partitions</h2>',
            _partitions(shown),
            "<h2>History</h2>",
            _history(shown.ended),
            _reports(shown.reports),
        )
    )
    return frame(body, refreshes=not shown.is_still)


def render_history(
    request: str,
    found: Timeline | None,
    now: datetime,
    reports: Sequence[IndexedReport] = (),
) -> str:
    """Return what is kept of one request: its end, its partitions' phases, and reports of it."""
    head = f'<p><a href="/">back</a></p><h2>Request <code>{escape(request)}</code></h2>'
    told = _report_links(request, reports)
    head += told and f"<p>{told}</p>"
    if found is None:
        words = "Nothing of this request is kept here; the journal has everything."
        return frame(f'{head}<p class="muted">{words}</p>', refreshes=False)
    picture = timeline(found, now)
    more = ""
    if found.left_out:
        more = (
            f'<p class="muted">{len(found.left_out)} more partitions are left out; the journal '
            "has them.</p>"
        )
    ending = "" if found.summary is None else _history([found.summary])
    return frame(f"{head}{ending}{legend()}{picture}{more}", refreshes=False)


def render_form(action: str, request: str, *, problem: str = "") -> str:
    """Return the form that asks for the token; ``request`` empty means everything."""
    what = f"request <code>{escape(request)}</code>" if request else "everything"
    told = f'<p class="bad">{escape(problem)}</p>' if problem else ""
    body = f"""<p><a href="/">back</a></p>
<h2>{escape(action.capitalize())} {what}?</h2>
{told}
<form method="post" action="/control">
<input type="hidden" name="action" value="{escape(action)}">
<input type="hidden" name="request" value="{escape(request)}">
<label>Token <input type="password" name="token" required autocomplete="off"></label>
<button type="submit">{escape(action.capitalize())}</button>
</form>"""
    return frame(body, refreshes=False)


# --- the overview ------------------------------------------------------------------------------


def _summary(status: Mapping[str, Any]) -> str:
    tenure = status["tenure"]
    role = f"controller since {tenure['since']}, epoch {tenure['epoch']}"
    counts = status["partitions"]
    words = (
        status["role"],
        f"engine {status['engine']}",
        role if tenure["held"] else "not the controller now",
        f"ZooKeeper {status.get('zookeeper', 'unknown')}",
        f"brokers {', '.join(map(str, status['brokers'])) or 'none'}",
        f"{counts['in_flight']} in flight",
        f"{counts['copying']} copying",
        f"{counts['waiting']} waiting",
    )
    return "<p>" + " &middot; ".join(escape(str(w)) for w in words) + "</p>"


def _warnings(status: Mapping[str, Any]) -> str:
    reasons = list(status["refused_because"])
    if status.get("unready_because"):
        reasons.append(status["unready_because"])
    unreachable = status.get("unreachable_brokers", {})
    reasons += [f"broker {b} cannot be reached: {why}" for b, why in unreachable.items()]
    return "".join(f'<p class="bad">{escape(str(r))}</p>' for r in (*reasons, *_held(status)))


def _held(status: Mapping[str, Any]) -> Iterator[str]:
    """Word what operators hold up."""
    paused = status["controls"]["paused"]
    named = [("everything", paused["everything"])] if paused["everything"] else []
    named += [(f"request {name}", about) for name, about in paused["requests"].items()]
    named += [(f"broker {broker}", about) for broker, about in paused["brokers"].items()]
    for what, about in named:
        by = f" by {about['by']}" if about["by"] else ""
        why = f": {about['reason']}" if about["reason"] else ""
        yield f"{what} is paused{by}{why}"
    if status["controls"]["disabled"]:
        yield "new reassignments are disabled"


def _stillness(shown: Overview) -> str:
    fields = {k: v for k, v in asdict(shown.wanted).items() if (k, v) != ("page", 1)}
    if shown.is_still:
        return f'<p class="muted"><a href="/?{_query(**fields)}">load anew by itself</a></p>'
    return f'<p class="muted"><a href="/?{_query(**fields, still=1)}">hold still</a></p>'


def _requests(requests: Sequence[Mapping[str, Any]], shown: Overview) -> str:
    is_steerable = shown.is_steerable
    heads: tuple[str, ...] = (
        *("request", "state", "progress", "partitions", "bytes", "ends in", "refused", "since"),
    )
    rows = (
        _request(r, is_steerable=is_steerable, told=_report_links(r["id"], shown.reports))
        for r in requests
    )
    everything = ""
    if is_steerable:
        everything = f'<p class="muted">everything: {_links("", ACTIONS)}</p>'
    heads = (*heads, "") if is_steerable else heads
    return table(heads, rows, empty="No request so far.") + everything


def _request(request: Mapping[str, Any], *, is_steerable: bool, told: str) -> tuple[str, ...]:
    counts, volume, eta = request["partitions"], request["bytes"], request["eta_s"]
    ended = counts["done"] + counts["refused"] + counts["cancelled"]
    most, value = max(1, counts["total"]), ended
    moved = ""
    if volume is not None:
        moved = f"{quantity(volume['moved'])} of {quantity(volume['total'])}"
        if request["bytes_per_s"]:
            moved += f", {quantity(request['bytes_per_s'])}/s"
        if volume["total"]:
            most, value = volume["total"], volume["moved"]
    is_open = request["state"] in {"in_flight", "waiting", "held"}
    if not counts["total"]:  # a cancellation counts with what it cancels
        value = 0 if is_open else most
    words = "" if eta is None or not is_open else _between(*eta)
    why = request.get("reason")
    state = escape(str(request["state"]))
    if why:
        state += f'<br><span class="muted">{escape(str(why))}</span>'
    cells = (
        _history_link(request["id"]) + (told and f"<br>{told}"),
        state,
        (
            f'<span class="bar"><progress max="{most}" value="{value}"></progress> '
            f"{100 * value // most} %</span>"
        ),
        (
            f"{counts['done']} of {counts['total']} done, {counts['in_flight']} in flight"
            if counts["total"]
            else ""
        ),
        escape(moved),
        escape(words),
        f'<span class="bad">{counts["refused"]}</span>' if counts["refused"] else "0",
        escape(str(request["since"])),
    )
    return (*cells, _links(request["id"], ACTIONS) if is_open else "") if is_steerable else cells


def _history_link(request: object) -> str:
    name = escape(str(request))
    return f'<a href="/history?{_query(request=request)}"><code>{name}</code></a>'


def _report_links(request: str, reports: Iterable[IndexedReport]) -> str:
    """Return links to the reports that are about a request."""
    return " ".join(_report_link(r, "report") for r in reports if request in r.requests)


def _report_link(report: IndexedReport, words: str) -> str:
    return f'<a href="/reports/{quote(report.name)}">{escape(words)}</a>'


def _reports(reports: Sequence[IndexedReport]) -> str:
    if not reports:
        return ""
    rows = (
        (
            _report_link(report, report.name),
            escape(f"{report.written_at:%Y-%m-%d %H:%M:%S}Z"),
            str(len(report.requests)),
        )
        for report in reports
    )
    return "<h2>Reports</h2>" + table(("report", "written", "requests"), rows, empty="")


def _between(low: float, high: float) -> str:
    early, late = duration(low), duration(high)
    return early if early == late else f"{early} to {late}"


def _links(request: str, actions: Iterable[str]) -> str:
    return " ".join(
        f'<a href="/control?{_query(action=action, request=request)}">{action}</a>'
        for action in actions
    )


def _query(**fields: object) -> str:
    return escape(urlencode({k: v for k, v in fields.items() if v not in ("", None)}))


def _brokers(loads: Sequence[Mapping[str, Any]]) -> str:
    busy = [b for b in loads if any(v for k, v in b.items() if k != "broker")]
    heads = ("broker", "copies", "serves", "in", "to come in", "out", "to go out")
    rows = (
        (
            f'<a href="/?{_query(broker=load["broker"])}#partitions">{int(load["broker"])}</a>',
            str(load["incoming"]),
            str(load["outgoing"]),
            f"{quantity(load['in_bytes_per_s'])}/s",
            quantity(load["in_bytes_remaining"]),
            f"{quantity(load['out_bytes_per_s'])}/s",
            quantity(load["out_bytes_remaining"]),
        )
        for load in busy
    )
    return table(heads, rows, empty="") if busy else ""


def _blocked(status: Mapping[str, Any]) -> str:
    first = {w["blocked_on"]["by"]: w for w in reversed(status["waiting"])}
    first.update(
        {
            p["blocked_on"]["by"]: p
            for p in reversed(status["in_flight"])
            if p["blocked_on"] is not None
        }
    )
    rows = (
        (escape(by), str(count), str(status["stalled"].get(by, 0)), _example(first.get(by)))
        for by, count in status["blocked"].items()
    )
    heads = ("waits for", "partitions", "stalled", "for example")
    slow = {by: n for by, n in status["stalled"].items() if by not in status["blocked"]}
    late = "".join(
        f'<p class="bad">{n} partitions without progress for too long: {escape(by)}</p>'
        for by, n in slow.items()
    )
    return table(heads, rows, empty="Nothing waits.") + late


def _example(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return escape(f"{found['topic']}-{found['partition']}: {_wait_words(found['blocked_on'])}")


def _partitions(shown: Overview) -> str:
    wanted, listing = shown.wanted, shown.listing
    broker = "" if wanted.broker is None else wanted.broker
    form = f"""<form method="get" action="/#partitions">
<label>topic <input name="topic" value="{escape(wanted.topic)}"></label>
<label>request <input name="request" value="{escape(wanted.request)}"></label>
<label>broker <input name="broker" size="6" value="{broker}"></label>
<label>phase <select name="phase">{option("", wanted.phase, "any")}
{"".join(option(p, wanted.phase) for p in _PHASES)}</select></label>
{'<input type="hidden" name="still" value="1">' if shown.is_still else ""}
<button type="submit">filter</button></form>"""
    if listing is None:
        return f'{form}<p class="bad">The loop is busy; load the page again.</p>'
    heads = ("partition", "phase", "step", "replicas", "target", "ISR", "leader", "state")
    rows = (_partition(p) for p in listing["partitions"])
    found = table(heads, rows, empty="None.")
    return f"{form}{found}{_pages(shown, listing)}"


def _pages(shown: Overview, listing: Mapping[str, Any]) -> str:
    page, pages = listing["page"], listing["pages"]
    fields = {k: v for k, v in asdict(shown.wanted).items() if k != "page"}
    fields["still"] = int(shown.is_still) or None
    links = [f"{listing['total']} partitions, page {page} of {pages}"]
    for words, number in (("before", page - 1), ("next", page + 1)):
        if 1 <= number <= pages:
            links.append(f'<a href="/?{_query(**fields, page=number)}#partitions">{words}</a>')
    return f'<p class="muted">{" &middot; ".join(links)}</p>'


def _partition(partition: Mapping[str, Any]) -> tuple[str, ...]:
    name = f"{partition['topic']}-{partition['partition']}"
    return (
        escape(name) + (' <span class="bad">stalled</span>' if partition["stalled"] else ""),
        escape(str(partition["phase"])),
        f"{partition['step']} of {partition['steps']}",
        ids(partition["replicas"]),
        ids(partition["target_replicas"]),
        ids(partition["isr"]),
        escape(str(partition["leader"])),
        escape(_state_words(partition)),
    )


def _state_words(partition: Mapping[str, Any]) -> str:
    blocked = partition["blocked_on"]
    if blocked is not None:
        return f"blocked by {_wait_words(blocked)}"
    since = f" since {partition['phase_since']}" if partition["state"] == COPYING else ""
    return f"{partition['state']}{since}"


def _wait_words(blocked: Mapping[str, Any]) -> str:
    since = f" since {blocked['since']}" if blocked["since"] else ""
    return f"{blocked['by']}: {blocked['detail']}{since}"


def _history(ended: Sequence[Mapping[str, Any]]) -> str:
    heads = ("request", "state", "took", "done", "refused", "cancelled", "copied")
    rows = (
        (
            _history_link(end["request"]),
            escape(str(end["state"])),
            escape(duration(end["seconds"])),
            f"{end['done']} of {end['entries']}",
            str(end["refused"]),
            str(end["cancelled"]),
            "" if end["bytes_moved"] is None else quantity(end["bytes_moved"]),
        )
        for end in ended
    )
    return table(
        heads,
        rows,
        empty="No ended request is known here; reassigner list --history may know some.",
    )
