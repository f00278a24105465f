"""``pipeline``: plan whole clusters on Spark; needs the extra ``pipeline``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from controller.cli import options
from controller.cli.context import CommandContext
from controller.cli.generate import BELOW, BUDGET, RELIEVE, small_goal
from controller.cli.options import argument, command, flag, option
from controller.cli.output import Exit, print_line, write_json
from controller.cli.pipeline_snapshot import MASTER, MEMORY, OUT, snapshot, spark_session
from controller.core.model import LogDirs, TopicPartition, count_text
from controller.errors import InvalidInputError
from controller.pipeline.capacity_file import read_capacities
from controller.planning.load_goals import RATED, LoadGoals
from controller.previews import plan_files
from controller.previews.plan_files import Basis
from controller.previews.small_plans import small_plan_lines
from controller.units import parse_bytes

if TYPE_CHECKING:
    from controller.pipeline.directory_plan import DirectorySummary
    from controller.pipeline.plan_summary import PlanSummary
    from controller.pipeline.volume_plans import SmallPlan
    from controller.pipeline.waves import Wave

LISTED: Final = 40
"""Log directories that a summary lists."""
HELP: Final = """
Plan whole clusters on Spark: snapshot, plan, requests and report. See docs/guide/pipeline.md.

Example: reassigner pipeline plan snapshot --drain 3 --out plan

Exit code: that of the sub-command.
"""


def pipeline_app() -> typer.Typer:
    """Return the command with its sub-commands."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True, help=HELP)
    app.command("snapshot", short_help="Write the state of a cluster as tables.")(snapshot)
    app.command("plan", short_help="Plan from a snapshot.")(plan)
    app.command("rebase", short_help="Adapt a request of a plan to a changed cluster.")(rebase)
    app.command("report", short_help="Report the work from the daemons' journals.")(report)
    return app


@command("as_json", connects=False)
def plan(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    snapshot: str = argument("SNAPSHOT", "Directory of a snapshot.", default=...),
    *,
    out: Path = OUT,
    tolerance: float = option(
        "FRACTION", "Accepted deviation from an even distribution: 0.05 is 5 %.", default=0.05
    ),
    drain: list[int] | None = option(
        "BROKER", "Move all replicas off this broker; may be repeated. Default: none."
    ),
    replace: list[str] | None = option(
        "OLD:NEW", "Move the replicas of OLD to NEW; may be repeated. Default: none."
    ),
    replication_factor: int | None = option("N", "Number of replicas. Default: unchanged."),
    leaders_only: bool = flag("--leaders-only", "Change only the order of replicas; copy nothing."),
    balance: bool | None = flag(
        "--rebalance/--no-rebalance",
        "Balance the cluster. Default: unless --drain, --replace or --replication-factor is given.",
        "--balance/--no-balance",
        default=None,
    ),
    place_dirs: bool = flag("--place-dirs", "Choose the log directory of each new replica."),
    balance_dirs: bool = flag(
        "--balance-dirs",
        "Even out the log directories within brokers instead; no replica changes its broker.",
    ),
    broker: list[int] | None = option(
        "BROKER", "With --balance-dirs: a broker to even out; may be repeated. Default: all."
    ),
    relieve: str | None = RELIEVE,
    below: str | None = BELOW,
    budget: str | None = BUDGET,
    include: str | None = option(
        "REGEX", "Plan only topics whose whole name matches. Default: all."
    ),
    exclude: str | None = option(
        "REGEX", "Leave out topics whose whole name matches. Default: none."
    ),
    pin: list[str] | None = option(
        "TOPIC", "Do not move this topic; may be repeated. Default: none."
    ),
    max_bytes: str | None = option("SIZE", "Maximum number of bytes to copy. Default: no limit."),
    max_moves: int | None = option("N", "Maximum number of replicas to move. Default: no limit."),
    fill: float = option("FRACTION", "Maximum fraction of a disk to use.", default=0.9),
    goal: list[str] | None = option(
        "NAME=SOFT[,HARD[,WEIGHT]]",
        "Bounds and weight of a goal (disk, bytes_in, bytes_out, leader_bytes_in, replicas, "
        "leaders), such as bytes_out=10%,80%,2, or NAME=off; may be repeated. Default: see "
        "docs/guide/pipeline.md.",
    ),
    capacities: Path | None = option(
        "CSV", "Capacities of brokers, which loads are shared by. Default: brokers are alike."
    ),
    wave_partitions: int = option(
        "N", "Maximum number of partitions per request.", least=1, default=1_000
    ),
    wave_bytes_in: str | None = option(
        "SIZE", "Maximum number of bytes to a broker per request. Default: no limit."
    ),
    wave_bytes_out: str | None = option(
        "SIZE", "Maximum number of bytes from a broker per request. Default: no limit."
    ),
    seed: int = option("N", "The same seed yields the same plan.", default=0),
    master: str | None = MASTER,
    driver_memory: str = MEMORY,
) -> Exit:
    """
    Make a plan that copies as few bytes as possible, and split it into requests.

    Example: reassigner pipeline plan snapshot --drain 3 --out plan

    Writes tables, plan.json and rollback.json in the format of Kafka's tool, and a file for each
    request: reassigner execute plan/requests/wave-0001.json --wait. Exit code: 0 written, 1 error,
    2 written, but a goal could not be reached.
    """
    has_goal = bool(drain or replace or replication_factor)
    small = small_goal(relieve, below, budget)
    others = leaders_only or balance or place_dirs or balance_dirs or max_bytes or max_moves
    if small is not None and (has_goal or others or goal or capacities):
        raise InvalidInputError(
            "--relieve and --budget take no other goal, and no other limit of bytes or moves"
        )
    with spark_session(context, master, driver_memory, is_brief=True) as (spark, note):
        from controller.pipeline import commands  # noqa: PLC0415 - the extra may not be installed
        from controller.pipeline.plan_options import PlanOptions  # noqa: PLC0415 - as above
        from controller.pipeline.waves import WaveLimits  # noqa: PLC0415 - as above

        wanted = PlanOptions(
            tolerance=tolerance,
            seed=seed,
            drain=frozenset(drain or ()),
            replace=dict(map(_pair, replace or ())),
            replication_factor=replication_factor,
            only_leaders=leaders_only,
            only_needed=has_goal if balance is None else not balance,
            place_dirs=place_dirs,
            balance_dirs=balance_dirs,
            dir_brokers=frozenset(broker or ()),
            include=include,
            exclude=exclude,
            pinned=frozenset(pin or ()),
            bytes_max=options.parse(parse_bytes, "--max-bytes", max_bytes),
            moves_max=max_moves,
            fill=fill,
            goals=LoadGoals().with_settings(goal or ()),
            capacities=None if capacities is None else read_capacities(capacities),
        )
        limits = WaveLimits(
            partitions=wave_partitions,
            bytes_in=options.parse(parse_bytes, "--wave-bytes-in", wave_bytes_in),
            bytes_out=options.parse(parse_bytes, "--wave-bytes-out", wave_bytes_out),
        )
        if small is not None:
            found, files = commands.make_small_plan(
                spark, snapshot, wanted, small, limits, str(out), note
            )
            return _small_result(context, found, files, out)
        made: tuple[PlanSummary | DirectorySummary, list[Wave], list[Path]]
        arguments = spark, snapshot, wanted, limits, str(out), note
        if balance_dirs:
            made = evened = commands.balance_directories(*arguments)
            lines = _directory_lines(*evened[:2])
        else:
            made = planned = commands.make_plan(*arguments)
            lines = _summary_lines(*planned[:2])
    summary, _, files = made
    notes = (f"Note: {note}" for note in summary.notes)
    context.print_result(
        lambda: summary.document() | {"requests": [str(path) for path in files]},
        chain(lines, notes, [f"{count_text(len(files), 'request')}: {out}/requests"]),
    )
    return Exit.IN_PROGRESS if summary.notes else Exit.DONE


def _small_result(context: CommandContext, found: SmallPlan, files: list[Path], out: Path) -> Exit:
    requests = [str(path) for path in files]
    lines = small_plan_lines(found.plan, found.partitions)
    context.print_result(
        lambda: {"partitions": found.partitions, **found.plan.document(), "requests": requests},
        chain(
            lines,
            _wave_lines(found.waves, "replicas", "disk"),
            [f"{count_text(len(files), 'request')}: {out}/requests"],
        ),
    )
    return Exit.DONE


def _pair(text: str) -> tuple[int, int]:
    old, colon, new = text.partition(":")
    if not colon or not old.isdigit() or not new.isdigit():
        raise InvalidInputError(f"--replace takes OLD:NEW, such as 3:7, not {text}")
    return int(old), int(new)


def _summary_lines(summary: PlanSummary, waves: list[Wave]) -> Iterator[str]:
    yield (
        f"to change: {summary.changed} of {count_text(summary.partitions, 'partition')} and "
        f"{count_text(summary.leader_changes, 'leader')}; to copy: "
        f"{count_text(summary.moves, 'replica')} ({summary.moves_ratio:.3f} times the least), "
        f"{summary.bytes_moved} bytes ({summary.bytes_ratio:.3f} times the least)"
    )
    for name, load in (
        ("bytes", summary.sizes),
        ("replicas", summary.counts),
        ("leaders", summary.leaders),
    ):
        yield (
            f"deviation of {name} per broker: {load.before[0]:+.1%} to {load.before[1]:+.1%} "
            f"before, {load.after[0]:+.1%} to {load.after[1]:+.1%} after"
        )
    for goal in summary.goals:
        if goal.goal in RATED:
            yield (
                f"share of {goal.goal.replace('_', ' ')} per broker: {goal.before[0]:.1%} to "
                f"{goal.before[1]:.1%} of the mean before, {goal.after[0]:.1%} to "
                f"{goal.after[1]:.1%} after"
            )
    if summary.bytes_in_per_s is not None:
        (low, high), (lower, higher) = summary.bytes_in_per_s
        yield f"bytes in per second and broker: {low} to {high} before, {lower} to {higher} after"
    bounds = [f"{g.goal} {g.bytes_bound}" for g in summary.goals if g.is_on and g.bytes_bound]
    if bounds:
        yield f"bytes that any plan must copy for each goal: {', '.join(bounds)}"
    yield (
        f"partitions on fewer racks than possible: {summary.rack_violations_before} before, "
        f"{summary.rack_violations_after} after; most replicas of a topic on one broker: "
        f"{summary.concentration_before} before, {summary.concentration_after} after"
    )
    if summary.log_dirs:
        before = [f.bytes_before / max(1, f.total_bytes) for f in summary.log_dirs]
        after = [f.bytes_after / max(1, f.total_bytes) for f in summary.log_dirs]
        yield (
            f"fill of log directories: {min(before):.1%} to {max(before):.1%} before, "
            f"{min(after):.1%} to {max(after):.1%} after; each of them: summary.json"
        )
    for line, wave in zip(_wave_lines(waves, "partitions", "broker"), waves, strict=True):
        yield f"{line}; fullest disk at its peak: {int(wave.peak.max())} bytes"


def _directory_lines(summary: DirectorySummary, waves: list[Wave]) -> Iterator[str]:
    yield (
        f"to another log directory: {count_text(summary.moves, 'replica')} on "
        f"{count_text(summary.brokers, 'broker')}, {summary.bytes_moved} bytes "
        f"({summary.bytes_ratio:.3f} times the least)"
    )
    changed = [f for f in summary.log_dirs if f.bytes_after != f.bytes_before]
    yield from (found.text() for found in changed[:LISTED])
    if len(changed) > LISTED:
        yield f"and {len(changed) - LISTED} more log directories: summary.json"
    yield from _wave_lines(waves, "replicas", "log directory")


def _wave_lines(waves: list[Wave], what: str, where: str) -> Iterator[str]:
    for number, wave in enumerate(waves, start=1):
        yield (
            f"request {number}: {wave.partitions} {what}, {int(wave.size_in.sum())} bytes, at most "
            f"{int(wave.size_in.max())} to one {where}"
        )


@command("as_json")
def rebase(
    context: CommandContext,
    plan: Path = argument("REQUEST.json", "File of one request of a plan.", default=...),
    *,
    out: Path = option("FILE", "File to write.", default=...),
) -> Exit:
    """
    Adapt a request of a plan to a cluster that has changed, partition by partition.

    Example: reassigner pipeline rebase plan/requests/wave-0001.json --out now.json

    Keeps the partitions that have not changed, and leaves out those that are done. A changed
    partition is kept if its replicas still contain all brokers to drop and none to add. Exit code:
    0 every partition is kept or done, 1 error, 2 partitions were left out.
    """
    file = options.read_plan_argument(plan)
    log_dirs = file.log_dirs
    if len(file.originals) != len(file.entries):
        raise InvalidInputError(f"{plan}: its entries have no original_replicas")
    with context.connected() as operator:
        plan_files.check_cluster(operator, file)
        found = plan_files.compare(operator, file.entries, file.originals)
    kept = {p: r.target for p, r in found.items() if r.target is not None}
    named: dict[TopicPartition, LogDirs] = {
        p: tuple((broker, path) for broker, path in log_dirs[p] if broker in target)
        for p, target in kept.items()
        if p in log_dirs
    }
    lost = {p: r for p, r in found.items() if r.basis in (Basis.GONE, Basis.CONFLICTING)}
    write_json(out, plan_files.document_of(kept, named))
    counts = {b.value: sum(r.basis is b for r in found.values()) for b in Basis}
    left_out = {str(p): r.basis.value for p, r in sorted(lost.items())}
    document = {"counts": counts, "left_out": left_out, "file": str(out)}
    changed = ((p, r) for p, r in found.items() if r.basis is not Basis.UNCHANGED)
    total = ", ".join(f"{n} {name}" for name, n in counts.items() if n) + f": {out}"
    context.print_result(lambda: document, chain(plan_files.change_lines(changed), [total]))
    return Exit.IN_PROGRESS if lost else Exit.DONE


@command(connects=False)
def report(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    journals: list[Path] = argument("JOURNAL", "Journal directories of daemons.", default=...),
    *,
    out: Path = OUT,
    plan: Path | None = option(
        "DIR", "Directory of the executed plan. Default: without planned figures."
    ),
    after: Path | None = option(
        "SNAPSHOT", "Directory of a snapshot taken after the work. Default: without disks."
    ),
    master: str | None = MASTER,
    driver_memory: str = MEMORY,
) -> None:
    """
    Report the work from the daemons' journals, as Parquet tables and one HTML page.

    Example: reassigner pipeline report journal --plan plan --out report

    Exit code: 0 written, 1 error.
    """
    with spark_session(context, master, driver_memory) as (spark, note):
        from controller.pipeline.report_page import make_report  # noqa: PLC0415 - the extra may not be installed

        written = make_report(spark, journals, plan, after, out, note)
    print_line(str(written))
