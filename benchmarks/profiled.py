"""
``reassigner``, looked at from inside: where the loop's time goes, and which thread uses how much.

``python -m benchmarks.profiled run ...`` takes the options of ``reassigner run``. SIGUSR1 begins to
profile the loop, SIGUSR2 ends it and writes ``profile`` into the directory that
``BENCHMARKS_PROFILE`` names; ``threads.json`` there holds each thread's processor time, written
anew ten times a second.
"""

from __future__ import annotations

import cProfile
import json
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final

from controller.cli import main

DIRECTORY: Final = "BENCHMARKS_PROFILE"
PROFILE: Final = "profile"
THREADS: Final = "threads.json"
EVERY_S: Final = 0.1


def _keep_time(directory: Path) -> None:
    """Write every thread's processor seconds, for ever."""
    while True:
        seconds: dict[str, float] = {}
        for thread in threading.enumerate():
            if thread.ident is not None:
                clock = time.pthread_getcpuclockid(thread.ident)
                used = seconds.get(thread.name, 0.0)
                seconds[thread.name] = used + time.clock_gettime(clock)
        draft = directory / f"{THREADS}.new"
        draft.write_text(json.dumps(seconds))
        draft.replace(directory / THREADS)
        time.sleep(EVERY_S)


def _on_signals(directory: Path) -> None:
    profile = cProfile.Profile()

    def begin(number: int, frame: FrameType | None) -> None:
        del number, frame
        profile.enable()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        profile.disable()
        profile.dump_stats(directory / PROFILE)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)


if __name__ == "__main__":
    where = Path(os.environ[DIRECTORY])
    _on_signals(where)
    threading.Thread(target=_keep_time, args=(where,), name="profiled", daemon=True).start()
    main()
