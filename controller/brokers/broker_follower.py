"""
The inbox in front of the loop's: brokers and the controller for the adapters that query them.

It also keeps which topics exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, TopicAssignment, Zxid
from controller.core.records import Event
from controller.core.role.records import BrokersRead, ClaimGuardsRead
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.reactor.ports import Inbox


@dataclass(eq=False, slots=True)
class BrokerFollower:
    """An inbox that passes every event on, and updates the adapters from some."""

    inner: Inbox
    update_brokers: tuple[Callable[[Iterable[LiveBroker]], None], ...] = ()
    update_controller: Callable[[BrokerId | None], None] = lambda _: None
    """Called with the broker that is the controller; None: none is."""
    topics: frozenset[str] = frozenset()
    """The topics that were listed last."""
    names_by_id: dict[str, str] = field(default_factory=dict)
    """Their names by their ids, as last read."""
    _created: dict[str, Zxid] = field(default_factory=dict)
    """The creation of each, as last read."""

    def exists(self, name: str, czxid: Zxid) -> bool:
        """Return whether the topic of this creation exists, and not a later one of its name."""
        return name in self.topics and self._created.get(name, czxid) <= czxid

    def put(self, event: Event) -> None:
        """Update the adapters from the event and pass it on."""
        if isinstance(event, BrokersRead):
            for update in self.update_brokers:
                update(event.brokers.values())
        elif isinstance(event, ClaimGuardsRead):
            self.update_controller(event.controller_broker)
        elif isinstance(event, TopicsListed):
            self._topics_listed(event.topics)
        elif isinstance(event, TopicsRead):
            self._topics_read(event)
        self.inner.put(event)

    def _topics_listed(self, topics: frozenset[str]) -> None:
        self.topics = topics
        known = list(self.names_by_id.items())
        for topic_id in [i for i, name in known if name not in topics]:
            self.names_by_id.pop(topic_id, None)
        for name in self._created.keys() - topics:
            self._created.pop(name, None)

    def _topics_read(self, event: TopicsRead) -> None:
        for name, read in event.topics.items():
            if not isinstance(read, TopicAssignment):
                continue
            # A listing and reads come from several threads: an older read may follow.
            self._created[name] = max(self._created.get(name, read.czxid), read.czxid)
            if read.topic_id is not None:
                self.names_by_id[read.topic_id] = name
