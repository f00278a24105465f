"""
The daemon's real loop and core through seeded histories of faults.

A seed that ever failed stays: in ``OLD_REGRESSIONS`` those found while every history had the one
plot, in the others those whose plot is drawn from the seed, with what each of them found; those of
``FULL_REGRESSIONS`` are played as ``campaigns`` plays them, and the bulk of the histories.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from controller.core.model import TopicPartition
from controller.core.options import LegacyMode, TenurePolicy
from controller.core.partition.context import PartitionContext
from controller.reactor.ports import WriteError
from controller.znodes import paths
from tests.sim.faults import Weights
from tests.sim.histories import is_finished, play, reactors
from tests.sim.judges import InvariantViolationError
from tests.sim.plots import Plot, asked_plot_of, plan_plot_of, plot_of
from tests.sim.rules import Rule
from tests.sim.store_faults import Refusal
from tests.sim.world import World

PLOT: Final = Plot()
OLD_REGRESSIONS: Final = (15, 33, 38, 54, 82)
"""Found the reductions, bounced brokers, lost answers and lingering that ended wrongly at first."""
REGRESSIONS: Final = {
    10: "An entry retargeted between tenures was overwritten with the older order on record.",
    27: "Orphans that outlast a tenure were not tried again while nothing else happened.",
    37: "The same, with rivals for the role.",
    39: "A plan replaced between tenures was lost, its entries overwritten by the one before.",
    1092: "Without a linger the role was given back before an orphan's deletion was answered.",
    1101: "A replica was added again in the very write that gave up its deletion.",
    1171: "A leader that restarted got the ISR from before its last change.",
    1543: "Topics and states in doubt were believed to be as an older, overtaken read said.",
}
ASKED_REGRESSIONS: Final = {
    4: "The outcome of a request that another daemon had ended was written in vain for ever.",
    5: "An entry that was done already ended another request's reassignment in the same turn.",
    11: "A restarted daemon could not read that a cancellation was chosen, and never ended it.",
    15: "An atomic request was gone before the refusals of its own entries were durable.",
    33: "A good copy stayed beside what was to replace it, beyond the bound on replicas.",
    38: "An unreadable request counted as none, a deleted topic's entries of a queue twice.",
    63: "(The simulator's:) what a cancellation ends before it begins is not owed any more.",
    68: "A goal was made of what a topic znode had said before a Kafka controller's last write.",
    106: "A queue was never read again after ZooKeeper had refused a write to it.",
    107: "A step began in the turn in which its cancellation ended it as never begun.",
    124: "A cancellation took back a move that its request had never made.",
    168: "A replica that others had removed was copied unthrottled.",
    222: "A queue's takeover of a legacy entry was tried in vain until its znode was read again.",
    227: "A refused atomic request ended the record of a step that it had taken over in flight.",
    355: "(The simulator's:) where partitions were before the first write was not known.",
    511: "A request ended as done before the rest of it, listed but unread, was accepted.",
    520: "A claim was forgotten where the throttles that stand were read last.",
    708: "A plan's entry that stood already ended the way back of another plan's as done.",
    732: "A plan's entry was taken out after others had dropped an original, its log untold.",
    748: "A topic that was to be deleted, below min ISR, held all other work up.",
    863: "A log left where a record was cancelled was never deleted, and held the next move up.",
    881: "The same, where an entry was taken out of a plan.",
    998: "What another daemon had accepted during a cancellation was never learnt again.",
    1060: "What others had removed, read while its topic was in doubt, went back unthrottled.",
    1137: "The same between tenures that begin when there is work.",
    1190: "A late read took back what was kept of a queue.",
    1795: "The end of a cancellation changed meanwhile was tried in vain until it was read again.",
    1892: "The same on the way to a target.",
    2289: "A refused deletion of an orphan's record was never tried again.",
    2572: "What a request moved ended in vain beside a plan that had changed, until it was read.",
    2753: "A refused atomic request ended a record beside a step while its topic was in doubt.",
    3372: "A move of others took the place of the request that had just taken its.",
    4284: "A good copy waited for originals that only the step after the one it left in adds.",
    4758: "What shared a refused write with the record of a deleted topic's was never ended.",
    4795: "Brokers got the former replicas of a topic that was stale after a claim.",
    5920: "A topic made in the turn in which the role was lost was never read.",
    8333: "A step without a leader held up the deletion of its topic, and that all the rest.",
    8603: "After a claim what a cancellation moves back was copied without its throttle.",
    50987: "A request took the origin of a move of others that had ended for its own.",
    80019: "A request that was listed too late moved after the cancellation of everything.",
}
"""The same for plots with operators that ask the daemon itself."""
FULL_REGRESSIONS: Final = {
    3: "A step that Kafka's controller began gave up good copies while its target had a dead one.",
    14: "What waited on a topic to be deleted got no leader, and kept the role from the deletion.",
    1479: "A step whose write ZooKeeper refused did not say so.",
    2428: "Where a partition stood before others moved it was taken for a wrong original.",
    3480: "A step that the next controller ended stood still as if since its last phase began.",
    3612: "What another daemon had accepted began while disabled: we had begun an older record.",
    5628: "A step that others ended while it copied stood still as if since that phase began.",
    6452: "A failed directory made the simulated controller bring back logs it was deleting.",
    6907: "What waited where the deletion was older than the claim got no leader either.",
}
"""The same for plots with all that a campaign draws now: small multis, refusals and the like."""
QUIET: Final = replace(PLOT, fault_every_s=1e9)


def _options(**changes: object) -> Plot:
    return replace(PLOT, options=replace(PLOT.options, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_plans_are_carried_out_when_nothing_goes_wrong(seed: int) -> None:
    """Four of them, one after the other, under a producer that loses nothing."""
    world = play(seed, QUIET)
    assert all(world.invariants.committed(p) > 100 for p in world.partitions())
    assert set(world.producer.answers) <= {0, 3, 6}


@pytest.mark.parametrize("seed", [2, 4, 10, 88])
def test_who_bounces_while_the_states_are_read_leads_at_a_new_epoch_only(seed: int) -> None:
    """Also where the claim is heard of late, or the write that treats the bounce is refused."""
    plot = plot_of(seed)
    plot = replace(
        plot,
        options=replace(plot.options, tenure=TenurePolicy.ON_DEMAND, tenure_linger_s=0.0),
        weights=replace(plot.weights, broker_bounced_at_claim=20),
    )
    world = World(seed)
    play(seed, plot, world)
    assert world.fabric.struck["broker_bounced_at_claim"]
    assert world.invariants.judge.applied[Rule.BOUNCED_LEADS_ANEW]


@pytest.mark.parametrize("seed", [*range(10), *OLD_REGRESSIONS])
def test_any_fault_is_survived(seed: int) -> None:
    """No rule is broken on the way, and every plan comes to its end once all is healed."""
    play(seed, PLOT)


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_found_once_is_survived(seed: int) -> None:
    """Each seed with its own plot."""
    play(seed, plan_plot_of(seed))


@pytest.mark.parametrize("seed", ASKED_REGRESSIONS)
def test_what_was_asked_for_is_owed_whatever_happens(seed: int) -> None:
    """Requests, cancellations, the queue and all controls, each seed with its own plot."""
    play(seed, asked_plot_of(seed))


@pytest.mark.parametrize("seed", FULL_REGRESSIONS)
def test_what_a_campaign_found_is_survived(seed: int) -> None:
    """Each seed as a campaign plays it."""
    play(seed, plot_of(seed))


def test_a_daemon_that_excludes_before_the_target_is_in_sync_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No record is lost by it while nothing else fails: redundancy has a rule of its own."""
    monkeypatch.setattr(PartitionContext, "unsynced", lambda _turn, _target: None)
    monkeypatch.setattr(PartitionContext, "uncopied", lambda _turn, _dropping: None)
    with pytest.raises(InvariantViolationError, match="good copies"):
        play(7, plot_of(7))


@pytest.mark.parametrize("mode", list(LegacyMode))
@pytest.mark.parametrize("error", [WriteError.OTHER, WriteError.TOO_LARGE])
def test_refused_write_of_the_plan_is_tried_again(mode: LegacyMode, error: WriteError) -> None:
    """Nothing else was written meanwhile, so no watch would ever fire."""
    world = World(1)
    world.create_topic("three", {n: [1, 2, 3] for n in range(3)})
    world.settle()
    daemon = world.add_daemon(reactors(_options(legacy_mode=mode).options))
    world.run_for(3.0)
    daemon.store.faults.refuse(Refusal(paths.LEGACY_PLAN, error, is_once=True))
    world.submit_plan({TopicPartition("three", n): [4, 5, 1 + n] for n in range(3)})
    world.run_until(lambda: is_finished(world), within_s=60.0)


@pytest.mark.parametrize("seed", range(3))
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
    """The options change the way, not the end."""
    play(seed, plot)


@pytest.mark.parametrize("failpoint", range(0, 190, 10))
def test_death_at_any_boundary_is_recovered_from(failpoint: int) -> None:
    """A standby, or Kafka's controller, carries on from wherever the daemon died."""
    world = World(failpoint)
    world.create_topic("t", {n: [1, 2, 3] for n in range(3)}, min_insync_replicas=2)
    world.producer.start()
    world.settle()
    build = reactors(PLOT.options)
    first = world.add_daemon(build)
    world.run_for(3.0)
    world.add_daemon(build)
    world.run_for(3.0)
    first.crash_after(failpoint)
    world.submit_plan({TopicPartition("t", n): [5, 4, 3 - n] for n in range(3)})
    world.run_until(lambda: not first.is_alive, within_s=60.0)
    assert not is_finished(world)
    world.run_until(lambda: is_finished(world), within_s=120.0)
    world.run_for(10.0)
    for number in range(3):
        partition = TopicPartition("t", number)
        assert world.assignment(partition).replicas == (5, 4, 3 - number)
    assert world.zookeeper.get(paths.LEGACY_PLAN) is None
