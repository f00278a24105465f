"""The verb ``generate``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.await_daemon import Wishes
from controller.cli.commands import (
    ByOption,
    Commands,
    DryRunOption,
    ReasonOption,
    TimeoutOption,
    topics_of,
)
from controller.cli.execute import Execution
from controller.cli.exits import Exit
from controller.cli.options import ConfigOption, JsonOption, ZookeeperOption
from controller.cli.plan_files import document_of
from controller.cli.ports import InspectorPort
from controller.cli.proposal import (
    Ground,
    Wanted,
    proposal_document,
    proposal_lines,
    read_ground,
    silent_brokers,
    sizes_of,
    summary_lines,
)
from controller.cli.report_text import ids, say, say_json, tell
from controller.cli.stock_files import read_brokers, read_text, read_topics
from controller.core.model import BrokerId, TopicPartition
from controller.core.submissions import RequestOptions
from controller.errors import InvalidInputError
from controller.planning.plan_goal import Proposal
from controller.planning.proposer import propose
from controller.settings import Settings


class GenerateVerbs(Commands):
    """Proposing plans."""

    def generate(  # noqa: PLR0913 - the options of the verb
        self,
        topics: Annotated[
            list[str] | None,
            typer.Argument(metavar="TOPIC", help="The topics.", show_default=False),
        ] = None,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        topics_file: Annotated[
            Path | None,
            typer.Option(
                "--topics-to-move-json-file",
                metavar="FILE",
                help='Topics as Kafka\'s own tool takes them: {"topics":[{"topic":"foo"}]}',
            ),
        ] = None,
        all_topics: Annotated[bool, typer.Option("--all-topics", help="Every topic.")] = False,
        exclude_topics: Annotated[
            str | None, typer.Option(metavar="REGEX", help="But not topics that match as a whole.")
        ] = None,
        broker_list: Annotated[
            str | None,
            typer.Option(metavar="0,1,2", help="Replicas may be on these brokers only."),
        ] = None,
        remove_broker: Annotated[
            list[int] | None,
            typer.Option("--remove-broker", metavar="ID", min=0, help="Empty it; repeatable."),
        ] = None,
        add_broker: Annotated[
            list[int] | None,
            typer.Option(
                "--add-broker", metavar="ID", min=0, help="Fill it to an even share; repeatable."
            ),
        ] = None,
        replication_factor: Annotated[
            int | None,
            typer.Option(metavar="N", min=1, help="So many replicas of every partition."),
        ] = None,
        rebalance: Annotated[
            bool, typer.Option("--rebalance", help="Even out replicas and leaders.")
        ] = False,
        spread_racks: Annotated[
            bool, typer.Option("--spread-racks", help="Use as many racks as possible.")
        ] = False,
        disable_rack_aware: Annotated[
            bool, typer.Option("--disable-rack-aware", help="Racks do not matter.")
        ] = False,
        no_sizes: Annotated[
            bool, typer.Option("--no-sizes", help="Do not ask the brokers for sizes.")
        ] = False,
        output: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Write the proposal there, too.")
        ] = None,
        execute: Annotated[
            bool, typer.Option("--execute", help="Submit the proposal as a request.")
        ] = False,
        reason: ReasonOption = "",
        requested_by: ByOption = None,
        dry_run: DryRunOption = False,
        timeout: TimeoutOption = 60.0,
        as_json: JsonOption = False,
    ) -> None:
        """
        Propose a plan for some topics that copies as few replicas as possible.

        Example: reassigner generate orders payments --remove-broker 5 --zookeeper zk1:2181/kafka

        Racks are kept: no partition is on fewer racks than before. Prints what is and what is
        proposed, of the partitions that change, as Kafka's own tool does; on standard error what
        it means. Exit code: 0 proposed (with --execute: as execute), 1 error.
        """
        names = topics_of(topics)
        if topics_file is not None:
            names += read_topics(read_text(topics_file))
        wanted = Wanted(
            topics=names,
            all_topics=all_topics,
            excluded=exclude_topics,
            brokers=frozenset(() if broker_list is None else read_brokers(broker_list)),
            removed=_brokers(remove_broker),
            added=_brokers(add_broker),
            replication_factor=replication_factor,
            rebalance=rebalance,
            spread_racks=spread_racks,
            rack_aware=not disable_rack_aware,
        )
        _check_wanted(wanted)
        if dry_run and not execute:
            raise InvalidInputError(
                "--dry-run goes with --execute: without that nothing is written"
            )
        options = RequestOptions(reason=reason, requested_by=self._name(requested_by))
        wishes = Wishes(dry_run=dry_run, as_json=as_json, timeout_s=timeout, options=options)
        settings = self._around.settings({"zookeeper": zookeeper}, config)
        with self._around.inspect(settings) as inspector:
            ground = read_ground(inspector, wanted)
            sizes = {} if no_sizes else self._sizes(settings, inspector)
            proposal = propose(ground.before, ground.goal, sizes)
            _print(proposal, ground, sizes, as_json=as_json and not execute)
            if output is not None:
                output.write_text(json.dumps(document_of(proposal.changed), indent=1) + "\n")
            if not execute or not proposal.changed:
                raise typer.Exit(Exit.DONE)
            display = self._display_or_nothing(as_json=as_json)
            ask = partial(self._around.ask_min_insync, settings)
            execution = Execution(
                self._around, inspector, proposal.changed, wishes, display, ask=ask
            )
            raise typer.Exit(execution.run())

    def _sizes(self, settings: Settings, inspector: InspectorPort) -> dict[TopicPartition, int]:
        answers = self._around.ask_brokers(settings, inspector.survey_brokers().values(), ())
        silent = silent_brokers(answers)
        if silent:
            tell(f"Note: broker {ids(silent)} did not tell the sizes of its replicas.")
        return sizes_of(answers)


def _brokers(found: Iterable[int] | None) -> frozenset[BrokerId]:
    return frozenset(BrokerId(broker) for broker in found or ())


def _check_wanted(wanted: Wanted) -> None:
    if not (
        wanted.brokers
        or wanted.removed
        or wanted.added
        or wanted.replication_factor is not None
        or wanted.rebalance
        or wanted.spread_racks
    ):
        raise InvalidInputError(
            "say what to achieve: --remove-broker, --add-broker, --broker-list, "
            "--replication-factor, --rebalance or --spread-racks"
        )


def _print(
    proposal: Proposal, ground: Ground, sizes: dict[TopicPartition, int], *, as_json: bool
) -> None:
    if as_json:
        say_json(proposal_document(proposal, ground, sizes))
        return
    for line in summary_lines(proposal, ground, sizes):
        tell(line)
    if not proposal.changed:
        tell("Nothing has to move.")
        return
    for line in proposal_lines(proposal):
        say(line)
