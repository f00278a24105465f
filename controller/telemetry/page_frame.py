"""The frame every page shares, and its smallest parts; cells are HTML already, texts are not."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

REFRESH_S: Final = 5

_STYLE: Final = """
body { font: 14px/1.45 system-ui, sans-serif; color: #1d2430; background: #fff;
  margin: 2rem auto; max-width: 82rem; padding: 0 1rem }
h1 { font-size: 1.4rem } h1 a { color: inherit; text-decoration: none }
h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #dde2ea }
th { color: #5b6677; font-weight: 600 } .bad { color: #b3261e } .muted { color: #5b6677 }
progress { width: 10rem; vertical-align: middle } .bar { white-space: nowrap }
code { font-size: 13px }
svg { font: 11px system-ui, sans-serif; max-width: 100%; height: auto }
form label { margin-right: 1rem } .key { margin-right: 1rem }
.key i { display: inline-block; width: .8rem; height: .8rem; margin-right: .3rem }
"""

_FRAME: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
{refresh}<title>kafka-reassigner</title>
<style>{style}</style>
</head>
<body>
<h1><a href="/">kafka-reassigner</a></h1>
{body}
<p class="muted"><a href="/status">status as JSON</a> &middot; <a href="/metrics">metrics</a></p>
</body>
</html>
"""


def frame(body: str, *, refreshes: bool) -> str:
    """Return a whole page; one that people type into does not load itself anew."""
    refresh = f'<meta http-equiv="refresh" content="{REFRESH_S}">\n' if refreshes else ""
    return _FRAME.format(refresh=refresh, style=_STYLE, body=body)


def ids(brokers: Iterable[object]) -> str:
    """Return a list of brokers."""
    return escape(", ".join(map(str, brokers)))


def option(value: str, chosen: str, words: str | None = None) -> str:
    """Return one choice of a list."""
    mark = " selected" if value == chosen else ""
    return f'<option value="{escape(value)}"{mark}>{escape(words or value)}</option>'


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, empty: str) -> str:
    """Return a table of cells that are HTML already."""
    lines = ["<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows]
    if not lines:
        return f'<p class="muted">{escape(empty)}</p>'
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"
