"""
Translate long frames on a thread of their own.

A request of 16 MiB takes seconds. On the event loop, brokers would wait for it. On the thread the
decoder rests often (``strict_decoding``), so that the daemon's loop does not wait for it either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from controller.endpoint.strict_decoding import UNPACED_MAX

_T = TypeVar("_T")


class DecodingThread:
    """
    The thread of one service.

    One only: each further one would take time of the interpreter from the other threads.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="endpoint-decoding")

    async def run(self, size: int, translate: Callable[[], _T]) -> _T:
        """
        Return what a function returns or raises, called on the thread if its frame is long.

        Args:
            size: Bytes of the frame.
            translate: Decodes or encodes the frame; it shares nothing with other threads.

        """
        if size <= UNPACED_MAX:
            return translate()
        return await asyncio.get_running_loop().run_in_executor(self._executor, translate)
