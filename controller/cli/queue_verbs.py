"""The verb ``queue``, by its own sub-verbs and by the options of KIP-236."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.commands import Commands, DryRunOption, PlanArgument, partitions_of
from controller.cli.context import CommandContext
from controller.cli.options import ConfigOption, JsonOption, ZookeeperOption
from controller.cli.plan_files import read_plan_file
from controller.cli.queue_actions import (
    add_to_queue,
    clear_queue,
    generate_queue,
    list_queue,
    remove_from_queue,
)
from controller.cli.verify import verify_plan
from controller.errors import InvalidInputError


def queue_app(around: CommandContext) -> typer.Typer:
    """Return the verb with its sub-verbs."""
    app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
    verbs = QueueVerbs(around)
    app.callback()(verbs.stock)
    app.command("add", short_help="Queue a plan.")(verbs.add)
    app.command("list", short_help="List what waits.")(verbs.list_queued)
    app.command("remove", short_help="Take partitions out.")(verbs.remove)
    app.command("clear", short_help="Take everything out.")(verbs.clear)
    return app


class QueueVerbs(Commands):
    """What is to start as capacity allows."""

    def stock(  # noqa: PLR0913 - the options of the verb
        self,
        context: typer.Context,
        *,
        generate: Annotated[
            bool, typer.Option("--generate-queue", help="Print what is and what would be queued.")
        ] = False,
        execute: Annotated[bool, typer.Option("--execute-queue", help="As add.")] = False,
        verify: Annotated[
            bool, typer.Option("--verify-queue", help="Compare the plan with the cluster.")
        ] = False,
        plan: Annotated[
            Path | None,
            typer.Option(
                "--reassignment-json-file", metavar="PLAN.json", help="The plan of these options."
            ),
        ] = None,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        dry_run: DryRunOption = False,
    ) -> None:
        """
        Queue reassignments that are to start as capacity allows.

        Example: reassigner queue add plan.json --zookeeper zk1:2181/kafka

        An entry leaves the queue as it starts. One whose partition is in flight first undoes the
        step in flight. While the queue exists no other is written.
        """
        if context.invoked_subcommand is not None:
            return
        if [generate, execute, verify].count(True) != 1 or plan is None:
            raise InvalidInputError(
                "queue: one of add, list, remove, clear; or --generate-queue, --verify-queue or "
                "--execute-queue with --reassignment-json-file"
            )
        entries = read_plan_file(plan)
        with self._inspecting(zookeeper, config) as (operator, ask):
            if generate:
                raise typer.Exit(generate_queue(operator, entries))
            if verify:
                raise typer.Exit(verify_plan(operator, entries, as_json=False))
            raise typer.Exit(add_to_queue(operator, entries, ask, dry_run=dry_run, as_json=False))

    def add(
        self,
        plan: PlanArgument,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Queue a plan.

        Example: reassigner queue add plan.json --zookeeper zk1:2181/kafka

        Exit code: 0 queued, 1 error, 3 a queue exists already, or new work is disabled.
        """
        entries = read_plan_file(plan)
        with self._inspecting(zookeeper, config) as (operator, ask):
            raise typer.Exit(add_to_queue(operator, entries, ask, dry_run=dry_run, as_json=as_json))

    def list_queued(
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """
        List what waits in the queue.

        Example: reassigner queue list --zookeeper zk1:2181/kafka

        Exit code: 0 nothing, 2 something waits.
        """
        with self._connected(zookeeper, config) as operator:
            raise typer.Exit(list_queue(operator, as_json=as_json))

    def remove(
        self,
        partitions: Annotated[
            list[str], typer.Argument(metavar="TOPIC-N", help="Partitions.", show_default=False)
        ],
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Take partitions out of the queue before they start.

        Example: reassigner queue remove orders-0 orders-1 --zookeeper zk1:2181/kafka

        Exit code: 0 all were taken out, 3 some were not in it (any more).
        """
        named = partitions_of(partitions)
        with self._connected(zookeeper, config) as operator:
            raise typer.Exit(remove_from_queue(operator, named, dry_run=dry_run, as_json=as_json))

    def clear(
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Take everything out of the queue; what has started goes on.

        Example: reassigner queue clear --zookeeper zk1:2181/kafka
        """
        with self._connected(zookeeper, config) as operator:
            raise typer.Exit(clear_queue(operator, dry_run=dry_run, as_json=as_json))
