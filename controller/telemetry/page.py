"""The status document as one HTML page: no script, no other file, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

REFRESH_S: Final = 2

_STYLE: Final = """
body { font: 14px/1.45 system-ui, sans-serif; color: #1d2430;
  margin: 2rem auto; max-width: 76rem; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #dde2ea }
th { color: #5b6677; font-weight: 600 } .bad { color: #b3261e } .muted { color: #5b6677 }
progress { width: 10rem; vertical-align: middle } code { font-size: 13px }
"""

_FRAME: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="{refresh}">
<title>kafka-reassigner</title>
<style>{style}</style>
</head>
<body>
<h1>kafka-reassigner</h1>
{body}
<p class="muted"><a href="/status">status as JSON</a> &middot; <a href="/metrics">metrics</a></p>
</body>
</html>
"""


def render_page(status: Mapping[str, Any] | None) -> str:
    """Return the page; None means that there is nothing to show yet."""
    body = "<p>The daemon is starting.</p>" if status is None else _body(status)
    return _FRAME.format(refresh=REFRESH_S, style=_STYLE, body=body)


def _body(status: Mapping[str, Any]) -> str:
    return "\n".join(
        (
            _summary(status),
            _warnings(status),
            "<h2>Requests</h2>",
            _table(
                ("request", "route", "state", "progress", "", "refused", "since"),
                (_request(r) for r in status["requests"]),
                empty="No request so far.",
            ),
            f"<h2>In flight ({status['partitions']['in_flight']})</h2>",
            _table(
                ("partition", "phase", "step", "replicas", "target", "ISR", "leader", "waits for"),
                (_partition(p) for p in status["in_flight"]),
                empty="Nothing is in flight.",
            ),
            f"<h2>Blocked ({sum(status['blocked'].values())})</h2>",
            _table(
                ("waits for", "partitions", "stalled"),
                (
                    (escape(by), str(count), str(status["stalled"].get(by, 0)))
                    for by, count in status["blocked"].items()
                ),
                empty="Nothing waits.",
            ),
            f"<h2>Waiting ({status['partitions']['waiting']}), the first for each reason</h2>",
            _table(
                ("partition", "request", "waits for"),
                (_waiting(p) for p in status["waiting"]),
                empty="Nothing waits for its turn.",
            ),
        )
    )


def _summary(status: Mapping[str, Any]) -> str:
    tenure = status["tenure"]
    role = f"controller since {tenure['since']}, epoch {tenure['epoch']}"
    waiting = status["partitions"]["waiting"]
    words = (
        status["role"],
        f"engine {status['engine']}",
        role if tenure["held"] else "not the controller now",
        f"ZooKeeper {status.get('zookeeper', 'unknown')}",
        f"brokers {', '.join(map(str, status['brokers'])) or 'none'}",
        f"{waiting} waiting",
    )
    return "<p>" + " &middot; ".join(escape(str(w)) for w in words) + "</p>"


def _warnings(status: Mapping[str, Any]) -> str:
    reasons = list(status["refused_because"])
    if status.get("unready_because"):
        reasons.append(status["unready_because"])
    return "".join(f'<p class="bad">{escape(str(r))}</p>' for r in reasons)


def _request(request: Mapping[str, Any]) -> tuple[str, ...]:
    counts = request["partitions"]
    ended = counts["done"] + counts["refused"] + counts["cancelled"]
    bar = f'<progress max="{max(1, counts["total"])}" value="{ended}"></progress>'
    return (
        f"<code>{escape(str(request['id']))}</code>",
        escape(str(request["route"])),
        escape(str(request["state"])),
        bar,
        f"{counts['done']} of {counts['total']} done, {counts['in_flight']} in flight",
        f'<span class="bad">{counts["refused"]}</span>' if counts["refused"] else "0",
        escape(str(request["since"])),
    )


def _partition(partition: Mapping[str, Any]) -> tuple[str, ...]:
    blocked = partition["blocked_on"]
    waits = "" if blocked is None else _wait_words(blocked)
    name = f"{partition['topic']}-{partition['partition']}"
    return (
        escape(name) + (' <span class="bad">stalled</span>' if partition["stalled"] else ""),
        escape(str(partition["phase"])),
        f"{partition['step']} of {partition['steps']}",
        _ids(partition["replicas"]),
        _ids(partition["target_replicas"]),
        _ids(partition["isr"]),
        escape(str(partition["leader"])),
        escape(waits),
    )


def _waiting(partition: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        escape(f"{partition['topic']}-{partition['partition']}"),
        f"<code>{escape(str(partition['request']))}</code>",
        escape(_wait_words(partition["blocked_on"])),
    )


def _wait_words(blocked: Mapping[str, Any]) -> str:
    since = f" since {blocked['since']}" if blocked["since"] else ""
    return f"{blocked['by']}: {blocked['detail']}{since}"


def _ids(brokers: Iterable[object]) -> str:
    return escape(", ".join(map(str, brokers)))


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, empty: str) -> str:
    """Return a table of cells that are HTML already."""
    lines = ["<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows]
    if not lines:
        return f'<p class="muted">{empty}</p>'
    head = "".join(f"<th>{h}</th>" for h in heads)
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"
