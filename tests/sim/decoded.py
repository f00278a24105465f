"""
Topic and state znodes decoded, once for each content: they are read far more often than written.

What comes out is the reader's own, as if it had been decoded anew; the parts that cannot be changed
are shared.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from controller.core.model import TopicAssignment, ZkVersion, Zxid
from controller.znodes.cancellations import decode_cancellation
from controller.znodes.operator_controls import decode_drains
from controller.znodes.topics import decode_state, decode_topic

if TYPE_CHECKING:
    from controller.core.model import PartitionState
    from controller.core.pacing.controls import Drains
    from controller.core.requests.submissions import Cancellation
    from tests.sim.zookeeper import Znode

KEPT: Final = 2048
"""Contents remembered: more than are current at any time in a history."""

_state = lru_cache(KEPT)(decode_state)


@lru_cache(KEPT)
def _topic(data: bytes) -> TopicAssignment | str:
    return decode_topic(data, ZkVersion(0), Zxid(0))


def read_topic(znode: Znode) -> TopicAssignment | str:
    """Decode a topic znode; text says what is wrong with it."""
    read = _topic(znode.data)
    if isinstance(read, str):
        return read
    version, czxid = ZkVersion(znode.version), Zxid(znode.czxid)
    mzxid = Zxid(znode.mzxid)
    partitions = dict(read.partitions)
    return TopicAssignment(partitions, version, czxid, read.topic_id, mzxid, read.is_marked)


def read_state(znode: Znode) -> PartitionState | str:
    """Decode a state znode; text says what is wrong with it."""
    return _state(znode.data, ZkVersion(znode.version), Zxid(znode.mzxid))


def cancellation_of(znode: Znode) -> Cancellation:
    """Decode a cancellation."""
    version, czxid, mzxid = ZkVersion(znode.version), Zxid(znode.czxid), Zxid(znode.mzxid)
    return decode_cancellation(znode.data, version, czxid, znode.created_ms, mzxid)


def drains_of(znode: Znode) -> Drains | str:
    """Decode the drained brokers; text says what is wrong with them."""
    return decode_drains(znode.data, ZkVersion(znode.version), Zxid(znode.czxid))
