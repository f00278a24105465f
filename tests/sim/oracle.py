"""
A fingerprint of everything that seeded histories write and send, to compare two versions.

``python -m tests.sim.oracle [--write]`` plays native and delegated histories and compares their
fingerprints with those in ``oracle.json``. A fingerprint covers, in order and with its simulated
time, every ZooKeeper transaction, every request to a broker and every call to the cluster's
controller. A change that claims not to alter behaviour must leave all of them as they are. A change
that alters behaviour on purpose writes the file anew, in the commit that changes it.

Explanations for people (``detail`` and free-text ``reason`` in outcomes and orphan records) are
left out, so that their wording may change, and so are the names of Python classes and fields.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from controller.znodes import paths
from tests.sim import delegated_histories, histories
from tests.sim.campaigns import campaign
from tests.sim.plots import plot_of
from tests.sim.world import World
from tests.sim.zookeeper import Transaction

NATIVE: Final = 300
DELEGATED: Final = 60
FILE: Final = Path(__file__).with_name("oracle.json")
_EXPLAINED: Final = (paths.OUTCOMES, paths.ORPHANS)
"""Roots of the znodes that carry explanations for people."""
_EXPLANATIONS: Final = frozenset({"detail", "reason"})
_ADDED: Final[Mapping[str, object]] = {"leader_recovery_state": 0}
"""Fields of requests that are younger than the file, with the value that was always sent before."""


class Fingerprint(NamedTuple):
    """One history: ``native 17`` and the digest of what it wrote and sent."""

    history: str
    digest: str


class Recorder:
    """Digest what a world's daemons, brokers and controllers write and what the daemons send."""

    def __init__(self, world: World) -> None:
        """Listen to a world before anything happens in it."""
        self._world = world
        self._digest = hashlib.sha256()
        world.zookeeper.listeners.append(self._written)
        world.fabric.on_sent.append(self._sent)

    def hexdigest(self) -> str:
        """Return the digest of everything so far."""
        return self._digest.hexdigest()[:16]

    def _note(self, *what: object) -> None:
        self._digest.update(json.dumps([round(self._world.now, 6), *what]).encode())

    def _written(self, transaction: Transaction) -> None:
        self._note(
            transaction.session,
            [
                (w.path, "-" if w.after is None else _without_explanations(w.path, w.after.data))
                for w in transaction.written
            ],
        )

    def _sent(self, recipient: int, request: object) -> None:
        self._note(recipient, _plain(request))


def _without_explanations(path: str, data: bytes) -> str:
    if not path.startswith(_EXPLAINED):
        return data.decode("latin-1")
    try:
        document = json.loads(data)
    except ValueError:
        return data.decode("latin-1")
    return json.dumps(_pruned(document), sort_keys=True)


def _pruned(value: object) -> object:
    if isinstance(value, dict):
        return {k: _pruned(v) for k, v in value.items() if k not in _EXPLANATIONS}
    if isinstance(value, list):
        return [_pruned(v) for v in value]
    return value


def _plain(value: object) -> object:
    """Return the values of a request without the names of its classes and fields."""
    if dataclasses.is_dataclass(value):
        present = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return [_plain(v) for name, v in present.items() if _ADDED.get(name, ...) != v]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return sorted((str(k), _plain(v)) for k, v in value.items())
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def fingerprint_native(seed: int) -> Fingerprint:
    """Play one history of the native engine; a failure is part of its fingerprint."""
    plot = plot_of(seed)
    world = World(seed, has_kafka_controllers=plot.has_kafka_controllers)
    recorder = Recorder(world)
    try:
        histories.play(seed, plot, world)
    except Exception as error:  # noqa: BLE001 - a history that fails must fail in the same way
        return Fingerprint(f"native {seed}", f"{recorder.hexdigest()} {type(error).__name__}")
    return Fingerprint(f"native {seed}", recorder.hexdigest())


def fingerprint_delegated(seed: int) -> Fingerprint:
    """Play one history of the delegated engine; a failure is part of its fingerprint."""
    world = World(seed)
    recorder = Recorder(world)
    try:
        delegated_histories.play(seed, world=world)
    except Exception as error:  # noqa: BLE001 - a history that fails must fail in the same way
        return Fingerprint(f"delegated {seed}", f"{recorder.hexdigest()} {type(error).__name__}")
    return Fingerprint(f"delegated {seed}", recorder.hexdigest())


def main(arguments: list[str]) -> int:
    """Compare the fingerprints with the file, or write it; return how many differ, at most 100."""
    began = time.monotonic()
    played = dict(campaign(fingerprint_native, range(NATIVE)))
    played |= dict(campaign(fingerprint_delegated, range(DELEGATED)))
    if "--write" in arguments:
        FILE.write_text(json.dumps(played, indent=0) + "\n", encoding="ascii")
        differing = []
    else:
        expected = json.loads(FILE.read_text(encoding="ascii"))
        differing = [name for name in played if played[name] != expected.get(name)]
    sys.stdout.writelines(f"differs: {name}\n" for name in differing)
    took_s = time.monotonic() - began
    sys.stdout.write(f"{len(played)} histories, {len(differing)} differ, {took_s:.0f} s\n")
    return min(len(differing), 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
