"""``doctor``: find problems of the cluster and of the znodes."""

from __future__ import annotations

from pathlib import Path

from controller.cli.context import CommandContext
from controller.cli.options import command, flag, option
from controller.cli.output import Exit
from controller.errors import InvalidInputError


@command("dry_run", "all_rows", "as_json")
def doctor(
    context: CommandContext,
    *,
    fix: bool = flag("--fix", "Remove throttles of a daemon that no reassignment needs."),
    no_daemon: bool = flag(
        "--no-daemon",
        "With --fix, where no daemon will run again: restore the settings before all "
        "throttles of daemons, and delete all their records, requests and controls.",
    ),
    migration: bool = flag(
        "--migration", "Find instead what stands against a migration of the cluster to KRaft now."
    ),
    journal: list[Path] | None = option(
        "DIR",
        "Also check each step in a daemon's journal: its --journal-dir. May be repeated. "
        "Default: no journal.",
    ),
) -> Exit:
    """
    Find problems of the cluster and of the daemon's znodes.

    Example: reassigner doctor --zookeeper zk1:2181/kafka

    Reads ZooKeeper, queries the brokers for their log directories, and lets them validate the
    settings of topics and brokers. Changes nothing without --fix. Exit code: 0 no findings that
    need attention, 1 error, 2 findings.
    """
    if context.dry_run and not fix:
        raise InvalidInputError("--dry-run needs --fix: nothing else changes anything")
    if no_daemon and not fix:
        raise InvalidInputError("--no-daemon needs --fix: it selects what is repaired")
    if migration and fix:
        raise InvalidInputError("--migration changes nothing: --fix cannot be used with it")
    from controller.cli.diagnosis import diagnose  # noqa: PLC0415 - its help needs no checks

    return diagnose(
        context, fix=fix, no_daemon=no_daemon, migration=migration, journals=journal or ()
    )
