"""
The HTML pages, rendered from ``templates/``: no script, no other file, every value escaped.

The overview with a table of partitions that its address filters, the history of one request, the
log-in, and a form that asks again before anything is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from controller.core.phases import LABELS
from controller.telemetry.partition_documents import IN_FLIGHT, Filter
from controller.telemetry.request_events import OPEN_STATES
from controller.telemetry.timelines import Timeline
from controller.units import show_bytes, show_duration
from controller.web.access import ANYONE, Identity
from controller.web.pictures import COLORS, copy_matrix, phase_timeline
from controller.web.report_index import IndexedReport

ACTIONS: Final = ("pause", "resume", "cancel")
REFRESH_S: Final = 5
UNGUARDED_MAX: Final = 5
"""The most brokers without a guard that the overview names."""
_LOCAL: Final = re.compile(r"/(?![/\\])[A-Za-z0-9_.,:/?&=%+~-]*")
_PHASES: Final = (IN_FLIGHT, *list(LABELS.values())[:-1])


@dataclass(frozen=True, slots=True)
class Overview:
    """The content of the overview."""

    status: Mapping[str, Any]
    listing: Mapping[str, Any] | None = None
    """A page of partitions; None: the loop was too busy to answer."""
    wanted: Filter = field(default_factory=Filter)
    ended: Sequence[Mapping[str, Any]] = ()
    """Summaries of ended requests, the latest first."""
    is_still: bool = False
    """Whether the page does not refresh by itself."""
    who: Identity = ANYONE
    """Who sees the page."""
    reports: Sequence[IndexedReport] = ()
    """The latest first."""


def render_page(shown: Overview | None) -> str:
    """Return the overview; None: the loop has not published a status yet."""
    if shown is None:
        return _render("starting", refresh_s=REFRESH_S)
    status, wanted = shown.status, shown.wanted
    return _render(
        "overview",
        refresh_s=None if shown.is_still else REFRESH_S,
        interval_s=REFRESH_S,
        status=status,
        listing=shown.listing,
        filter={k: v for k, v in asdict(wanted).items() if k != "page"},
        ended=shown.ended,
        reports=shown.reports,
        is_still=shown.is_still,
        who=shown.who,
        matrix=copy_matrix(status["broker_loads"], status["routes"]),
        busy_brokers=[
            load
            for load in status["broker_loads"]
            if any(v for k, v in load.items() if k != "broker")
        ],
        examples=_examples(status),
        phases=_PHASES,
        progress_of=progress_of,
        unguarded_max=UNGUARDED_MAX,
    )


def render_history(
    request: str,
    timeline: Timeline | None,
    now: datetime,
    reports: Sequence[IndexedReport] = (),
    *,
    who: Identity = ANYONE,
) -> str:
    """Return the end of one request, the phases of its partitions, and the reports about it."""
    picture = None if timeline is None else phase_timeline(timeline, now)
    return _render(
        "history",
        request=request,
        timeline=timeline,
        picture=picture,
        reports=reports,
        who=who,
    )


def render_form(action: str, request: str, who: Identity, *, problem: str = "") -> str:
    """Return the form that asks again; an empty ``request`` means everything."""
    return _render("form", action=action, request=request, who=who, problem=problem)


def render_login(target: str, *, problem: str = "") -> str:
    """Return the form that asks for a token, and then shows ``target``."""
    return _render("login", target=target, problem=problem)


def safe_path(target: str) -> str:
    """Return a path of this server to show after the log-in; the overview for anything else."""
    return target if _LOCAL.fullmatch(target) else "/"


def progress_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return how far a request is, in bytes where sizes are known, otherwise in partitions.

    Args:
        request: One of the ``requests`` of the status.

    Returns:
        ``value`` of ``most``, ``is_open``, and in words ``time_left`` and ``forecast``, the time in
        all that was forecast when the request was accepted.

    """
    counts, volume, eta = request["partitions"], request["bytes"], request["eta_s"]
    is_open = request["state"] in OPEN_STATES
    most = max(1, counts["total"])
    value = counts["done"] + counts["refused"] + counts["cancelled"]
    if volume is not None and volume["total"]:
        most, value = volume["total"], volume["moved"]
    if not counts["total"]:  # a cancellation counts with what it cancels
        value = 0 if is_open else most
    made = request.get("forecast")
    return {
        "value": value,
        "most": most,
        "is_open": is_open,
        "time_left": _range(*eta) if is_open and eta is not None else "",
        "forecast": "" if made is None else _range(made["low_s"], made["high_s"]),
    }


def _range(low_s: float, high_s: float | None) -> str:
    low = show_duration(low_s)
    if high_s is None:
        return f"at least {low}"
    high = show_duration(high_s)
    return low if low == high else f"{low} to {high}"


def _examples(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return one partition for each reason, preferably one in flight."""
    partitions = (*reversed(status["waiting"]), *reversed(status["in_flight"]))
    return {p["blocked_on"]["by"]: p for p in partitions if p["blocked_on"] is not None}


def _query(**fields: object) -> str:
    """Return a query string without the empty fields."""
    return urlencode({k: v for k, v in fields.items() if v not in ("", None)})


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("controller.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(bytes=show_bytes, duration=show_duration)
    environment.globals.update(query=_query, actions=ACTIONS, colors=COLORS)
    return environment


_TEMPLATES: Final = _environment()


def _render(name: str, **values: object) -> str:
    return _TEMPLATES.get_template(f"{name}.html").render(
        {"refresh_s": None, "who": ANYONE, **values}
    )
