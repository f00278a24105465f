"""
Roles and their guards: the controller, the guards of a claim, and the leader of the daemons.

``/controller`` and ``/controller_epoch`` (``kafka.zk.ControllerZNode``): the epoch is plain ASCII
digits, not JSON. Format 1 is written, which every Kafka version reads.

``/feature`` is enabled from inter-broker protocol 2.7 on (``FeatureZNode``); ``/migration`` names a
KRaft controller while one takes over (``MigrationZNode``). What is unreadable forbids a claim too.

Each candidacy below ``/reassigner/leader`` holds the address of a daemon; the election orders them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from controller.core.model import BrokerId, ControllerEpoch
from controller.znodes import json_documents as documents

NOT_KRAFT: Final = -1
"""``kraftControllerEpoch`` of a controller that is a ZooKeeper-mode broker."""

_EPOCH: Final = re.compile(rb"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """The content of ``/controller``."""

    broker_id: BrokerId
    kraft_controller_epoch: int = NOT_KRAFT


def decode_controller(data: bytes) -> ControllerNode | str:
    """Decode ``/controller``, format 1 or 2."""
    document = documents.read_document(data)
    if isinstance(document, str):
        return document
    broker_id = document.get("brokerid")
    if not documents.is_int(broker_id):
        return f"brokerid is not a broker id but {documents.excerpt(broker_id)}"
    kraft_epoch = document.get("kraftControllerEpoch", NOT_KRAFT)
    if not documents.is_int(kraft_epoch, low=NOT_KRAFT):
        return f"kraftControllerEpoch is not an epoch but {documents.excerpt(kraft_epoch)}"
    return ControllerNode(BrokerId(broker_id), kraft_epoch)


def encode_controller(controller_id: BrokerId | int, timestamp_ms: int) -> bytes:
    """Encode the daemon's ``/controller``; ``timestamp_ms`` is milliseconds since 1970."""
    return documents.write_document(
        {"version": 1, "brokerid": controller_id, "timestamp": str(timestamp_ms)}
    )


def decode_controller_epoch(data: bytes) -> ControllerEpoch | str:
    """Decode ``/controller_epoch``; an epoch that could not be incremented is refused."""
    if _EPOCH.fullmatch(data) is None or int(data) >= documents.INT_MAX:
        return (
            f"{documents.excerpt(data[:40].decode('ascii', 'replace'))} is not a controller epoch"
        )
    return ControllerEpoch(int(data))


_NO_CONTROLLER = -1


def decode_feature(data: bytes) -> bool | str:
    """Decode whether the feature versioning system is enabled."""
    document = documents.read_document(data)
    if isinstance(document, str):
        return document
    status = document.get("status")
    if not documents.is_int(status, 0, 1):
        return f"status {documents.excerpt(status)} is not known"
    return status == 1


def decode_migration(data: bytes) -> str | None:
    """Return why ``/migration`` forbids a claim, None when it does not."""
    document = documents.read_document(data)
    if isinstance(document, str):
        return f"cannot be decoded: {document}"
    controller = document.get("kraft_controller_id", _NO_CONTROLLER)
    if not documents.is_int(controller, low=_NO_CONTROLLER):
        return f"cannot be decoded: kraft_controller_id is {documents.excerpt(controller)}"
    if controller == _NO_CONTROLLER:
        return None
    return f"KRaft controller {controller} is in charge of a migration"


def decode_leader(data: bytes) -> str | None:
    """Decode the ``host:port`` of a candidate's HTTP server."""
    document = documents.read_versioned(data)
    if isinstance(document, str):
        return None
    http = document.get("http")
    return http if documents.is_text(http) and http else None


def encode_leader(http: str) -> bytes:
    """Encode the ``host:port`` of the daemon's HTTP server."""
    return documents.write_document({"version": 1, "http": http})
