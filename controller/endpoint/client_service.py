"""
Answer what peers ask where clients see the daemon among the brokers.

Everything is relayed to a broker, with few exceptions:

- What only the controller answers is relayed first as well. A broker authorises such a request and
  then says that it is not the controller: only then does the daemon read more of it than its
  header, and answer. So a peer that may not ask gets the broker's refusal and costs no decoding,
  and a request that reaches the real controller gets its answer.
- Requests about topics are not relayed; a broker reports the client's rights (``topic_service``).
  Without a right on the cluster, long ones are not read.
- What only Kafka's controller can carry out makes the daemon give the role back for a while
  (``CedeRole``). The client waits until brokers name another controller.
- What concerns the daemon as one of the listed brokers is answered here: it has no log directory,
  no group, no transaction and no setting.

In doubt the connection is closed: a client connects again, to another broker perhaps. So it is
after NOT_CONTROLLER: another daemon with the same id may be the controller, and a new address alone
is no reason for Kafka's clients to leave an open connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kafka.protocol.api_key import ApiKey

from controller.core.calls.broker_requests import Permission
from controller.core.calls.client_requests import CedeRole, ClientAnswer, ElectLeaders
from controller.core.model import BrokerId
from controller.endpoint import client_codec, codec, relayed_frames
from controller.endpoint.broker_service import BrokerService, Tickets
from controller.endpoint.peers import PARTITION_BYTES, SMALL_FRAME, Answer, EndpointObserver, Peer
from controller.endpoint.relay import NoBrokerError, Relay, Upstream, with_length
from controller.endpoint.strict_decoding import UNPACED_MAX, DecodingThread
from controller.endpoint.topic_codec import ALTER, TOPIC_REQUESTS, TopicsWanted
from controller.endpoint.topic_service import TopicService
from controller.errors import RemoteProtocolError
from controller.kafka_errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NOT_CONTROLLER,
    STALE_CONTROLLER_EPOCH,
)

CEDE_S: Final = 45.0
"""How long a client waits for the role to be given back, and as long for another controller."""
SETTLE_S: Final = 10.0
"""How long after the end of a tenure brokers may still name the daemon."""
LOOK_S: Final = 0.2
"""Between two looks at the controller that brokers name."""
PERMIT_S: Final = 5.0
"""How long a broker may take to say what a peer may do: the peer tries again with the next."""
TOPICS_FACTOR: Final = 30
"""How much longer requests for topics are after they were decoded, at most."""
RESULT_BYTES: Final = 32
"""Of a result in an answer, about: long answers are encoded on the thread."""
GRACE_S: Final = 5.0
"""How much longer than its own timeout an election is awaited."""

UNRELAYED: Final = frozenset({0, 4, 5, 6, 27, 52, 53, 54, 55, 58, 62, 63, 64})
"""
What brokers and controllers send each other, and Produce, which may expect no answer.

Clients send none of it here: the daemon leads no partition.
"""
_LOOKED_INTO: Final = frozenset({ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate})
"""Requests that a broker answers before it knows the peer; the daemon looks into the answers."""
_NO_CONTROLLER: Final = -1


CEDABLE: Final[Mapping[int, int]] = {
    **{key: request.operation for key, request in TOPIC_REQUESTS.items()},
    ApiKey.AlterUserScramCredentials: ALTER,
    ApiKey.UpdateFeatures: ALTER,
}
"""
Requests for which the role may be given back, so that a broker carries them out.

Each with the operation that it needs on the cluster or a topic that it names (``AclOperation``).
"""
REQUESTS: Final = tuple(ApiKey(key).name for key in (*client_codec.SERVED, *CEDABLE))
"""Requests by which the metrics count."""
RESULTS: Final = ("answered", "not_controller", "by_broker", "ceded", "refused")
"""Results by which the metrics count."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A request, and the connection to the broker that answers in the name of its client."""

    peer: Peer
    upstream: Upstream
    header: codec.RequestHeader
    frame: bytes
    permission: Permission | None
    """To be used once the broker permits the request; None: the role is not held."""


@dataclass(eq=False, slots=True)
class ClientService:
    """Implements ``Service`` for every request."""

    own_id: BrokerId
    """The id under which clients see the daemon."""
    relay: Relay
    tickets: Tickets
    brokers: BrokerService
    """Answers brokers that are permitted to ask."""
    topics: TopicService
    observer: EndpointObserver
    is_sasl: bool = False
    """Whether peers authenticate by SASL."""
    _thread: DecodingThread = field(default_factory=DecodingThread)

    versions = None

    async def answer(self, peer: Peer, header: codec.RequestHeader, frame: bytes) -> Answer | None:
        """Answer a request, or relay it."""
        key = header.api_key
        if key in UNRELAYED or key < 0:
            raise RemoteProtocolError(f"API key {key} is not relayed")
        upstream, tenure = await self._upstream_of(peer), self.tickets.tenure
        # The author as the record of a request shows it; the broker knows the principal.
        who = f"{header.client_id or 'a client'} at {peer.address}"
        permission = None if tenure is None else Permission(who, upstream.broker, tenure)
        call = _Call(peer, upstream, header, frame, permission)
        if not peer.is_authenticated:
            # Nothing that such a peer sends is decoded here.
            return await self._relayed(call)
        if key in CEDABLE:
            return await self._serve_or_cede(call)
        if key in client_codec.SERVED:
            return await self._as_controller(call)
        if key in self.brokers.versions:
            return await self._for_broker(call)
        local = None
        if len(frame) <= UNPACED_MAX:  # Any peer may send it, and what is meant is short.
            local = client_codec.local_answer(header, frame, self.own_id)
        return local or await self._relayed(call)

    async def _relayed(self, call: _Call) -> Answer:
        """Let a broker answer, which also authenticates the peer."""
        header, arriving = call.header, await call.upstream.begin(call.frame)
        if header.api_key not in _LOOKED_INTO:
            # Before authentication, a broker closes the connection instead.
            call.peer.is_authenticated = True
            return arriving
        answer = await arriving.whole()
        if header.api_key == ApiKey.ApiVersions:
            answer = relayed_frames.narrowed_api_versions(answer, header.version)
        elif header.api_key == ApiKey.SaslAuthenticate:
            if relayed_frames.is_refused(header, answer):
                # An error is final for a client, and a broker may stop on it.
                raise RemoteProtocolError("a broker refuses the credentials of a peer")
            call.peer.is_authenticated |= relayed_frames.ends_exchange(header, answer)
        return with_length(answer)

    async def _upstream_of(self, peer: Peer) -> Upstream:
        known = peer.companion
        if not isinstance(known, Upstream):
            known = peer.companion = await self.relay.connected(peer.address)
        return known

    # --- what the controller answers -----------------------------------------------------------

    async def _for_broker(self, call: _Call) -> Answer | None:
        """
        Answer a broker as its controller, if another broker permits it to ask.

        Without the role, a broker has to hear NOT_CONTROLLER: it stays connected until then, and a
        request that the controller answers through the daemon would keep it here. With the role, no
        broker may answer in the place of the controller.
        """
        peer, header, frame = call.peer, call.header, call.frame
        if call.permission is None:
            return self.brokers.refusal(header)
        answer = await call.upstream.exchange(frame, PERMIT_S)
        error = relayed_frames.error_for_broker(header, answer)
        if error in {NOT_CONTROLLER, STALE_CONTROLLER_EPOCH}:
            return await self.brokers.answer_permitted(peer, header, frame, call.permission)
        return with_length(answer) if error == CLUSTER_AUTHORIZATION_FAILED else None

    async def _as_controller(self, call: _Call) -> Answer | None:
        """Answer as the controller what a broker permits and does not answer itself."""
        peer, header, permission = call.peer, call.header, call.permission
        arriving = await call.upstream.begin(call.frame)
        error = relayed_frames.first_error(header, arriving.head)
        if error != NOT_CONTROLLER and (error is not None or permission is None):
            self._count(call, "by_broker")
            return arriving
        answer = await arriving.whole()
        given: ClientAnswer | None = None
        if permission is not None:
            _, request = await self._thread.run(
                len(call.frame), partial(client_codec.decode, call.frame, permission.peer)
            )
            if request is None:
                self._count(call, "refused")
                return client_codec.refusal(header, INVALID_REQUEST)
            peer.hold_decoded(client_codec.partitions_of(request) * PARTITION_BYTES)
            within_s = request.timeout_s + GRACE_S if isinstance(request, ElectLeaders) else None
            given = await self.tickets.answer_to(request, permission, within_s)
        if given is None or given.error == NOT_CONTROLLER:
            self._count(call, "not_controller")
            peer.is_left = True
            return with_length(answer)
        self._count(call, "answered")
        size = client_codec.results_of(given) * RESULT_BYTES
        own = await self._thread.run(size, partial(client_codec.encode, header, given))
        call.upstream.hold(len(own))
        return own

    # --- what only Kafka's controller carries out ----------------------------------------------

    async def _serve_or_cede(self, call: _Call) -> Answer | None:
        """
        Carry out what concerns topics; give the role back for what only Kafka's controller can do.

        A request that the client may not make is relayed as it is.
        """
        peer, header, upstream = call.peer, call.header, call.upstream
        wanted, seen = await self._read_wanted(call)
        if seen.controller == self.own_id:
            served = None
            if wanted is not None and call.permission is not None:
                served = await self.topics.answer(header, wanted, seen, upstream, call.permission)
            if served is not None:
                answer, error = served
                peer.is_left = error == NOT_CONTROLLER
                self._count(call, "not_controller" if peer.is_left else "answered")
                return answer
            if CEDABLE[header.api_key] in seen.operations:
                return await self._cede(call)
        peer.is_left = seen.controller != upstream.broker
        self._count(call, "by_broker")
        return await upstream.begin(call.frame)

    async def _read_wanted(
        self, call: _Call
    ) -> tuple[TopicsWanted | None, relayed_frames.SeenController]:
        """
        Return a request and what the client may do; without the request, a broker has to answer.

        Rights on topics can be asked for when the names are known. So a long request is read only
        for a client with a right on the cluster.
        """
        key, size = call.header.api_key, len(call.frame)
        if size > SMALL_FRAME:
            seen = await self._look(call.upstream)
            if {CEDABLE[key], ALTER}.isdisjoint(seen.cluster or ()):
                return None, seen
        if key in TOPIC_REQUESTS:
            call.peer.hold_decoded(size * TOPICS_FACTOR)
        wanted = await self.topics.decode(call.header, call.frame)
        names = () if wanted is None else self.topics.names(wanted)
        return wanted, await self._look(call.upstream, names)

    async def _cede(self, call: _Call) -> Answer | None:
        """
        Have the role given back, and ask the controller that brokers name then.

        Where the role was not held, and brokers name this id, another daemon has it: the client has
        to connect to that one.
        """
        peer, upstream, permission = call.peer, call.upstream, call.permission
        now = asyncio.get_running_loop().time
        until = self.tickets.held_until + SETTLE_S
        if permission is not None and self.tickets.is_current(permission):
            request = CedeRole(ApiKey(call.header.api_key).name)
            await self.tickets.answer_to(request, permission, CEDE_S)
            until = now() + CEDE_S
        seen = await self._look(upstream)
        nobody = {self.own_id, _NO_CONTROLLER}
        while seen.controller in nobody and now() < until and not peer.is_gone:
            await asyncio.sleep(LOOK_S)
            seen = await self._look(upstream)
        if peer.is_gone:
            # It gave up, and asks again: the request must not be carried out twice.
            raise ConnectionResetError("the client did not wait")
        if not self.is_sasl and seen.controller not in {upstream.broker, self.own_id}:
            # Nothing of the client is bound to the former connection.
            with suppress(NoBrokerError):
                peer.companion = await self.relay.connected(peer.address, BrokerId(seen.controller))
                upstream.close()
                upstream = peer.companion
        peer.is_left = seen.controller != upstream.broker
        self._count(call, "not_controller" if seen.controller == self.own_id else "ceded")
        return await upstream.begin(call.frame)

    async def _look(
        self, upstream: Upstream, topics: tuple[str, ...] = ()
    ) -> relayed_frames.SeenController:
        """Ask a broker, in the name of the client, for the controller and what is permitted."""
        request = relayed_frames.metadata_request(topics)
        answer = await upstream.exchange(request, PERMIT_S)
        return await self._thread.run(len(answer), partial(relayed_frames.metadata_of, answer))

    def _count(self, call: _Call, result: str) -> None:
        self.observer.endpoint_answered(ApiKey(call.header.api_key).name, result)
