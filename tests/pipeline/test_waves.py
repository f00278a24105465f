"""The division of a plan into waves: no limit is exceeded and no disk overflows at any moment."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.pipeline.placement_ledger import UNLIMITED
from controller.pipeline.waves import WaveLimits, Waves, wanting

BROKERS = 4


def room(*sizes: float) -> object:
    """Return the room of each broker."""
    return np.array(sizes, dtype=float)


def test_a_full_wave_leaves_the_rest_to_the_next() -> None:
    """The number of partitions in a request is limited."""
    waves = Waves(np.zeros(2), room(UNLIMITED, UNLIMITED), WaveLimits(partitions=2))
    assert [waves.add([(0, 1)], [(1, 1)], 10) for _ in range(5)] == [0, 0, 1, 1, 2]


def test_what_a_wave_drops_makes_room_only_in_the_next() -> None:
    """The disk of broker 0 is full: it takes a replica one wave after it lost one."""
    waves = Waves(np.array([10, 0]), room(10, 10), WaveLimits())
    assert waves.add([(0, 5)], [(1, 5)], 10) is None
    assert waves.add([(1, 5)], [(0, 5)], 10) == 0
    assert waves.add([(0, 5)], [(1, 5)], 10) == 1
    assert [int(wave.peak[0]) for wave in waves.result()] == [10, 10]


def test_bytes_into_a_broker_are_limited_but_never_block_a_large_replica() -> None:
    """A replica larger than the limit has a wave for itself."""
    waves = Waves(np.zeros(2), room(UNLIMITED, UNLIMITED), WaveLimits(bytes_in=10))
    assert [waves.add([(0, size)], [(1, size)], 10) for size in (6, 6, 50)] == [0, 1, 2]


def test_a_request_fits_into_a_znode() -> None:
    """The text of a wave is limited."""
    waves = Waves(np.zeros(2), room(UNLIMITED, UNLIMITED), WaveLimits(znode_bytes=100))
    assert [waves.add([(0, 1)], [(1, 1)], 60) for _ in range(3)] == [0, 1, 2]


def test_missing_room_is_reported_by_broker() -> None:
    """Two full disks that want to exchange replicas lack one replica's room each."""
    first, limits = np.array([10, 10]), room(10, 10)
    waves = Waves(first, limits, WaveLimits())
    assert waves.add([(0, 4)], [(1, 4)], 10) is None
    assert wanting(waves.result(), first, limits, [[(0, 4)]]) == {0: 4}


changes = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, BROKERS - 1), st.integers(0, BROKERS - 1)),
    max_size=60,
)


@given(changes, st.integers(20, 60), st.integers(1, 5))
def test_no_disk_overflows_in_any_order_within_a_wave(
    wanted: list[tuple[int, int, int]], capacity: int, partitions: int
) -> None:
    """Adding everything of a wave before anything is dropped stays under the capacity."""
    first = np.full(BROKERS, 20)
    waves = Waves(first, np.full(BROKERS, float(capacity)), WaveLimits(partitions=partitions))
    taken: dict[int, list[tuple[int, int, int]]] = {}
    for size, taker, giver in wanted:
        if taker != giver:
            into = waves.add([(taker, size)], [(giver, size)], 10)
            if into is not None:
                taken.setdefault(into, []).append((size, taker, giver))
    held = first.copy()
    result = waves.result()
    assert len(result) == waves.count
    for number, wave in enumerate(result):
        peak = held.copy()
        for size, taker, _ in taken.get(number, []):
            peak[taker] += size
        assert peak.tolist() == wave.peak.tolist()
        assert (peak <= capacity).all()
        assert wave.partitions == len(taken.get(number, [])) <= partitions
        held = peak
        for size, _, giver in taken.get(number, []):
            held[giver] -= size
