"""The last block of producer ids that a controller handed out."""

from __future__ import annotations

import re
from typing import Final

from controller.core.calls.broker_requests import ProducerIdBlock
from controller.core.model import BrokerId
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import UnreadableError, excerpt, total

_ID: Final = re.compile(r"0|[1-9][0-9]{0,18}")


@total
def decode_producer_ids(data: bytes) -> ProducerIdBlock | None:
    """
    Decode ``/latest_producer_id_block`` (KIP-730): the last block that was handed out.

    None where there is no block yet: a broker that starts creates the znode without content.
    """
    if not data:
        return None
    document = documents.read_versioned(data, absent=1)
    broker = documents.read_int(document, "broker", "a broker id")
    first, last = (_parse_bound(document.get(key)) for key in ("block_start", "block_end"))
    if first is None or last is None or first > last:
        raise UnreadableError(f"{excerpt(document)} is not a block of producer ids")
    return ProducerIdBlock(BrokerId(broker), first, last)


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    """Encode the znode; Kafka's ``ProducerIdBlockZNode`` writes the two bounds as strings."""
    return documents.write_document(
        {
            "version": 1,
            "broker": block.broker,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def _parse_bound(value: object) -> int | None:
    if not documents.is_text(value) or _ID.fullmatch(value) is None:
        return None
    return int(value) if int(value) <= documents.LONG_MAX else None
