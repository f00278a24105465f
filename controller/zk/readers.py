"""
Reads of znodes: their results, and the readers' interface.

Two readers implement ``ZnodeReads``: ``session_reads`` for the daemon, with watches, and
``operator_connection`` for one command. A znode that does not exist is None, not an error. Reads
are pipelined, and not for kazoo's threads: every method waits for its answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from controller.core.model import ZkVersion, Zxid

WINDOW: Final = 500
"""Reads in flight at a time: enough to hide the round trip, few enough to let others in between."""

ANY_VERSION: Final = ZkVersion(-1)
"""ZooKeeper takes it for every version."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Znode(NamedTuple):
    """A znode as read."""

    data: bytes
    version: ZkVersion
    czxid: Zxid
    owner: int
    """The session of an ephemeral znode; 0 for a persistent one."""
    created_ms: int
    """Milliseconds since 1970, on ZooKeeper's clock."""
    mzxid: Zxid = Zxid(0)
    """Of the last write of its data; 0 where that is not known."""


class Hidden(NamedTuple):
    """
    A znode that ZooKeeper's permissions hide, and its stat as far as that is known.

    Servers before 3.8.4 return the stat to any client; later ones refuse that too.
    """

    reason: str
    latest: Zxid = Zxid(0)
    """The last zxid when it was refused: it was created at or before this."""
    version: ZkVersion = ANY_VERSION
    czxid: Zxid = Zxid(0)
    """0 where that is not known."""
    created_ms: int = 0

    @property
    def born(self) -> Zxid:
        """When it was created, as far as that is known."""
        return self.czxid or self.latest


Tree = Mapping[str, tuple[str, ...] | str]
"""The names in each directory below a root, by the directory's path; a text: why it is hidden."""


class ZnodeReads(Protocol):
    """Reads of znodes; every method waits for its answers."""

    def get(self, path: str) -> Znode | None:
        """Read a znode; one that is hidden is an error."""

    def show(self, path: str) -> Znode | Hidden | None:
        """Read a znode; it may be hidden."""

    def exists(self, path: str) -> bool:
        """Return whether there is such a znode."""

    def children(self, path: str) -> tuple[str, ...]:
        """List a directory in order; empty where there is none."""

    def get_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """Read many znodes in order, without watching them; of a hidden one, only the reason."""

    def show_many(
        self, keys: Iterable[Key], path_of: Callable[[Key], str], *, window: int = WINDOW
    ) -> Iterator[tuple[Key, Znode | Hidden | None]]:
        """Read many znodes in order; a hidden one with all known facts."""

    def children_of_many(self, paths: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...] | str]]:
        """List many directories in order; empty where there is none, a text where it is hidden."""

    def unreadable(self, path: str, reason: str) -> None:
        """Report a znode that cannot be decoded, or is hidden."""


class FamilyReads:
    """Reads of one family of znodes through either reader."""

    def __init__(self, znodes: ZnodeReads, *, window: int = WINDOW) -> None:
        """Read ``window`` large znodes at a time."""
        self._znodes = znodes
        self._window = window


def decoded(
    found: Znode | Hidden | None, decode: Callable[[Znode], Value | str]
) -> Value | str | None:
    """Decode a znode; a text where it is hidden or unreadable, None where there is none."""
    if isinstance(found, Hidden):
        return found.reason
    return None if found is None else decode(found)


def decode_many(
    znodes: ZnodeReads,
    keys: Iterable[Key],
    path_of: Callable[[Key], str],
    decode: Callable[[Key, Znode], Value | str],
    *,
    window: int = WINDOW,
) -> Iterator[tuple[Key, Value | str | None]]:
    """
    Read and decode many znodes in order; a text, which is reported, where one is unreadable.

    ``decode`` returns a text where it cannot; ``window`` reads are in flight at a time.
    """
    for key, found in znodes.get_many(keys, path_of, window=window):
        read = decoded(found, partial(decode, key))
        if isinstance(read, str):
            znodes.unreadable(path_of(key), read)
        yield key, read


def decode_children(
    znodes: ZnodeReads, directory: str, decode: Callable[[str, Znode], Value | str]
) -> Iterator[tuple[str, Value | str | None]]:
    """Read and decode the children of a directory, by name; see ``decode_many``."""
    names = znodes.children(directory)
    return decode_many(znodes, names, lambda name: f"{directory}/{name}", decode)


def list_tree(znodes: ZnodeReads, root: str) -> Tree:
    """List the directories below a root."""
    return dict(znodes.children_of_many(f"{root}/{name}" for name in znodes.children(root)))


def decode_tree(
    znodes: ZnodeReads, tree: Tree, decode: Callable[[str, str, Znode], Value | str]
) -> Iterator[tuple[str, Value | str]]:
    """
    Read and decode every znode that ``list_tree`` listed: its path and value, or a text.

    ``decode`` gets the last two components of the path.
    """
    for parent, names in tree.items():
        if isinstance(names, str):
            yield parent, names
    listed = [f"{parent}/{n}" for parent, ns in tree.items() if not isinstance(ns, str) for n in ns]

    def decode_listed(path: str, znode: Znode) -> Value | str:
        _, child, grandchild = path.rsplit("/", 2)
        return decode(child, grandchild, znode)

    for path, read in decode_many(znodes, listed, str, decode_listed):
        if read is not None:
            yield path, read


def ahead(requests: Iterator[tuple[Key, Any]], window: int) -> Iterator[tuple[Key, Any]]:
    """Yield requests in order, each once ``window`` of them are in flight or all were sent."""
    sent: deque[tuple[Key, Any]] = deque()
    for item in requests:
        sent.append(item)
        if len(sent) >= window:
            yield sent.popleft()
    yield from sent


def znode_of(found: tuple[bytes | None, Any]) -> Znode:
    """Return the znode that kazoo answered with."""
    data, stat = found
    return Znode(
        data or b"",  # kazoo returns None for a znode that was created without data
        ZkVersion(stat.version),
        Zxid(stat.czxid),
        stat.ephemeralOwner,
        stat.ctime,
        Zxid(stat.mzxid),
    )
