"""
TCP ports that stay ours while the server behind them is down.

A port found free and released can be taken by any outgoing connection before the broker is back. So
a reservation keeps a bound socket that never listens: with SO_REUSEADDR on both sides Linux lets a
server listen beside it, and no other process gets the port. Servers without SO_REUSEADDR (none
here: the JVM and Python's HTTP server set it) could not bind.
"""

from __future__ import annotations

import socket

LOCALHOST = "127.0.0.1"


class ReservedPort:
    """A port of the loopback interface, reserved until closed or garbage-collected."""

    def __init__(self) -> None:
        self._holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # Bound first: the kernel then picks a free port, not one it could share.
        self._holder.bind((LOCALHOST, 0))
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._holder.getsockname()[1]

    @property
    def address(self) -> str:
        """``host:port``, as clients take it."""
        return f"{LOCALHOST}:{self.number}"

    def close(self) -> None:
        """Give the port up."""
        self._holder.close()
