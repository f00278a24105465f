"""
The daemon's real loop and core through seeded histories of faults.

A seed that ever failed stays: in ``OLD_REGRESSIONS`` those found while every history had the one
plot, in the others those whose plot is drawn from the seed, with the defect that each of them
found; those of ``FULL_REGRESSIONS`` are played as ``campaigns`` plays them. What a history does
changes with the timing of the daemon, so the regressions are more histories today, and played by
``make exhaustive``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from controller.core.core_settings import LegacyMode, TenurePolicy
from controller.core.model import TopicPartition
from controller.core.reassignments.partition_context import PartitionContext
from controller.reactor.ports import WriteError
from controller.znodes import paths
from tests.sim.faults import Weights
from tests.sim.histories import is_finished, play, reactors
from tests.sim.judges import InvariantViolationError
from tests.sim.plots import (
    Plot,
    endpoint_plot_of,
    plan_plot_of,
    plot_of,
    plot_without_deletions,
    with_topics_created_again,
)
from tests.sim.rules import Rule
from tests.sim.seeds import seeds
from tests.sim.store_faults import Refusal
from tests.sim.world import World

PLOT: Final = Plot()
OLD_REGRESSIONS: Final = (15, 33, 38, 54, 82)
"""Seeds that found defects of reductions, bounces, lost answers and lingering."""
REGRESSIONS: Final = {
    10: "An entry retargeted between tenures was overwritten with the older target of its spec.",
    27: "Orphans that outlast a tenure were not tried again while nothing else happened.",
    37: "The same, with rivals for the role.",
    39: "A plan replaced between tenures was lost, its entries overwritten by the one before.",
    1092: "Without a linger the role was given back before an orphan's deletion was answered.",
    1101: "A replica was added again in the write that gave up its deletion.",
    1171: "A leader that restarted got the ISR from before its last change.",
    1543: "Stale topics and states were replaced by those of an older, overtaken read.",
}
ENDPOINT_REGRESSIONS: Final = {
    4: "The outcome of a request that another daemon ended was written in vain again and again.",
    5: "An entry that was done already ended another request's reassignment in the same cycle.",
    11: "A restarted daemon could not read that a cancellation was chosen, and never ended it.",
    15: "An atomic request was deleted before the refusals of its entries were durable.",
    33: "A good copy stayed beside its replacement, beyond the bound.",
    38: "An unreadable request counted as none, a deleted topic's entries of a queue twice.",
    63: "(In the simulator:) an entry that was cancelled before it began was still expected.",
    68: "A spec was made from a topic znode before a Kafka controller's last write.",
    106: "A queue was never read again after ZooKeeper had refused a write to it.",
    107: "A step began in the cycle in which its cancellation ended it as never begun.",
    124: "A cancellation undid a reassignment that its request had never begun.",
    168: "A replica that another client had removed was copied unthrottled.",
    222: "A queue's takeover of a legacy entry was retried in vain until a new read.",
    227: "A refused atomic request ended the record of a step that it had taken over in flight.",
    355: "(In the simulator:) the assignments before the first write were unknown.",
    511: "A request ended as done before the rest of it, listed but unread, was accepted.",
    520: "A claim was forgotten if the applied throttles were read last.",
    708: "A plan's entry that was done already ended the rollback of another plan's as done.",
    732: "A plan's entry was removed, and the log of an original that others dropped not recorded.",
    748: "A topic to be deleted, below min ISR, blocked all other work.",
    863: "A log left where a record was cancelled was never deleted, and blocked the next one.",
    881: "The same, where an entry was removed from a plan.",
    998: "Entries that another daemon accepted during a cancellation were never read again.",
    1060: "Replicas that others removed, read while the topic was stale, went back unthrottled.",
    1137: "The same between tenures that begin when there is work.",
    1190: "A late read undid the record of a queue.",
    1795: "The end of a changed cancellation was retried in vain until it was read again.",
    1892: "The same on the way to a target.",
    2289: "A refused deletion of an orphan's record was never tried again.",
    2572: "The end of an entry was retried in vain beside a changed plan, until that was read.",
    2753: "A refused atomic request ended a record beside a step while its topic was stale.",
    3372: "A foreign reassignment replaced the request that had just replaced it.",
    4284: "A good copy waited for originals that only the step after its drop adds.",
    4758: "An entry that shared a refused write with a deleted topic's was never ended.",
    4795: "Brokers got the former replicas of a topic that was stale after a claim.",
    5920: "A topic created in the cycle in which the role was lost was never read.",
    8333: "A step without a leader blocked the deletion of its topic, and that all other work.",
    8603: "After a claim a rollback was copied without its throttle.",
    50987: "A request took the original replicas of an ended foreign reassignment for its own.",
    80019: "A request that was listed late began after the cancellation of everything.",
}
"""The same for plots with requests to the daemon."""
FULL_REGRESSIONS: Final = {
    3: "A step that Kafka's controller began gave up good copies while its target had a dead one.",
    14: "A reassignment of a topic to be deleted got no leader, and blocked the deletion.",
    1479: "A step whose write ZooKeeper refused had no blocked reason.",
    2428: "The assignment before a foreign reassignment was taken for a wrong original.",
    3480: "A step that the next controller ended counted as blocked since its last phase.",
    3612: "Another daemon's entry began while disabled: an older record had begun before.",
    5628: "A step that others ended while it copied counted as blocked since that phase.",
    6452: "A failed directory made the simulated controller bring back logs it was deleting.",
    6907: "Nor did it get a leader if the deletion was older than the claim.",
    9675: "A reassignment whose new target ZooKeeper did not take waited without a reason.",
}
"""The same for plots with every setting of a campaign, as small multis and refusals."""
QUIET: Final = replace(PLOT, fault_every_s=1e9)


def _options(**changes: object) -> Plot:
    return replace(PLOT, options=replace(PLOT.options, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", seeds(range(5)))
def test_plans_are_carried_out_when_nothing_goes_wrong(seed: int) -> None:
    """Four plans are carried out one after the other, and no acknowledged record is lost."""
    world = play(seed, QUIET)
    assert all(world.invariants.committed(p) > 100 for p in world.partitions())
    assert set(world.producer.answers) <= {0, 3, 6}


@pytest.mark.parametrize("seed", seeds([2, 4, 10, 88]))
def test_who_bounces_while_the_states_are_read_leads_at_a_new_epoch_only(seed: int) -> None:
    """A late claim or a refused write does not let the leader keep its epoch."""
    plot = plot_without_deletions(seed)
    plot = replace(
        plot,
        options=replace(plot.options, tenure=TenurePolicy.ON_DEMAND, tenure_linger_s=0.0),
        weights=replace(plot.weights, broker_bounced_at_claim=20),
    )
    world = World(seed)
    play(seed, plot, world)
    assert world.fabric.struck["broker_bounced_at_claim"]
    assert world.invariants.judge.applied[Rule.BOUNCED_LEADS_ANEW]


@pytest.mark.parametrize("seed", seeds([*range(10), *OLD_REGRESSIONS]))
def test_any_fault_is_survived(seed: int) -> None:
    """Every plan ends once the cluster is healed, and no rule is broken."""
    play(seed, PLOT)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_found_once_is_survived(seed: int) -> None:
    """The plot is drawn from each seed."""
    play(seed, plan_plot_of(seed))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", ENDPOINT_REGRESSIONS)
def test_every_requested_target_is_reached_or_refused(seed: int) -> None:
    """The plots draw requests, cancellations, the queue and all controls."""
    play(seed, endpoint_plot_of(seed))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", FULL_REGRESSIONS)
def test_what_a_campaign_found_is_survived(seed: int) -> None:
    """Each seed is played as by a campaign."""
    play(seed, plot_of(seed))


@pytest.mark.parametrize("seed", seeds([21, 24]))
def test_topics_that_are_created_again_at_any_instant_get_states_of_their_own(seed: int) -> None:
    """The daemon hears late of some, and claims the role meanwhile."""
    world = World(seed)
    play(seed, with_topics_created_again(plot_of(seed)), world)
    assert world.fabric.struck["created_again"]


def test_a_daemon_that_excludes_before_the_target_is_in_sync_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Redundancy has a rule of its own, as no record is lost while nothing else fails."""
    monkeypatch.setattr(PartitionContext, "in_sync_gate", lambda *_args, **_named: None)
    monkeypatch.setattr(PartitionContext, "copies_gate", lambda _turn, _dropping: None)
    with pytest.raises(InvariantViolationError, match="good copies"):
        play(7, plot_of(7))


@pytest.mark.parametrize("mode", list(LegacyMode))
@pytest.mark.parametrize("error", [WriteError.OTHER, WriteError.TOO_LARGE])
def test_refused_write_of_the_plan_is_tried_again(mode: LegacyMode, error: WriteError) -> None:
    """The daemon retries by itself, as no watch would fire."""
    world = World(1)
    world.create_topic("three", {n: [1, 2, 3] for n in range(3)})
    world.settle()
    daemon = world.add_daemon(reactors(_options(legacy_mode=mode).options))
    world.run_for(3.0)
    daemon.store.faults.refuse(Refusal(paths.LEGACY_PLAN, error, is_once=True))
    world.submit_plan({TopicPartition("three", n): [4, 5, 1 + n] for n in range(3)})
    world.run_until(lambda: is_finished(world), within_s=60.0)


@pytest.mark.parametrize("seed", seeds(range(3)))
@pytest.mark.parametrize(
    "plot",
    [
        pytest.param(_options(step_size=None), id="single jump"),
        pytest.param(_options(step_size=2), id="two at a time"),
        pytest.param(_options(tenure=TenurePolicy.PERMANENT), id="permanent"),
        pytest.param(_options(legacy_mode=LegacyMode.MIRROR), id="mirror"),
        pytest.param(_options(max_partitions_in_flight=2), id="two in flight"),
        pytest.param(
            replace(PLOT, weights=Weights(daemon_crashed_between=40)), id="crashes between"
        ),
    ],
)
def test_any_fault_is_survived_with_other_options(plot: Plot, seed: int) -> None:
    """The options change the course of a history, not its end."""
    play(seed, plot)
