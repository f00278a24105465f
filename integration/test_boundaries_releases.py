"""
Daemons that die at every boundary while leaders ask them, on brokers of older releases.

The two chains of ``test_boundaries``, at the releases' own protocol. A standby, another daemon or a
broker takes over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.plans import Daemons
from integration.rigs.recovery_cells import Shape
from integration.test_boundaries import CHAINED, die_one_after_the_other

OLDER: Final = [row for row in ROWS if row.endpoint and row.release is not KAFKA_3_9]


@pytest.fixture(scope="module", params=OLDER, ids=lambda row: row.name)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of a row; its tests follow each other on it."""
    row: Row = request.param
    with row.running() as found:
        yield found


@pytest.mark.parametrize("shape", CHAINED, ids=lambda shape: shape.name)
def test_daemons_die_at_one_boundary_after_the_other(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, shape: Shape
) -> None:
    """Every target, no acknowledged record lost, nothing left over."""
    die_one_after_the_other(cluster, make_topic, daemons, shape)
