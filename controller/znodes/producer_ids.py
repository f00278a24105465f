"""
The last block of producer ids that was handed out: ``/latest_producer_id_block`` (KIP-730).

Each block is ``BLOCK_SIZE`` consecutive ids. Kafka's ``ProducerIdBlockZNode`` writes the two bounds
as strings. A broker that starts creates the znode without content.
"""

from __future__ import annotations

import re
from typing import Final

from controller.core.calls.broker_requests import ProducerIdBlock
from controller.core.model import BrokerId
from controller.znodes import json_documents as documents

_ID: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def decode_producer_ids(data: bytes) -> ProducerIdBlock | str | None:
    """Decode the znode; None where no block was handed out yet."""
    if not data:
        return None
    document = documents.read_versioned(data, absent=1)
    if isinstance(document, str):
        return document
    broker = document.get("broker")
    if not documents.is_int(broker):
        return f"broker is not a broker id but {documents.excerpt(broker)}"
    bounds = [_parse_bound(document.get(key)) for key in ("block_start", "block_end")]
    first, last = bounds
    if first is None or last is None or first > last:
        return f"{documents.excerpt(document)} is not a block of producer ids"
    return ProducerIdBlock(BrokerId(broker), first, last)


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    """Encode the znode."""
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
