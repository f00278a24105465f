"""
Hand out blocks of producer ids to brokers (AllocateProducerIds; KIP-730).

Every block is durable before a broker hears of it. All requests of a cycle share one write: the
znode names the last of their blocks, so the next controller continues behind it. A rejected write
is decided again when the znode was read: then nothing of it was handed out.

A block whose answer is lost is not used again. The same holds in Kafka; there are 2^63 ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller import kafka_errors
from controller.core import effects
from controller.core.calls.broker_requests import (
    AllocateProducerIds,
    BrokerAnswer,
    ProducerIdBlock,
    ProducerIdsResponse,
)
from controller.core.calls.records import AskAnsweredRecord, ProducerIdsRecord
from controller.core.model import ZkVersion
from controller.core.records import Change, Record
from controller.core.state.tenure import ProducerIds
from controller.core.view import ClusterView

BLOCK_SIZE: Final = 1000
"""The ids of a block; brokers request the next one before they have used all."""
LAST_ID: Final = 2**63 - 1


def hand_out(view: ClusterView, asked: Mapping[int, AllocateProducerIds]) -> Change | None:
    """
    Return the write for these requests, by ticket, with their answers; None: the znode is read.

    When all ids are used up, the answers are errors and nothing is written.
    """
    known = view.tenure.producer_ids
    if known is None or not asked:
        return None
    answers: dict[int, BrokerAnswer] = {}
    block: ProducerIdBlock | None = None
    first = known.following
    for ticket, request in asked.items():
        last = first + BLOCK_SIZE - 1
        if last > LAST_ID:
            answers[ticket] = ProducerIdsResponse(kafka_errors.UNKNOWN_SERVER_ERROR)
            continue
        block = ProducerIdBlock(request.broker, first, last)
        answers[ticket] = ProducerIdsResponse(kafka_errors.NONE, first, BLOCK_SIZE)
        first = last + 1
    written: tuple[Record, ...] = ()
    if block is not None:
        written = (ProducerIdsRecord(block, known.version),)
    return Change(
        (*written, *(AskAnsweredRecord(ticket) for ticket in answers)),
        tuple(effects.Respond(ticket, answer) for ticket, answer in answers.items()),
    )


def note_producer_ids(
    view: ClusterView, block: ProducerIdBlock | str | None, version: ZkVersion | None
) -> None:
    """
    Fold in the znode; one that is unreadable stays unknown, and no ids are handed out.

    A read that a write of ours overtook is dropped. A znode that disappeared does not make ids
    available again.
    """
    known = view.tenure.producer_ids
    if isinstance(block, str):
        view.tenure.producer_ids = None
        return
    following = 0 if block is None else block.last + 1
    if known is not None:
        if version is not None and known.version is not None and version <= known.version:
            return
        following = max(following, known.following)
    view.tenure.producer_ids = ProducerIds(following, version)
