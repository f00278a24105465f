"""
``reassigner`` that hears late of topics that others change.

``python -m integration.rigs.late_topics_daemon run ...`` takes the options of ``reassigner``. The
watches of topic znodes and of their listing fire some seconds late, as if their events were that
long on the way; what the loop itself requests is read at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import Timer
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from controller.cli.app import build_app
from controller.cli.context import CommandContext
from controller.daemon import run
from controller.znodes import paths

LATE_S: Final = 12.0

Watch = Callable[[WatchedEvent], None]


def hear_late() -> None:
    """Delay the watches of topics in this process."""
    for name in ("get_async", "get_children_async"):
        setattr(KazooClient, name, _late(getattr(KazooClient, name)))


def _late(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reading method whose watches fire late where it reads topics."""

    def late(
        client: KazooClient, path: str, watch: Watch | None = None, **options: object
    ) -> object:
        is_of_topics = path == paths.TOPICS or paths.parse_topic(path) is not None
        if watch is not None and is_of_topics:
            return read(client, path, _later(watch), **options)
        return read(client, path, watch, **options)

    return late


def _later(watch: Watch) -> Watch:
    def call(event: WatchedEvent) -> None:
        timer = Timer(LATE_S, watch, (event,))
        timer.daemon = True
        timer.start()

    return call


if __name__ == "__main__":
    hear_late()
    build_app(CommandContext(environ=os.environ, run_daemon=run))(sys.argv[1:])
