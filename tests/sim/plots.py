"""
The parameters of a history, drawn from its seed.

Plots are mixed, not listed: the options, the number of daemons, the kind of misfortune and what
operators do are drawn one by one, so that thousands of seeds meet in thousands of combinations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from controller.core.core_settings import LegacyMode, Options, TenurePolicy
from tests.sim.faults import Weights
from tests.sim.operators import Actions

OPTIONS: Final = Options(tenure_linger_s=3.0, stop_replica_timeout_s=10.0)
SMALL_MULTIS_SHARE: Final = 0.3
"""The share of the histories whose commits are split into multis of a few operations."""
SMALL_TURNS_SHARE: Final = 0.3
"""The share of those whose turns look at a few partitions only."""
UNCLEAN_SHARE: Final = 0.3
"""The share of those with a topic that allows unclean elections."""
TOGGLED_SHARE: Final = 0.4
"""The share of those with operators whose topics' settings change."""
REFRESHES_S: Final = (2.0, 6.0, 60.0)
"""The ages that settings may have when the daemons of such a history decide by them."""
UNFENCED_SHARE: Final = 0.2
"""The share of those whose brokers know no leader epoch in StopReplica."""
WITHOUT_DISK_SHARE: Final = 0.3
"""Of those in which disks fail, the share where brokers restart before theirs is repaired."""
BOUNCES_AT_CLAIMS_SHARE: Final = 0.3
"""The share of those in which brokers bounce where some bounce just when a daemon claims."""
REFUSALS_SHARE: Final = 0.5
"""Of those in which writes are refused, the share where records and claims are as well."""
LOST_SHARE: Final = 0.2
"""The share of those with brokers that are away for long, where brokers die at all."""
REFUSING_SHARE: Final = 0.1
"""The share of those whose brokers refuse what only a controller may for a while."""
SILENT_SHARE: Final = 0.2
"""The share of those whose brokers do not say whether topics may be deleted."""
CREATED_AGAIN_SHARE: Final = 0.1
"""The share of those with an idle daemon in which operators create topics again."""
QUIESCES_SHARE: Final = 0.15
"""The share of those with operators and Kafka controllers where operators quiesce the daemon."""
DRAINS_SHARE: Final = 0.15
"""The share of those with operators where these drain brokers."""
LATE_JOINS_SHARE: Final = 0.2
"""The share of those whose leaders add replicas just after they are excluded."""
DELETIONS_SHARE: Final = 0.4
"""The share of the others with operators where these delete topics often."""
CLASSIC: Final = Weights()
ANYTHING: Final = Weights(
    answers_late=2,
    ensemble_member_lost=2,
    daemon_stopped=1,
    daemons_paused=1,
    reads_late=3,
    writes_refused=1,
    write_refused=2,
    role_taken_in_commit=2,
)
FORTUNES: Final = {
    "nothing": Weights(**dict.fromkeys(Weights.__slots__, 0) | {"fetches_slow": 1}),
    "anything": ANYTHING,
    "crashes between": replace(ANYTHING, daemon_crashed_between=60),
    "ZooKeeper": replace(
        ANYTHING,
        commit_broken=15,
        ensemble_member_lost=12,
        reads_late=12,
        writes_refused=6,
        write_refused=8,
        daemon_session_expired=8,
    ),
    "rivals": replace(
        ANYTHING,
        controller_removed=15,
        role_taken_in_commit=15,
        daemons_paused=10,
        kafka_controller_dies=6,
    ),
    "brokers": replace(
        ANYTHING, broker_killed=15, broker_bounced=12, directory_failed=6, answers_late=8
    ),
}
"""The weights of faults, by name."""
RESTLESS: Final = Actions(
    plan_submitted=6,
    entry_added=2,
    entry_removed=1,
    entry_retargeted=3,
    plan_deleted=1,
    plan_replaced=1,
    topic_created=2,
    topic_deleted=1,
    topic_created_again=2,
    partitions_added=2,
    api_reassigned=3,
    api_cancelled=1,
    preferred_elected=1,
)


REQUESTS: Final = Actions(
    plan_submitted=0,
    request_submitted=5,
    request_in_parts=2,
    request_overtaking=4,
    leaders_moved=2,
    request_garbled=1,
    queue_submitted=3,
    queue_garbled=1,
)
WANTS: Final = {
    "requests": REQUESTS,
    "cancellations": replace(REQUESTS, cancelled=6, cancel_garbled=1),
    "controls": replace(REQUESTS, disabled=3, paused=4, resumed=1, limited=5, controls_garbled=1),
    "throttles": replace(REQUESTS, throttled=5, settings_changed=6, cancelled=2, limited=2),
    "anything": replace(
        REQUESTS,
        plan_submitted=2,
        entry_added=1,
        entry_removed=1,
        entry_retargeted=2,
        plan_deleted=1,
        cancelled=4,
        cancel_garbled=1,
        disabled=2,
        paused=2,
        resumed=1,
        limited=3,
        controls_garbled=1,
        throttled=2,
        settings_changed=2,
        topic_created=1,
        topic_deleted=1,
        topic_created_again=1,
        partitions_added=1,
        api_reassigned=2,
        api_cancelled=1,
        preferred_elected=1,
    ),
}
"""The weights of the operators' requests to the daemon, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The settings of a history."""

    name: str = "one daemon, plans only"
    options: Options = OPTIONS
    daemons: int = 1
    has_kafka_controllers: bool = True
    weights: Weights = CLASSIC
    fault_every_s: float = 1.5
    plans: int = 4
    """The number of plans for every partition, submitted one after the other."""
    by_request: bool = False
    """True if the plans are requests instead of legacy plans."""
    actions: Actions | None = None
    """The other actions of operators."""
    action_every_s: float = 5.0
    has_unclean_topic: bool = False
    """True if another topic allows unclean elections."""
    fences_stop_replica: bool = True
    """True if StopReplica carries leader epochs: protocol 2.6 and later."""
    joins_late: bool = False
    """True if a fetch that is being handled adds an excluded replica to the ISR once more."""
    client_requests_every_s: float | None = None
    """Mean time between two requests of clients for topics and partitions; None: no requests."""
    deletes_topics: bool | None = True
    """What brokers say of ``delete.topic.enable``; None: nothing, so they delete topics."""


def plot_of(seed: int) -> Plot:
    """Return the plot of a seed, with every setting that a history may have."""
    plot = _with_deletions(seed, plot_without_deletions(seed))
    plot = _with_drains(seed, _with_quiesces(seed, _with_topics_created_again(seed, plot)))
    return _with_late_joins(seed, plot)


def plot_without_deletions(seed: int) -> Plot:
    """Return it without what only concerns topic deletions; older seeds were found so."""
    plot = _with_small_multis(seed, endpoint_plot_of(seed))
    plot = _with_small_turns(seed, plot)
    plot = _with_unclean_topic(seed, plot)
    plot = _with_toggled_settings(seed, plot)
    plot = _without_fences(seed, plot)
    plot = _without_disks(seed, plot)
    plot = _with_refusals(seed, plot)
    plot = _with_bounces_at_claims(seed, plot)
    plot = _with_lost_brokers(seed, plot)
    return _with_refusing_brokers(seed, plot)


def _with_quiesces(seed: int, plot: Plot) -> Plot:
    """Let operators in some end all work for a while, and in the end until nothing is left."""
    if plot.actions is None or not plot.has_kafka_controllers:
        # Without the daemon as the controller there is none then.
        return plot
    if Random(f"quiesces {seed}").random() >= QUIESCES_SHARE:
        return plot
    often = max(sum(getattr(plot.actions, n) for n in Actions.__slots__) // 8, 1)
    actions = replace(plot.actions, quiesced=often)
    return replace(plot, name=f"{plot.name}, quiesced", actions=actions)


def _with_drains(seed: int, plot: Plot) -> Plot:
    """Let operators in some drain brokers, which stay drained in the end."""
    if plot.actions is None or Random(f"drains {seed}").random() >= DRAINS_SHARE:
        return plot
    often = max(sum(getattr(plot.actions, n) for n in Actions.__slots__) // 8, 1)
    actions = replace(plot.actions, drained=2 * often, drain_stopped=often)
    return replace(plot, name=f"{plot.name}, drains", actions=actions)


def _with_late_joins(seed: int, plot: Plot) -> Plot:
    """Let leaders in some add excluded replicas to the ISR, as they handled a fetch meanwhile."""
    if Random(f"late joins {seed}").random() >= LATE_JOINS_SHARE:
        return plot
    return replace(plot, name=f"{plot.name}, late joins", joins_late=True)


def _with_topics_created_again(seed: int, plot: Plot) -> Plot:
    """Let operators in some only create topics again, while the daemon mostly has no work."""
    is_idle = plot.has_kafka_controllers and plot.options.tenure is TenurePolicy.ON_DEMAND
    if not is_idle or Random(f"created again {seed}").random() >= CREATED_AGAIN_SHARE:
        return plot
    return with_topics_created_again(plot)


def with_topics_created_again(plot: Plot) -> Plot:
    """Let operators only create topics again, while the daemon mostly has no work."""
    actions = Actions(plan_submitted=0, topic_created=1, topic_created_again=3)
    name = f"{plot.name}, topics created again"
    return replace(plot, name=name, actions=actions, action_every_s=6.0, plans=2)


def _with_deletions(seed: int, plot: Plot) -> Plot:
    """Let topics be deleted often in some, and brokers not say in others whether they may be."""
    chance = Random(f"topic deletions {seed}")
    if chance.random() < SILENT_SHARE:
        return replace(plot, name=f"{plot.name}, silent on deletions", deletes_topics=None)
    if plot.actions is None or chance.random() >= DELETIONS_SHARE:
        return plot
    often = max(sum(getattr(plot.actions, n) for n in Actions.__slots__) // 6, 1)
    actions = replace(
        plot.actions, topic_deleted=often, topic_created=2 * often, topic_created_again=often
    )
    return replace(plot, name=f"{plot.name}, many deletions", actions=actions)


def _with_lost_brokers(seed: int, plot: Plot) -> Plot:
    """Let brokers in some be away for longer than the role is kept for what waits for them."""
    if not plot.weights.broker_killed or Random(f"lost {seed}").random() >= LOST_SHARE:
        return plot
    weights = replace(plot.weights, broker_lost=3 * plot.weights.broker_killed)
    return replace(plot, name=f"{plot.name}, brokers lost", weights=weights)


def _with_refusing_brokers(seed: int, plot: Plot) -> Plot:
    """Let brokers in some not allow the daemon for a while to be the controller."""
    is_tried = plot.has_kafka_controllers and plot.weights.broker_killed
    if not is_tried or Random(f"refusing {seed}").random() >= REFUSING_SHARE:
        return plot
    weights = replace(plot.weights, requests_refused=2)
    return replace(plot, name=f"{plot.name}, requests refused", weights=weights)


def _with_small_multis(seed: int, plot: Plot) -> Plot:
    """Let commits be split into several multis in some, and daemons die between two of them."""
    # Each draw has its own generator, so that the other draws of a seed do not change.
    chance = Random(f"small multis {seed}")
    if chance.random() >= SMALL_MULTIS_SHARE:
        return plot
    operations = chance.randint(2, 8)
    weights = plot.weights
    if weights.daemon_crashed_between:
        weights = replace(weights, daemon_crashed_in_commit=weights.daemon_crashed_between)
    return replace(
        plot,
        name=f"{plot.name}, multis of {operations}",
        options=replace(plot.options, multi_operations=operations),
        weights=weights,
    )


def _with_small_turns(seed: int, plot: Plot) -> Plot:
    """Let turns look at a few partitions only in some, and leave the others to the next."""
    chance = Random(f"small turns {seed}")
    if chance.random() >= SMALL_TURNS_SHARE:
        return plot
    looked_at = chance.randint(1, 4)
    options = replace(plot.options, look_chunk=looked_at)
    return replace(plot, name=f"{plot.name}, turns of {looked_at}", options=options)


def _with_unclean_topic(seed: int, plot: Plot) -> Plot:
    """Let there be a topic in some in which a replica that is not in sync may lead."""
    if Random(f"unclean topic {seed}").random() >= UNCLEAN_SHARE:
        return plot
    return replace(plot, name=f"{plot.name}, an unclean topic", has_unclean_topic=True)


def _with_toggled_settings(seed: int, plot: Plot) -> Plot:
    """Let operators change in some what an election and a drop depend on."""
    chance = Random(f"toggled settings {seed}")
    if plot.actions is None or chance.random() >= TOGGLED_SHARE:
        return plot
    refresh_s = chance.choice(REFRESHES_S)
    often = max(sum(getattr(plot.actions, n) for n in Actions.__slots__) // 6, 1)
    return replace(
        plot,
        name=f"{plot.name}, settings toggled and good for {refresh_s:.0f} s",
        options=replace(plot.options, config_refresh_s=refresh_s),
        actions=replace(
            plot.actions,
            unclean_toggled=often,
            min_isr_toggled=often,
            min_isr_raised_at_rest=often,
            isr_outlived=often,
        ),
    )


def _without_fences(seed: int, plot: Plot) -> Plot:
    """Let brokers in some believe every StopReplica, however late, as below protocol 2.6."""
    if Random(f"fences {seed}").random() >= UNFENCED_SHARE:
        return plot
    return replace(plot, name=f"{plot.name}, StopReplica unfenced", fences_stop_replica=False)


def _without_disks(seed: int, plot: Plot) -> Plot:
    """Let brokers in some restart while a disk of theirs is away."""
    failing = plot.weights.directory_failed
    if not failing or Random(f"without disks {seed}").random() >= WITHOUT_DISK_SHARE:
        return plot
    weights = replace(plot.weights, broker_restarted_without_disk=3 * failing)
    return replace(plot, name=f"{plot.name}, restarts without a disk", weights=weights)


def _with_refusals(seed: int, plot: Plot) -> Plot:
    """Let ZooKeeper refuse claims in some, and writes wherever the daemon writes."""
    if not plot.weights.write_refused or Random(f"refusals {seed}").random() >= REFUSALS_SHARE:
        return plot
    weights = replace(
        plot.weights,
        record_refused=plot.weights.write_refused,
        records_refused=plot.weights.writes_refused,
        claim_refused=plot.weights.write_refused,
    )
    return replace(plot, name=f"{plot.name}, records and claims refused", weights=weights)


def _with_bounces_at_claims(seed: int, plot: Plot) -> Plot:
    """Let a broker bounce in some just when a daemon takes the role."""
    is_quiet = not plot.weights.broker_bounced
    if is_quiet or Random(f"bounces at claims {seed}").random() >= BOUNCES_AT_CLAIMS_SHARE:
        return plot
    weights = replace(plot.weights, broker_bounced_at_claim=plot.weights.broker_bounced)
    return replace(plot, name=f"{plot.name}, bounces at claims", weights=weights)


def endpoint_plot_of(seed: int) -> Plot:
    """Return the plot of a seed: most of them have operators that ask the daemon itself."""
    plot = plan_plot_of(seed)
    # Its own generator again, so that the plots of plans alone do not change.
    chance = Random(f"wants {seed}")
    name = chance.choice((None, *WANTS, "anything"))
    if name is None:
        return plot
    actions = WANTS[name]
    if plot.options.tenure is TenurePolicy.PERMANENT:
        actions = replace(actions, topic_deleted=0, topic_created_again=0)
    by_request = chance.random() < 0.6
    words = (f"{name} wanted", "by request" if by_request else "by plan")
    return replace(
        plot,
        name=", ".join((plot.name, *words)),
        actions=actions,
        action_every_s=chance.choice((1.0, 2.0, 5.0)),
        by_request=by_request,
    )


def plan_plot_of(seed: int) -> Plot:
    """Return the plot of a seed without anything but plans."""
    # Its own generator: the history's must not depend on the number of draws here.
    chance = Random(f"plot {seed}")
    options = replace(
        OPTIONS,
        step_size=chance.choice((1, 1, 1, 2, None)),
        tenure=chance.choice((TenurePolicy.ON_DEMAND,) * 3 + (TenurePolicy.PERMANENT,)),
        legacy_mode=chance.choice((LegacyMode.ABSORB,) * 3 + (LegacyMode.MIRROR,)),
        max_partitions_in_flight=chance.choice((100, 100, 100, 2)),
        tenure_linger_s=chance.choice((0.0, 3.0, 3.0, 30.0)),
    )
    daemons = chance.choice((1, 1, 2, 2, 2, 3))
    fortune = chance.choice(("nothing", "anything", "anything", *list(FORTUNES)[2:]))
    fault_every_s = chance.choice((0.7, 1.5, 1.5, 4.0))
    actions = chance.choice((None, RESTLESS, RESTLESS))
    action_every_s = chance.choice((2.0, 5.0, 12.0))
    has_kafka_controllers = chance.random() >= 0.1
    if not has_kafka_controllers:
        # New partitions need a controller for their first state.
        options = replace(options, tenure=TenurePolicy.PERMANENT)
    if options.tenure is TenurePolicy.PERMANENT and actions is not None:
        # The draws of old are kept: ``_with_deletions`` lets topics be deleted in some of these.
        actions = replace(actions, topic_deleted=0, topic_created_again=0)
    words = [
        f"{daemons} daemon(s)",
        str(options.tenure),
        "single jump" if options.step_size is None else f"step {options.step_size}",
        str(options.legacy_mode),
        f"{options.max_partitions_in_flight} in flight",
        f"linger {options.tenure_linger_s:g} s",
        "Kafka controllers" if has_kafka_controllers else "no Kafka controllers",
        f"{fortune} every {fault_every_s} s",
        "restless operators" if actions is not None else "patient operators",
    ]
    return Plot(
        name=", ".join(words),
        options=options,
        daemons=daemons,
        has_kafka_controllers=has_kafka_controllers,
        weights=FORTUNES[fortune],
        fault_every_s=fault_every_s,
        plans=3,
        actions=actions,
        action_every_s=action_every_s,
    )
