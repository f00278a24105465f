"""What the operating system asks of the daemon: to end."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from controller.reactor.host import Host


class Signals:
    """Turns SIGTERM and SIGINT into a request to stop; before there is a loop, into the end."""

    def __init__(self) -> None:
        """Listen from now on."""
        self._host: Host | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._received)

    def hand_over(self, host: Host) -> None:
        """From now on the loop is asked."""
        self._host = host

    def _received(self, number: int, frame: FrameType | None) -> None:
        """
        Have the loop asked, from a thread of its own.

        A handler interrupts the main thread, which is the loop's and may hold the lock that asking
        takes.

        Raises:
            SystemExit: there is no loop yet.

        """
        del number, frame
        if self._host is None:
            raise SystemExit(0)
        threading.Thread(target=self._host.request_shutdown, name="shutdown").start()
