"""The native engine: what each phase waits for."""

from __future__ import annotations

from controller.core.events import TopicConfigsRead
from controller.core.model import BlockedBy, PartitionAssignment, TopicConfig
from controller.core.options import Options
from controller.core.phases import Syncing
from tests.core.builders import Driver, replicas, tp


def test_replicas_are_not_excluded_while_the_settings_of_the_topic_are_unknown() -> None:
    """``min.insync.replicas`` may forbid it; the partition reports what it waits for."""
    driver = Driver({tp(): (0, 1)}, options=Options(step_size=None))
    driver.submit({tp(): (2, 3)})
    driver.view.session.configs.clear()
    driver.catch_up(tp())
    reassignment = driver.view.work.reassignments[tp()]
    assert isinstance(reassignment.phase, Syncing)
    assert reassignment.blocked is not None
    assert reassignment.blocked.by is BlockedBy.CONFIG_UNKNOWN
    assert driver.view.tenure.states[tp()].isr == replicas(0, 1, 2, 3)
    driver.observe(TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=False)}))
    driver.run(tp())
    assert driver.view.session.assignment(tp()) == PartitionAssignment(replicas(2, 3))
