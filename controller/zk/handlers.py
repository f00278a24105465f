"""
kazoo's threads, waiting for their sockets in one system call.

kazoo waits twice for every request, once to write and once to read, and each time makes an epoll
object, registers the sockets, waits and closes it: five or six system calls, and the interpreter
may go to another thread at each. ``poll`` needs one. Reading many small znodes takes between half
and three quarters of the processor time so.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any, Final, Protocol

from kazoo.handlers.threading import SequentialThreadingHandler

_READABLE: Final = ~select.POLLOUT
"""An error or the other end's hanging up wakes whoever reads, as well as whoever writes."""
_WRITABLE: Final = ~select.POLLIN


class _Socket(Protocol):
    def fileno(self) -> int:
        """Return the descriptor, below 0 for a socket that is closed."""
        ...


class PollHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """As kazoo's own, but for how it waits."""

    def select(
        self,
        reading: Sequence[_Socket],
        writing: Sequence[_Socket],
        _exceptional: Sequence[_Socket],
        timeout: float | None = None,
    ) -> tuple[list[_Socket], list[_Socket], list[Any]]:
        """
        Wait until a socket is ready; any number of descriptors may be open.

        Args:
            reading: Sockets to be read.
            writing: Sockets to be written.
            _exceptional: Nothing kazoo ever asks for.
            timeout: In seconds; None waits for ever.

        Raises:
            ValueError: a socket is closed.

        """
        poll = select.poll()
        for socket in writing:
            poll.register(_descriptor(socket), select.POLLOUT)
        for socket in reading:
            also = select.POLLOUT if socket in writing else 0
            poll.register(_descriptor(socket), select.POLLIN | also)
        ready = dict(poll.poll(None if timeout is None else max(0.0, timeout) * 1000))
        if any(events & select.POLLNVAL for events in ready.values()):
            raise ValueError("a socket was closed while it was waited for")
        return (
            [s for s in reading if ready.get(s.fileno(), 0) & _READABLE],
            [s for s in writing if ready.get(s.fileno(), 0) & _WRITABLE],
            [],
        )


def _descriptor(socket: _Socket) -> int:
    descriptor = socket.fileno()
    if descriptor < 0:
        raise ValueError("the socket is closed")
    return descriptor
