"""
Who the controller is: ``/controller`` and ``/controller_epoch`` (``kafka.zk.ControllerZNode``).

The epoch is plain ASCII digits, not JSON. What we write is format 1, which every Kafka version
reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from controller.core.model import BrokerId, ControllerEpoch
from controller.znodes.json_documents import INT_MAX, excerpt, is_int, read_document, write_document

NOT_KRAFT: Final = -1
"""``kraftControllerEpoch`` of a controller that is a ZooKeeper-mode broker."""

_EPOCH: Final = re.compile(rb"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """Whom ``/controller`` names."""

    broker_id: BrokerId
    kraft_controller_epoch: int = NOT_KRAFT


def decode_controller(data: bytes) -> ControllerNode | str:
    """Decode ``/controller``, format 1 or 2."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    broker_id = document.get("brokerid")
    if not is_int(broker_id):
        return f"brokerid is not a broker id but {excerpt(broker_id)}"
    kraft_epoch = document.get("kraftControllerEpoch", NOT_KRAFT)
    if not is_int(kraft_epoch, low=NOT_KRAFT):
        return f"kraftControllerEpoch is not an epoch but {excerpt(kraft_epoch)}"
    return ControllerNode(BrokerId(broker_id), kraft_epoch)


def encode_controller(controller_id: BrokerId | int, timestamp_ms: int) -> bytes:
    """Encode our ``/controller``; ``timestamp_ms`` is milliseconds since 1970."""
    return write_document({"version": 1, "brokerid": controller_id, "timestamp": str(timestamp_ms)})


def decode_controller_epoch(data: bytes) -> ControllerEpoch | str:
    """Decode ``/controller_epoch``; an epoch that could not be incremented is refused."""
    if _EPOCH.fullmatch(data) is None or int(data) >= INT_MAX:
        return f"{excerpt(data[:40].decode('ascii', 'replace'))} is not a controller epoch"
    return ControllerEpoch(int(data))
