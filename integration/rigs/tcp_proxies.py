"""
A network link that can be cut: a TCP proxy in front of one listener of one broker.

Two cuts: refused (connections break, new ones are refused) and black hole (connections stay and
accept everything, nothing arrives). After a black hole what was under way arrives late, as TCP
would send it again.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Final

from integration.rigs.reserved_ports import LOCALHOST, ReservedPort

_CHUNK_BYTES: Final = 65_536
_CONNECT_WITHIN_S: Final = 5.0


class Link:
    """
    One link, whole from the start.

    Args:
        behind: Where the server listens; by default, a port that the link reserves for it.

    Attributes:
        port: Where clients connect.
        behind: Where the server listens.
        swallowed: How many pieces of data a black hole took so far.
    """

    def __init__(self, behind: ReservedPort | None = None) -> None:
        self.port = ReservedPort()
        self.behind = behind or ReservedPort()
        self.swallowed = 0
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._ends: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.repair()

    def repair(self) -> None:
        """Let everything through again; nothing happens when the link is whole."""
        self._flowing.set()
        with self._lock:
            if self._listener is not None:
                return
            self._listener = listener = socket.create_server((LOCALHOST, self.port.number))
        threading.Thread(target=self._accept, args=(listener,), name="link", daemon=True).start()

    def refuse(self) -> None:
        """Break every connection and refuse new ones."""
        self._flowing.set()
        with self._lock:
            listener, self._listener = self._listener, None
            ends, self._ends = self._ends, set()
        if listener is not None:
            _close(listener)
        for end in ends:
            _close(end)

    def swallow(self) -> None:
        """Become a black hole: take everything, pass nothing on."""
        self._flowing.clear()

    def close(self) -> None:
        """Cut it for good and give up its ports."""
        self.refuse()
        self.port.close()
        self.behind.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # closed: the link is cut
            while True:
                client, _address = listener.accept()
                threading.Thread(
                    target=self._serve, args=(client,), name="link", daemon=True
                ).start()

    def _serve(self, client: socket.socket) -> None:
        self._flowing.wait()
        try:
            server = socket.create_connection(
                (LOCALHOST, self.behind.number), timeout=_CONNECT_WITHIN_S
            )
        except OSError:
            _close(client)
            return
        server.settimeout(None)
        with self._lock:
            is_cut = self._listener is None
            self._ends |= {client, server}
        if is_cut:
            _close(client)
            _close(server)
            return
        threading.Thread(
            target=self._pass_on, args=(server, client), name="link", daemon=True
        ).start()
        self._pass_on(client, server)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if not self._flowing.is_set():
                    with self._lock:
                        self.swallowed += 1
                self._flowing.wait()
                target.sendall(data)
        with self._lock:
            self._ends -= {source, target}
        _close(source)
        _close(target)


def _close(end: socket.socket) -> None:
    """Close a socket that another thread may be waiting on."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
