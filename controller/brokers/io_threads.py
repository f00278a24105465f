"""
A thread for connections: kafka-python's selector loop, which runs work posted by other threads.

Host names are resolved on other threads, so that a slow name server does not delay the loop.

Invariants: everything posted runs on this thread, in order; a coroutine that ends with an
unexpected error ends the thread, which the watchdog of the process notices.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from kafka.future import Future
from kafka.net.selector import NetworkSelector

from controller.background_threads import BackgroundThread
from controller.errors import BrokerUnreachableError

Address = tuple[int, int, int, str, tuple[Any, ...]]
"""An item of the result of ``socket.getaddrinfo``."""

_POLL_MS: Final = 1_000
_RESOLVERS: Final = 4


class IoThread(BackgroundThread):
    """One selector loop on one daemon thread."""

    def __init__(self, name: str = "brokers-io") -> None:
        super().__init__(name)
        # Encoding many partitions takes longer than the selector's threshold for slow tasks.
        self.net = NetworkSelector(client_id=name, slow_task_threshold_secs=0)
        self._posted: deque[Callable[[], object]] = deque()
        self._stopping = False
        self._crash: BaseException | None = None
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix=f"{name}-dns")

    def stop(self) -> None:
        """End the thread, drop what runs on it, and wait for its end."""
        self._stopping = True
        self.net.wakeup()
        if self._thread.ident is None:
            self.net.close()
        else:
            self._thread.join()
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    def post(self, work: Callable[[], object]) -> None:
        """Run work on the thread; callable from any thread, returns at once."""
        self._posted.append(work)
        self.net.wakeup()

    def spawn(self, coroutine: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine function to its end; on the IO thread only."""
        self.net.call_soon_with_future(coroutine).add_errback(self._handle_crash)

    async def resolve(self, host: str, port: int) -> list[Address]:
        """
        Resolve a host without blocking the loop.

        Raises:
            BrokerUnreachableError: the name is unknown or invalid.
        """
        outcome = Future()

        def settle(found: ThreadFuture[Any]) -> None:
            if not found.cancelled():
                self.post(lambda: outcome.success(found))

        lookup = self._resolvers.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        lookup.add_done_callback(settle)
        done: ThreadFuture[list[Address]] = await outcome
        try:
            return done.result()
        except (OSError, ValueError, OverflowError) as error:
            raise BrokerUnreachableError(f"{host} cannot be resolved: {error}") from error

    def _handle_crash(self, error: BaseException) -> None:
        if not self._stopping:
            self._crash = error

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._work_off()
                self.net.poll(timeout_ms=_POLL_MS)
                if self._crash is not None:
                    raise self._crash
            self._work_off()
        finally:
            self.net.close()

    def _work_off(self) -> None:
        while self._posted:
            self._posted.popleft()()
