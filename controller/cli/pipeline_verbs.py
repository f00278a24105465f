"""The verb ``pipeline``: snapshot, plan, rebase and report, for clusters as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controller.cli.context import CommandContext
from controller.cli.exits import Exit
from controller.cli.options import ConfigOption, JsonOption, ZookeeperOption
from controller.cli.plan_drift import change_lines, check_cluster, compare, read_originals
from controller.cli.plan_files import document_of, read_plan_file
from controller.cli.report_text import say, say_json
from controller.cli.snapshot_verbs import SnapshotVerbs
from controller.cli.spark_verbs import MasterOption, MemoryOption, OutOption, SparkVerbs
from controller.cli.units import parse_bytes
from controller.errors import InvalidInputError
from controller.planning.plan_basis import Basis

if TYPE_CHECKING:
    from controller.pipeline.plan_summary import Summary
    from controller.pipeline.waves import Wave

HELP: Final = """
Plan whole clusters on Spark, from a snapshot to a report; docs/guide/pipeline.md has the sequence.

Example: reassigner pipeline plan snapshot --drain 3 --out plan

Exit code: that of the verb.
"""


def pipeline_app(around: CommandContext) -> typer.Typer:
    """Return the verb with its sub-verbs."""
    app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help=HELP)
    verbs = PipelineVerbs(around)
    snapshots = SnapshotVerbs(around)
    app.command("snapshot", short_help="Write down what a cluster holds.")(snapshots.snapshot)
    app.command("plan", short_help="Plan from a snapshot.")(verbs.plan)
    app.command("rebase", short_help="Fit a request of a plan to a changed cluster.")(verbs.rebase)
    app.command("report", short_help="Tell what really happened.")(verbs.report)
    return app


class PipelineVerbs(SparkVerbs):
    """Planning on Spark; needs the extra ``pipeline``."""

    def plan(  # noqa: PLR0913 - the options of the verb
        self,
        snapshot: Annotated[str, typer.Argument(metavar="SNAPSHOT", show_default=False)],
        *,
        out: OutOption,
        tolerance: Annotated[
            float, typer.Option("--tolerance", help="How far from even is content: 0.05 is 5 %.")
        ] = 0.05,
        drain: Annotated[
            list[int] | None, typer.Option("--drain", metavar="BROKER", help="Leave it empty.")
        ] = None,
        replace: Annotated[
            list[str] | None,
            typer.Option("--replace", metavar="OLD:NEW", help="NEW takes the place of OLD."),
        ] = None,
        replication_factor: Annotated[
            int | None, typer.Option("--replication-factor", metavar="N")
        ] = None,
        leaders_only: Annotated[
            bool, typer.Option("--leaders-only", help="Change the order of replicas, copy nothing.")
        ] = False,
        balance: Annotated[
            bool | None,
            typer.Option(
                "--balance/--no-balance",
                help="Balance everything; the default unless brokers are drained or replaced or "
                "the replication factor changes.",
                show_default=False,
            ),
        ] = None,
        include: Annotated[
            str | None, typer.Option("--include", metavar="REGEX", help="Only these topics.")
        ] = None,
        exclude: Annotated[
            str | None, typer.Option("--exclude", metavar="REGEX", help="Not these topics.")
        ] = None,
        pin: Annotated[
            list[str] | None, typer.Option("--pin", metavar="TOPIC", help="It stays.")
        ] = None,
        max_bytes: Annotated[
            str | None, typer.Option("--max-bytes", metavar="SIZE", help="Copy no more in all.")
        ] = None,
        max_moves: Annotated[
            int | None, typer.Option("--max-moves", metavar="N", help="Move no more replicas.")
        ] = None,
        fill: Annotated[
            float, typer.Option("--fill", help="Which part of a disk may be used.")
        ] = 0.9,
        wave_partitions: Annotated[
            int, typer.Option("--wave-partitions", metavar="N", min=1, help="In one request.")
        ] = 1_000,
        wave_bytes_in: Annotated[
            str | None,
            typer.Option("--wave-bytes-in", metavar="SIZE", help="Into a broker, in one request."),
        ] = None,
        wave_bytes_out: Annotated[
            str | None,
            typer.Option("--wave-bytes-out", metavar="SIZE", help="Out of one, in one request."),
        ] = None,
        seed: Annotated[int, typer.Option("--seed", help="The same seed, the same plan.")] = 0,
        master: MasterOption = None,
        driver_memory: MemoryOption = "4g",
        as_json: JsonOption = False,
    ) -> None:
        """
        Plan with as few bytes copied as can be, and cut the plan into requests.

        Example: reassigner pipeline plan snapshot --drain 3 --out plan

        Writes tables, plan.json and rollback.json as Kafka's own tool takes them, and a file for
        each request: reassigner execute plan/requests/wave-0001.json --wait. Exit code: 0 written,
        1 error, 2 written but not everything could be reached.
        """
        asked = bool(drain or replace or replication_factor)
        with self._spark(master, driver_memory) as (spark, course):
            from controller.pipeline import commands  # noqa: PLC0415 - the extra may not be installed
            from controller.pipeline.plan_options import PlanOptions  # noqa: PLC0415 - as above
            from controller.pipeline.waves import WaveLimits  # noqa: PLC0415 - as above

            wishes = PlanOptions(
                tolerance=tolerance,
                seed=seed,
                drain=frozenset(drain or ()),
                replace=dict(map(_pair, replace or ())),
                replication_factor=replication_factor,
                only_leaders=leaders_only,
                only_needed=asked if balance is None else not balance,
                include=include,
                exclude=exclude,
                pinned=frozenset(pin or ()),
                bytes_max=None if max_bytes is None else parse_bytes("--max-bytes", max_bytes),
                moves_max=max_moves,
                fill=fill,
            )
            limits = WaveLimits(
                partitions=wave_partitions,
                bytes_in=_bytes("--wave-bytes-in", wave_bytes_in),
                bytes_out=_bytes("--wave-bytes-out", wave_bytes_out),
            )
            summary, waves, files = commands.make_plan(
                spark, snapshot, wishes, limits, str(out), course
            )
        if as_json:
            say_json(summary.document() | {"requests": [str(path) for path in files]})
        else:
            for line in _summary_lines(summary, waves):
                say(line)
            say(f"{len(files)} requests: {out}/requests")
        raise typer.Exit(Exit.IN_PROGRESS if summary.notes else Exit.DONE)

    def rebase(
        self,
        plan: Annotated[
            Path, typer.Argument(metavar="REQUEST.json", help="Of a plan.", show_default=False)
        ],
        *,
        out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where it is written.")],
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """
        Fit a request of a plan to a cluster that changed since, partition by partition.

        Example: reassigner pipeline rebase plan/requests/wave-0001.json --out now.json

        What is as it was is kept, what is done already is left out. What changed is kept where the
        brokers to drop are there yet and those to add are not, and left out otherwise. Exit code:
        0 everything is kept or done, 2 something was left out, 1 error.
        """
        entries = read_plan_file(plan)
        originals = read_originals(plan, entries)
        if len(originals) != len(entries):
            raise InvalidInputError(f"{plan}: its entries do not say what they were planned from")
        with self._connected(zookeeper, config) as operator:
            check_cluster(operator, plan)
            found = compare(operator, entries, originals)
        kept = {p: r.target for p, r in found.items() if r.target is not None}
        lost = {p: r for p, r in found.items() if r.basis in (Basis.GONE, Basis.CONFLICTING)}
        try:
            out.write_text(json.dumps(document_of(kept)) + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInputError(f"{out}: {error.strerror or error}") from error
        counts = {b.value: sum(r.basis is b for r in found.values()) for b in Basis}
        if as_json:
            left_out = {str(p): r.basis.value for p, r in sorted(lost.items())}
            say_json({"counts": counts, "left_out": left_out, "file": str(out)})
        else:
            for line in change_lines(
                (p, r) for p, r in found.items() if r.basis is not Basis.UNCHANGED
            ):
                say(line)
            say(", ".join(f"{n} {name}" for name, n in counts.items() if n) + f": {out}")
        raise typer.Exit(Exit.IN_PROGRESS if lost else Exit.DONE)

    def report(  # noqa: PLR0913 - the options of the verb
        self,
        journals: Annotated[
            list[Path],
            typer.Argument(metavar="JOURNAL", help="Directories of daemons.", show_default=False),
        ],
        *,
        out: OutOption,
        plan: Annotated[
            Path | None, typer.Option("--plan", metavar="DIR", help="The plan carried out.")
        ] = None,
        after: Annotated[
            Path | None,
            typer.Option("--after", metavar="SNAPSHOT", help="One taken afterwards."),
        ] = None,
        master: MasterOption = None,
        driver_memory: MemoryOption = "4g",
    ) -> None:
        """
        Tell what really happened, from the daemons' journals: Parquet tables and one HTML page.

        Example: reassigner pipeline report journal --plan plan --out report

        Exit code: 0 written, 1 error.
        """
        with self._spark(master, driver_memory) as (spark, course):
            from controller.pipeline import commands  # noqa: PLC0415 - the extra may not be installed

            written = commands.make_report(spark, journals, plan, after, out, course)
        say(str(written))


def _pair(text: str) -> tuple[int, int]:
    old, colon, new = text.partition(":")
    if not colon or not old.isdigit() or not new.isdigit():
        raise InvalidInputError(f"--replace takes OLD:NEW, such as 3:7, not {text}")
    return int(old), int(new)


def _bytes(option: str, text: str | None) -> int | None:
    return None if text is None else parse_bytes(option, text)


def _summary_lines(summary: Summary, waves: list[Wave]) -> Iterator[str]:
    """Word a plan."""
    yield (
        f"{summary.changed} of {summary.partitions} partitions change; {summary.moves} replicas "
        f"({summary.moves_ratio:.3f} times the least) and {summary.bytes_moved} bytes "
        f"({summary.bytes_ratio:.3f} times the least) are copied; {summary.leader_changes} leaders "
        f"change"
    )
    for name, load in (
        ("bytes", summary.sizes),
        ("replicas", summary.counts),
        ("leaders", summary.leaders),
    ):
        yield (
            f"{name} per broker off even: {load.before[0]:+.1%} to {load.before[1]:+.1%} before, "
            f"{load.after[0]:+.1%} to {load.after[1]:+.1%} after"
        )
    if summary.bytes_in_per_s is not None:
        (low, high), (lower, higher) = summary.bytes_in_per_s
        yield (
            f"bytes per second that come to a broker: {low} to {high} before, {lower} to {higher} "
            f"after"
        )
    yield (
        f"partitions that use too few racks: {summary.rack_violations_before} before, "
        f"{summary.rack_violations_after} after; most replicas of a topic on a broker: "
        f"{summary.concentration_before} before, {summary.concentration_after} after"
    )
    for number, wave in enumerate(waves, start=1):
        yield (
            f"request {number}: {wave.partitions} partitions, {int(wave.size_in.sum())} bytes, at "
            f"most {int(wave.size_in.max())} into a broker; fullest disk at its peak: "
            f"{int(wave.peak.max())} bytes"
        )
    for note in summary.notes:
        yield f"Note: {note}"
