"""
The daemon's view of topic settings in a simulation: ``TopicConfigs`` answered after a delay.

What a topic's settings are is part of the fabric; here is only how the daemon learns them, and the
fault that it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from controller.core.cluster.model import LiveBroker
from controller.core.model import TopicConfig
from controller.core.role.records import BrokerSettingsRead
from controller.core.topics.model import ConfigRequest
from controller.core.topics.records import TopicConfigsRead
from controller.reactor.ports import Inbox

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric

DESCRIBE_S: Final = (0.005, 0.1)
"""The time from the request until the broker reads the settings."""
ANSWER_S: Final = (0.001, 0.4)
"""The time from the read until the answer arrives: the settings may have changed."""


class SimConfigs:
    """Answers what ``Fabric.configs`` says when the answer is made."""

    def __init__(self, fabric: Fabric, inbox: Inbox) -> None:
        self._fabric = fabric
        self._inbox = inbox
        self.failure_rate = 0.0
        """The probability that a read of a topic's settings fails."""

    def describe(self, topics: Sequence[str], requested: ConfigRequest) -> None:
        """Have a broker look, and its ``TopicConfigsRead`` arrive some time after that."""

        def look() -> None:
            configs = {topic: self._described(topic) for topic in topics}
            answer = TopicConfigsRead(configs, requested)
            self._fabric.schedule.call_between(*ANSWER_S, lambda: self._inbox.put(answer))

        self._fabric.schedule.call_between(*DESCRIBE_S, look)

    def describe_brokers(self, brokers: Sequence[LiveBroker]) -> None:
        """Have each broker say whether topics may be deleted."""
        for broker in brokers:
            self._fabric.schedule.call_between(*DESCRIBE_S, self._setting(broker))

    def _setting(self, broker: LiveBroker) -> Callable[[], None]:
        def answer() -> None:
            failed = self._fabric.schedule.random.random() < self.failure_rate
            says = None if failed else self._fabric.deletes_topics
            protocol = None if failed else self._fabric.protocol
            read = BrokerSettingsRead(broker.id, broker.epoch, says, protocol=protocol)
            self._inbox.put(read)

        return answer

    def _described(self, topic: str) -> TopicConfig | str:
        if self._fabric.schedule.random.random() >= self.failure_rate:
            return self._fabric.config(topic)
        self._fabric.strike("configs_unknown")
        return "no broker answered"
