"""Fold the requests of brokers and clients, and their answers, into the view."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from controller.core.calls import records
from controller.core.calls.broker_requests import (
    PendingBrokerRequest,
    ProducerIdBlock,
    RequestFromBroker,
)
from controller.core.calls.client_requests import (
    AlterReassignments,
    CreatePartitions,
    DeleteTopics,
    ElectLeaders,
    PendingClientRequest,
    RequestFromClient,
)
from controller.core.calls.model import ProducerIds
from controller.core.leadership import isr_changes
from controller.core.model import Instant, ZkVersion
from controller.core.topics import fold as topic_fold
from controller.core.view import ClusterView


def fold_event(view: ClusterView, event: records.CallEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.ProducerIdsRead(block=block, version=version):
            _note_producer_ids(view, block, version)
        case records.BrokerRequestReceived() | records.ClientRequestReceived():
            _request_arrived(view, event, now)
        case records.ReassignmentsSubmitted(ticket=ticket, submitted=submitted):
            pending = view.calls.pending_client_requests.get(ticket)
            if pending is not None:
                view.calls.pending_client_requests[ticket] = replace(pending, submitted=submitted)
        case _:
            assert_never(event)


def fold_record(view: ClusterView, record: records.CallRecord, now: Instant) -> None:
    """Fold one record into the view."""
    calls = view.calls
    match record:
        case records.RequestAnsweredRecord(ticket=ticket, answer=answer):
            pending = calls.pending_broker_requests.pop(ticket, None)
            if pending is not None and answer is not None:
                isr_changes.record_answer(view, pending.request, answer, now)
            if not calls.pending_broker_requests:
                view.leadership.awaited_reads.clear()
            calls.pending_client_requests.pop(ticket, None)
            if not calls.pending_client_requests:
                calls.electing.clear()
                calls.creations_rejected.clear()
        case records.ProducerIdsRecord(block=block, expected_version=version):
            following = ZkVersion(0 if version is None else version + 1)
            calls.producer_ids = ProducerIds(block.last + 1, following)
        case _:
            assert_never(record)


def _request_arrived(
    view: ClusterView,
    event: records.BrokerRequestReceived | records.ClientRequestReceived,
    now: Instant,
) -> None:
    """Note a request that was permitted in this tenure; others were answered NOT_CONTROLLER."""
    held = view.tenure.held
    if held is None or event.permission.controller_epoch != held.epoch:
        return
    if isinstance(event, records.BrokerRequestReceived):
        request = _of_registration(view, event.request)
        view.calls.pending_broker_requests[event.ticket] = PendingBrokerRequest(request, now)
        view.calls.heard[request.broker] = now
    else:
        view.calls.pending_client_requests[event.ticket] = PendingClientRequest(event.request, now)
        topic_fold.read_invalid(view, _named_topics(event.request))


def _of_registration(view: ClusterView, request: RequestFromBroker) -> RequestFromBroker:
    """Return a request with its broker's registration, with which it ends, in any version."""
    known = view.cluster.brokers.get(request.broker)
    if known is None or request.broker_epoch is not None:
        return request
    return replace(request, broker_epoch=known.epoch)


def _named_topics(request: RequestFromClient) -> set[str]:
    """Return the topics that a client's request is about."""
    match request:
        case DeleteTopics() | CreatePartitions():
            return {topic.name for topic in request.topics}
        case AlterReassignments(targets=partitions) | ElectLeaders(partitions=partitions):
            return {p.topic for p in partitions or ()}
        case _:
            return set()


def _note_producer_ids(
    view: ClusterView, block: ProducerIdBlock | str | None, version: ZkVersion | None
) -> None:
    """
    Fold in the znode; one that is unreadable stays unknown, and no ids are handed out.

    A read that a write of ours overtook is dropped. A znode that disappeared does not make ids
    available again.
    """
    known = view.calls.producer_ids
    if isinstance(block, str):
        view.calls.producer_ids = None
        return
    following = 0 if block is None else block.last + 1
    if known is not None:
        if version is not None and known.version is not None and version <= known.version:
            return
        following = max(following, known.following)
    view.calls.producer_ids = ProducerIds(following, version)
