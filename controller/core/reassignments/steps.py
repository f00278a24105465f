"""
KAFKA-6794: which replicas the next step adds and which it drops.

Set arithmetic only; ``gates`` decides whether a step may begin. Order matters: the first missing
replica of the final target is added first, and the leader is dropped last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controller.core.model import BrokerId, PartitionAssignment, Replicas

STEPS_MAX: Final = 10_000
"""More steps than any replica list needs."""


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step from the current replicas CR.

    ``target`` is TR, ``adding`` NR, ``dropping`` DR. ``hopeless`` are the members of DR that are
    dead or out of the ISR: a step does not wait for them.
    """

    target: Replicas
    adding: Replicas
    dropping: Replicas
    hopeless: Replicas
    is_last: bool

    @property
    def changes_replicas(self) -> bool:
        """Whether it adds or drops a replica; otherwise only their order changes."""
        return bool(self.adding or self.dropping)

    @property
    def assignment(self) -> PartitionAssignment:
        """The entry of the topic znode during the step: RS = TR + DR, AR = NR, RR = DR."""
        return PartitionAssignment(
            replicas=self.target + self.dropping,
            adding_replicas=self.adding,
            removing_replicas=self.dropping,
        )


def next_step(
    current: Replicas,
    final: Replicas,
    leader: BrokerId,
    step_size: int | None,
    is_sound: Callable[[BrokerId], bool],
) -> Step:
    """
    Return one step of KAFKA-6794 from the current replicas CR towards the final target FTR.

    The leader is dropped only when no other replica is left to drop. ``step_size`` replicas are
    added at most; None adds all and drops all (the classic single jump). Excess replicas that are
    not sound, that is live and in the ISR, are dropped first, even where the count alone would drop
    none; otherwise a dead broker could never be replaced.
    """
    missing = tuple(r for r in final if r not in current)
    excess = tuple(r for r in current if r not in final)
    hopeless = tuple(r for r in excess if not is_sound(r) and r != leader)
    if step_size is None:
        return Step(final, missing, excess, hopeless, is_last=True)
    adding = missing[:step_size]
    by_need = hopeless + tuple(r for r in excess if r not in hopeless and r != leader)
    by_need += tuple(r for r in excess if r == leader)
    count = max(len(hopeless), len(current) - len(final), 0)
    is_last = not missing
    dropping = excess if is_last else by_need[:count]
    kept = tuple(r for r in current if r not in dropping)
    target = final if is_last else kept + adding
    return Step(
        target=target,
        adding=adding,
        dropping=dropping,
        hopeless=tuple(r for r in hopeless if r in dropping),
        is_last=is_last,
    )


def drop_set(
    assigned: Replicas, isr: Replicas, leader: BrokerId, top: int, target: Replicas
) -> Replicas:
    """
    Return the replicas that can be dropped because the target changed in flight (KIP-236).

    The first ``top`` of leader, ISR and rest stay, where ``top`` is the size of the original
    assignment. So the leader never leaves, and an in-sync replica leaves only after all lagging
    ones.
    """
    rest = tuple(r for r in assigned if r not in isr)
    existing = tuple(dict.fromkeys((leader, *(r for r in isr if r in assigned), *rest)))
    kept = existing[:top]
    return tuple(r for r in assigned if r not in kept and r not in target)


def steps_to(
    current: Replicas,
    final: Replicas,
    leader: BrokerId,
    step_size: int | None,
    is_sound: Callable[[BrokerId], bool] = lambda _: True,
) -> tuple[Step, ...]:
    """
    Return the steps from one assignment to another if nothing changes meanwhile.

    The leader stays as long as possible, then the first remaining replica leads; added replicas
    count as sound.
    """
    steps: list[Step] = []
    added: set[BrokerId] = set()
    while current and current != final and len(steps) < STEPS_MAX:
        step = next_step(current, final, leader, step_size, lambda r: r in added or is_sound(r))
        steps.append(step)
        added.update(step.adding)
        current = step.target
        leader = leader if leader in current else current[0]
    return tuple(steps)
