"""
Effective settings of topics and brokers, as the brokers themselves report them (DescribeConfigs).

Asks with confluent-kafka's admin client, which is kept warm, on a thread of its own. Reads only;
what a setting means for a step is decided in ``core``.

Invariants: every topic asked for is answered, with its settings or with why they are not known;
topics asked for again while a question is out are asked once more, together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import islice
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from controller.brokers.endpoints import ListenerChoice, Security
from controller.core.events import TopicConfigsRead
from controller.core.model import BrokerId, LiveBroker, TopicConfig
from controller.errors import BrokerUnreachableError, TransientError
from controller.reactor.ports import Inbox

_TOPICS_AT_ONCE: Final = 500
"""An answer carries every setting of a topic, some 3 kB each."""
_REQUEST_TIMEOUT_S: Final = 15.0
_GRACE_S: Final = 5.0
_STOP_WITHIN_S: Final = 1.0
_TOKEN_LIFE_S: Final = 300.0

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
INTER_BROKER_PROTOCOL: Final = "inter.broker.protocol.version"

Entries = Mapping[str, ConfigEntry]
_T = TypeVar("_T")


def topic_config_of(entries: Entries) -> TopicConfig | str:
    """Return what matters of a topic's settings, or why it cannot be told."""
    least = _value(entries, MIN_INSYNC_REPLICAS)
    unclean = _value(entries, UNCLEAN_LEADER_ELECTION)
    if not least.isascii() or not least.isdigit() or int(least) < 1:
        return f"{MIN_INSYNC_REPLICAS} is {least!r}"
    if unclean not in ("true", "false"):
        return f"{UNCLEAN_LEADER_ELECTION} is {unclean!r}"
    return TopicConfig(int(least), unclean == "true")


def _value(entries: Entries, name: str) -> str:
    entry = entries.get(name)
    return "" if entry is None or entry.value is None else entry.value.strip()


def client_settings(security: Security, servers: Iterable[str]) -> dict[str, Any]:
    """Return the settings of confluent-kafka's client; those that are not set are left out."""
    provider = security.sasl_oauth_token_provider
    settings = {
        "bootstrap.servers": ",".join(servers),
        "client.id": "kafka-reassigner",
        # What goes wrong is in the answer; librdkafka would print it as well.
        "log_level": 0,
        "security.protocol": security.security_protocol,
        "ssl.ca.location": security.ssl_cafile,
        "ssl.certificate.location": security.ssl_certfile,
        "ssl.key.location": security.ssl_keyfile,
        "ssl.key.password": security.ssl_password,
        "ssl.crl.location": security.ssl_crlfile,
        "ssl.endpoint.identification.algorithm": None if security.ssl_check_hostname else "none",
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.username": security.sasl_plain_username,
        "sasl.password": security.sasl_plain_password,
        "sasl.kerberos.service.name": security.sasl_kerberos_service_name,
        "oauth_cb": None
        if provider is None
        else lambda _: (provider.token(), time.time() + _TOKEN_LIFE_S),
    }
    return {name: value for name, value in settings.items() if value is not None}


class DescribedTopicConfigs:
    """The ``TopicConfigs`` of the reactor, and the inter-broker protocol for ``doctor``."""

    def __init__(
        self,
        inbox: Inbox,
        security: Security,
        listeners: ListenerChoice,
        bootstrap: Iterable[str] = (),
    ) -> None:
        """
        Prepare; nothing is connected before something is asked.

        Args:
            inbox: where the answers go.
            security: TLS and SASL settings.
            listeners: which listener of a broker to use.
            bootstrap: ``host:port`` of brokers known before any registration was read.
        """
        self._inbox = inbox
        self._security = security
        self._listeners = listeners
        self._servers = frozenset(bootstrap)
        self._admin: AdminClient | None = None
        self._asked: dict[str, None] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="topic-configs", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether the asking thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the asking thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the asking thread; a question that is still out is left behind."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(_STOP_WITHIN_S)

    def describe(self, topics: Sequence[str]) -> None:
        """Ask in the background: ``TopicConfigsRead`` follows, with a text where it failed."""
        with self._changed:
            self._asked.update(dict.fromkeys(topics))
            self._changed.notify()

    def update_brokers(self, brokers: Iterable[LiveBroker]) -> None:
        """
        Learn where brokers are.

        The client finds the others by itself as long as it knows one; it is made anew, when next
        needed, only after none of those it was made with is left.
        """
        endpoints = [e for b in brokers if (e := self._listeners.endpoint_of(b)) is not None]
        servers = frozenset(_server(e.host, e.port) for e in endpoints)
        with self._changed:
            if servers and servers.isdisjoint(self._servers):
                self._admin = None
                self._servers = servers

    def inter_broker_protocol(
        self, brokers: Sequence[BrokerId]
    ) -> Mapping[BrokerId, str | TransientError]:
        """
        Ask each broker for its ``inter.broker.protocol.version``; waits for the answers.

        Returns:
            The version as the broker writes it, or why it is not known.
        """
        answers: dict[BrokerId, str | TransientError] = {}
        asked: dict[BrokerId, Future[Entries]] = {}
        for broker in brokers:
            # librdkafka takes one broker per question: it goes to that very broker.
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            try:
                asked[broker] = self._describe([resource])[resource]
            except TransientError as error:
                answers[broker] = error
        wait(asked.values(), timeout=_REQUEST_TIMEOUT_S + _GRACE_S)
        for broker, future in asked.items():
            answer = _settled(future, lambda entries: _value(entries, INTER_BROKER_PROTOCOL))
            answers[broker] = answer or BrokerUnreachableError("it does not tell its protocol")
        return answers

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked or self._stopping)
                if self._stopping:
                    return
                topics = list(islice(self._asked, _TOPICS_AT_ONCE))
                for topic in topics:
                    del self._asked[topic]
            self._inbox.put(TopicConfigsRead(self._read(topics)))

    def _read(self, topics: Sequence[str]) -> Mapping[str, TopicConfig | str]:
        try:
            asked = self._describe([ConfigResource(ResourceType.TOPIC, t) for t in topics])
        except (TransientError, ValueError) as error:
            return dict.fromkeys(topics, str(error))
        wait(asked.values(), timeout=_REQUEST_TIMEOUT_S + _GRACE_S)
        answers = {r.name: _settled(future, topic_config_of) for r, future in asked.items()}
        return {t: str(a) if isinstance(a, TransientError) else a for t, a in answers.items()}

    def _describe(
        self, resources: list[ConfigResource]
    ) -> Mapping[ConfigResource, Future[Entries]]:
        try:
            return self._client().describe_configs(resources, request_timeout=_REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise BrokerUnreachableError(_said(error)) from error

    def _client(self) -> AdminClient:
        with self._changed:
            if self._admin is None:
                if not self._servers:
                    raise BrokerUnreachableError("no broker is known yet")
                self._admin = AdminClient(client_settings(self._security, sorted(self._servers)))
            return self._admin


def _settled(future: Future[Entries], read: Callable[[Entries], _T]) -> _T | TransientError:
    if not future.done():
        return BrokerUnreachableError("no answer in time")
    error = future.exception()
    if error is not None:
        return BrokerUnreachableError(_said(error))
    return read(future.result())


def _said(error: BaseException) -> str:
    cause = error.args[0] if error.args else error
    return f"{cause.name()}: {cause.str()}" if isinstance(cause, KafkaError) else str(error)


def _server(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
