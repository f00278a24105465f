"""
End what takes too much processor time: a mutant may run for ever.

What other programs take of the machine does not count, so that a slow machine kills no mutant.
"""

from __future__ import annotations

import resource
import signal
import time
from types import FrameType
from typing import Final, NoReturn

PROCESSOR_S: Final = 60
"""The processor time that one test or history may take; the longest takes a fifth of it."""
AGAIN_S: Final = 5
"""The processor time for an orderly end; code that runs on is interrupted again."""
NO_END: Final = "no end within"
"""The part of a verdict that marks a mutant killed by a time limit."""


def begin(seconds: int = PROCESSOR_S) -> None:
    """Limit the processor time from now on, whatever was used before."""
    signal.signal(signal.SIGXCPU, _end)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(time.process_time()) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    begin(AGAIN_S)
    raise TimeoutError(f"{NO_END} its limit of processor time")
