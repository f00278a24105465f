"""What an operator holds up, in words: pauses and the kill switch, as znodes or as a status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.cli.units import show_time
from controller.core.controls import Pause, Pauses


def pause_lines(pauses: Pauses) -> list[str]:
    """Word what stands still."""
    paused = [("everything", pauses.everything)] if pauses.everything else []
    paused += [(f"request {name}", pause) for name, pause in pauses.requests.items()]
    paused += [(f"broker {broker}", pause) for broker, pause in pauses.brokers.items()]
    return [_line(what, pause) for what, pause in paused]


def held_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Word what a status tells of pauses and the kill switch; nothing where nothing is held up."""
    controls = status.get("controls") or {}
    paused = controls.get("paused") or {}
    found = Pauses(
        _pause(paused["everything"]) if paused.get("everything") else None,
        {name: _pause(about) for name, about in (paused.get("requests") or {}).items()},
        {broker: _pause(about) for broker, about in (paused.get("brokers") or {}).items()},
    )
    yield from pause_lines(found)
    if controls.get("disabled"):
        yield "new reassignments are disabled: `reassigner enable` takes them again"


def _line(what: str, pause: Pause) -> str:
    by = f" by {pause.by}" if pause.by else ""
    why = f": {pause.reason}" if pause.reason else ""
    return f"{what} is paused since {show_time(pause.since_ms)}{by}{why}"


def _pause(about: Mapping[str, Any]) -> Pause:
    return Pause(about["reason"], about["by"], about["since_ms"])
