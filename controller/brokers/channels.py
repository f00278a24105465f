"""
Channels to brokers: ordered controller requests, implementing ``reactor.ports.Channels``.

A channel connects in the background, has one request in flight, and resends it on a new connection
until it is answered or the channel is closed. It decides nothing about the cluster.

Invariants: the requests of a broker are answered in the order in which they were handed over;
nothing is sent while ``may_send`` is false, that is, when the ZooKeeper session may have expired;
after ``close`` or ``close_all`` has returned, nothing is sent and no answer of the channel is
delivered (``broker_connections.Gate``); an answer is marked as ``resent`` only if an earlier
attempt had been sent completely.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafka.future import Future
from tenacity import wait_random_exponential
from tenacity.wait import wait_base

from controller import kafka_errors
from controller.brokers.broker_connections import BrokerConnection, ConnectionLimits, Gate, connect
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.controller_requests import Answered, Encoder, event_of
from controller.brokers.io_threads import IoThread
from controller.brokers.messages import common_versions, sent_versions
from controller.clocks import pause_s
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, Instant
from controller.errors import NativeRefusedError, ProtocolError, TransientError
from controller.reactor.ports import BrokerRequest, Inbox

UNREACHABLE_AFTER_S: Final = 5.0
"""A broker registers shortly before it listens, and stays registered for a while when it dies."""

RECONNECT: Final = wait_random_exponential(multiplier=0.05, max=0.25, min=0.025)
"""
Pauses between attempts to reach a broker, for as long as it is registered.

Low: a broker that registered is about to listen, and its clients connect at once.
"""

MAY_NOT_SEND_S: Final = 0.05
"""The pause before a channel asks ``may_send`` again."""


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """Options that all channels share."""

    controller_id: BrokerId
    connections: ConnectionSettings = field(default_factory=ConnectionSettings)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    reconnect: wait_base = RECONNECT
    may_send: Callable[[], bool] = lambda: True
    """Whether this process may still be the controller; called right before each sending."""


def _now() -> Instant:
    return Instant(time.monotonic())


@dataclass(frozen=True, slots=True)
class ChannelState:
    """Whether a channel is connected."""

    connected: bool = False
    since: Instant = field(default_factory=_now)
    """Since when ``connected`` has its value."""
    last_error: str | None = None
    """Why the last attempt failed; reset when a request is answered."""


class BrokerChannels:
    """The channels to all brokers, on one IO thread."""

    def __init__(self, inbox: Inbox, options: ChannelOptions) -> None:
        self._inbox = inbox
        self._options = options
        self._io = IoThread()
        self._encoder = Encoder(options.controller_id, options.connections.listeners)
        self._lock = threading.Lock()
        self._channels: dict[BrokerId, _Channel] = {}

    @property
    def is_alive(self) -> bool:
        """Whether the IO thread runs; the process ends without it."""
        return self._io.is_alive

    def start(self) -> None:
        """Start the IO thread."""
        self._io.start()

    def stop(self) -> None:
        """Close every channel and wait for the end of the IO thread."""
        self.close_all()
        self._io.stop()

    def open(self, broker: LiveBroker) -> None:
        """
        Connect in the background.

        A channel with the same broker epoch is kept, with its request in flight; new endpoints
        apply to its next connection. With another epoch, the channel is replaced.
        """
        with self._lock:
            known = self._channels.get(broker.id)
            if known is not None and known.broker.epoch == broker.epoch:
                known.broker = broker
                return
            if known is not None:
                known.close()
            self._channels[broker.id] = channel = _Channel(
                broker, self._io, self._inbox, self._options, self._encoder
            )
        self._io.post(lambda: self._io.spawn(channel.run))

    def close(self, broker: BrokerId) -> None:
        """Disconnect and forget; unknown ids are ignored."""
        with self._lock:
            channel = self._channels.pop(broker, None)
            if channel is not None:
                channel.close()

    def close_all(self) -> None:
        """Disconnect from every broker at once."""
        with self._lock:
            for channel in self._channels.values():
                channel.close()
            self._channels.clear()
        self._io.post(self._encoder.forget)

    def send(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Queue the next request; ignored if no channel is open."""
        with self._lock:
            channel = self._channels.get(broker)
            if channel is not None:
                channel.send(request)

    def describe(self) -> Mapping[BrokerId, ChannelState]:
        """Return the state of every channel; from any thread."""
        with self._lock:
            return {broker: channel.state for broker, channel in self._channels.items()}

    def unreachable(self, after_s: float = UNREACHABLE_AFTER_S) -> Mapping[BrokerId, str]:
        """Return the brokers without a connection for so many seconds, and why; any thread."""
        since = _now() - after_s
        return {
            broker: state.last_error or "no answer yet"
            for broker, state in sorted(self.describe().items())
            if not state.connected and state.since <= since
        }


@dataclass(eq=False, slots=True)
class _Channel:
    """The channel to one incarnation of a broker; ``run`` and what it calls use the IO thread."""

    broker: LiveBroker
    _io: IoThread
    _inbox: Inbox
    _options: ChannelOptions
    _encoder: Encoder
    state: ChannelState = field(default_factory=ChannelState)
    _gate: Gate = field(default_factory=Gate)
    _requests: deque[BrokerRequest] = field(default_factory=deque)
    _resent: bool = False
    """Whether the first request may have reached the broker already."""
    _sent_at: Instant | None = None
    """When the first request was first sent."""
    _connection: BrokerConnection | None = None
    _signal: Future | None = None

    # On the loop thread.

    def send(self, request: BrokerRequest) -> None:
        self._requests.append(request)
        self._io.post(self._wake)

    def close(self) -> None:
        self._gate.close()
        self._io.post(self._shut)

    # On the IO thread.

    async def run(self) -> None:
        """Keep the connection and send requests until the gate is closed."""
        failures = 0
        while self._gate.is_open:
            try:
                connection = await self._connect()
            except (TransientError, ProtocolError) as error:
                self._handle_disconnect(str(error))
                failures += 1
            else:
                failures = 1 if await self._converse(connection) else failures + 1
            if self._gate.is_open:
                await self._io.net.sleep(pause_s(self._options.reconnect, failures))

    async def _connect(self) -> BrokerConnection:
        options = self._options
        return await connect(self._io, self.broker, options.connections, options.limits, self._gate)

    async def _converse(self, connection: BrokerConnection) -> bool:
        """Send requests while the connection lasts; return whether any was answered."""
        self._connection = connection
        self.state = replace(self.state, connected=True, since=_now())
        connection.on_close(self._wake)
        got_answer = False
        lost = "the broker closed the connection"
        try:
            while connection.is_open and self._gate.is_open:
                if not self._requests:
                    await self._sleep_until_woken()
                    continue
                if not self._options.may_send():
                    # After a suspension this thread may run before the loop closes the channel.
                    await self._io.net.sleep(MAY_NOT_SEND_S)
                    continue
                self._deliver(await self._answer(connection, self._requests[0]))
                got_answer = True
        except (TransientError, ProtocolError) as error:
            self._resent = self._resent or connection.may_have_delivered
            lost = str(error)
        finally:
            self._connection = None
            connection.close()
        self._handle_disconnect(lost)
        return got_answer

    async def _answer(self, connection: BrokerConnection, request: BrokerRequest) -> Answered:
        try:
            versions = common_versions(connection.understood, sent_versions(request.protocol))
        except NativeRefusedError as refusal:
            # This incarnation of the broker will not serve another version: a retry is useless.
            return self._unsendable(request, kafka_errors.UNSUPPORTED_VERSION, refusal)
        try:
            frame = self._encoder.encode(request, versions, self.broker.epoch)
        except ProtocolError as error:
            return self._unsendable(request, kafka_errors.UNKNOWN_SERVER_ERROR, error)
        sent_at = self._sent_at = self._sent_at or _now()
        response = await connection.send_and_receive(frame)
        self.state = replace(self.state, last_error=None)
        code = response.error_code
        event = event_of(self.broker, request, code, response, resent=self._resent)
        return replace(event, took_s=_now() - sent_at)

    def _unsendable(self, request: BrokerRequest, error: int, why: Exception) -> Answered:
        self.state = replace(self.state, last_error=str(why))
        return event_of(self.broker, request, error, None)

    def _deliver(self, event: Answered) -> None:
        self._requests.popleft()
        self._resent = False
        self._sent_at = None
        with self._gate.passing() as is_open:
            if is_open:
                self._inbox.put(event)

    def _handle_disconnect(self, why: str) -> None:
        since = _now() if self.state.connected else self.state.since
        self.state = replace(self.state, connected=False, since=since, last_error=why)

    async def _sleep_until_woken(self) -> None:
        self._signal = Future()
        await self._signal
        self._signal = None

    def _wake(self) -> None:
        if self._signal is not None and not self._signal.is_done:
            self._signal.success(None)

    def _shut(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._wake()
