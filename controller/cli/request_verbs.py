"""The verbs about requests: ``execute``, ``verify``, ``cancel``, ``list``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.await_daemon import Wishes
from controller.cli.cancel import Cancelling
from controller.cli.commands import (
    ByOption,
    Commands,
    DryRunOption,
    PlanArgument,
    ReasonOption,
    TimeoutOption,
    WaitOption,
    partitions_of,
    request_ids,
    topics_of,
)
from controller.cli.execute import Execution
from controller.cli.legacy_executions import LegacyExecution
from controller.cli.options import ConfigOption, JsonOption, ZookeeperOption
from controller.cli.plan_drift import check_basis
from controller.cli.plan_files import read_plan_file
from controller.cli.request_list import list_ended, list_open, list_request
from controller.cli.units import check_priority, parse_bytes, parse_step_size, parse_window
from controller.cli.verify import verify_plan, verify_request
from controller.core.model import ZkVersion, Zxid
from controller.core.submissions import Cancellation, CancelScope, RequestOptions
from controller.errors import InvalidInputError


class RequestVerbs(Commands):
    """Submitting, looking, calling off."""

    def execute(  # noqa: PLR0913 - the options of the verb
        self,
        plan: PlanArgument,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        reason: ReasonOption = "",
        requested_by: ByOption = None,
        priority: Annotated[
            int, typer.Option("--priority", metavar="N", help="Higher goes first; 0 is ordinary.")
        ] = 0,
        step_size: Annotated[
            str | None,
            typer.Option("--step-size", metavar="N|all", help="Replicas added per step."),
        ] = None,
        throttle: Annotated[
            str | None,
            typer.Option("--throttle", metavar="RATE", help="Per second and broker: 50MB."),
        ] = None,
        window: Annotated[
            str | None,
            typer.Option(
                "--window", metavar="HOURS", help='"22:00-05:00" or "22:00-05:00 Europe/Berlin".'
            ),
        ] = None,
        max_partitions_in_flight: Annotated[
            int | None, typer.Option("--max-partitions-in-flight", metavar="N", min=1)
        ] = None,
        atomic: Annotated[
            bool, typer.Option("--atomic", help="Start nothing if one entry is refused.")
        ] = False,
        additional: Annotated[
            bool,
            typer.Option(
                "--additional", help="With --legacy: add to the plan that is being carried out."
            ),
        ] = False,
        legacy: Annotated[
            bool, typer.Option("--legacy", help="Submit as Kafka's own tool does.")
        ] = False,
        wait: WaitOption = False,
        dry_run: DryRunOption = False,
        timeout: TimeoutOption = 60.0,
        as_json: JsonOption = False,
    ) -> None:
        """
        Submit a plan and wait until the daemon has accepted it.

        Example: reassigner execute plan.json --zookeeper zk1:2181/kafka --wait

        Several requests may be under way at once; a partition that another one is moving is taken
        over. Ctrl-C leaves the reassignment running. Exit code: 0 accepted (with --wait: done),
        1 error, 2 not accepted yet or interrupted, 3 refused, 4 cancelled.
        """
        options = RequestOptions(
            reason=reason,
            requested_by=self._name(requested_by),
            priority=check_priority("--priority", priority),
            step_size=None if step_size is None else parse_step_size("--step-size", step_size),
            throttle=None if throttle is None else parse_bytes("--throttle", throttle),
            window=None if window is None else parse_window("--window", window),
            max_partitions_in_flight=max_partitions_in_flight,
            atomic=atomic,
        )
        if legacy and options != RequestOptions(reason=reason, requested_by=options.requested_by):
            raise InvalidInputError("--legacy takes no option about how a request is carried out")
        entries = read_plan_file(plan)
        wishes = Wishes(
            additional=additional,
            wait=wait,
            dry_run=dry_run,
            as_json=as_json,
            timeout_s=timeout,
            options=options,
        )
        display = self._display_or_nothing(as_json=as_json)
        with self._inspecting(zookeeper, config) as (operator, ask):
            check_basis(operator, plan, entries)
            kind = LegacyExecution if legacy else Execution
            execution = kind(self._around, operator, entries, wishes, display, ask=ask)
            raise typer.Exit(execution.run())

    def verify(
        self,
        what: Annotated[
            str,
            typer.Argument(
                metavar="PLAN.json|REQUEST",
                help="A plan's file, or the id of a request.",
                show_default=False,
            ),
        ],
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """
        Compare a plan, or a request by its id, with the cluster.

        Example: reassigner verify plan.json --zookeeper zk1:2181/kafka

        Exit code: 0 all done, 1 something is neither done nor under way, 2 in progress, 3 a request
        was refused in part, 4 cancelled.
        """
        path = Path(what)
        is_file = path.exists() or path.suffix == ".json" or "/" in what
        plan = read_plan_file(path) if is_file else None
        requests = [] if is_file else request_ids([what])
        with self._connected(zookeeper, config) as operator:
            if plan is not None:
                raise typer.Exit(verify_plan(operator, plan, as_json=as_json))
            raise typer.Exit(verify_request(operator, requests[0], as_json=as_json))

    def cancel(  # noqa: PLR0913 - the options of the verb
        self,
        requests: Annotated[
            list[str] | None,
            typer.Argument(metavar="REQUEST", help="Ids of requests.", show_default=False),
        ] = None,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        topic: Annotated[
            list[str] | None,
            typer.Option("--topic", metavar="TOPIC", help="This topic; may be repeated."),
        ] = None,
        partition: Annotated[
            list[str] | None,
            typer.Option("--partition", metavar="TOPIC-N", help="This partition; may be repeated."),
        ] = None,
        everything: Annotated[
            bool, typer.Option("--everything", "--all", help="All that is in progress.")
        ] = False,
        scope: Annotated[
            CancelScope,
            typer.Option(
                "--scope",
                metavar="|".join(CancelScope),
                help="all: also move back what is finished already.",
            ),
        ] = CancelScope.IN_FLIGHT,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
        reason: ReasonOption = "",
        requested_by: ByOption = None,
        wait: WaitOption = False,
        dry_run: DryRunOption = False,
        timeout: TimeoutOption = 60.0,
        as_json: JsonOption = False,
    ) -> None:
        """
        Call reassignments off: what has begun goes back to where it was, the rest never begins.

        Example: reassigner cancel request_0000000004 --zookeeper zk1:2181/kafka --wait

        Exit code: 0 taken up (with --wait: complete) or nothing to do, 1 error, 2 not taken up yet
        or interrupted, 3 something could not be cancelled, or another scope is being carried out.
        """
        wanted = Cancellation(
            ZkVersion(0),
            Zxid(0),
            0,
            requests=frozenset(request_ids(requests)),
            topics=frozenset(topics_of(topic)),
            partitions=frozenset(partitions_of(partition)),
            scope=scope,
            reason=reason,
            requested_by=self._name(requested_by),
        )
        if wanted.is_everything is not everything:
            raise InvalidInputError(
                "name requests, --topic or --partition, or else --everything"
                if not everything
                else "--everything is more than what is named besides; leave one of them out"
            )
        wishes = Wishes(wait=wait, dry_run=dry_run, as_json=as_json, timeout_s=timeout)
        display = self._display_or_nothing(as_json=as_json)
        with self._connected(zookeeper, config) as operator:
            if everything and not (yes or dry_run):
                self._confirm(len(operator.reassigned_partitions()))
            cancelling = Cancelling(self._around, operator, wanted, wishes, display)
            raise typer.Exit(cancelling.run())

    def _confirm(self, count: int) -> None:
        if not self._around.is_terminal():
            raise InvalidInputError("--everything needs --yes where nobody can be asked")
        typer.confirm(f"Call off everything, {count} partitions now?", abort=True)

    def list_requests(  # noqa: PLR0913 - the options of the verb
        self,
        request: Annotated[
            str | None,
            typer.Argument(metavar="REQUEST", help="Only this one, in full.", show_default=False),
        ] = None,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        history: Annotated[
            bool, typer.Option("--history", help="Those that ended, the newest first.")
        ] = False,
        limit: Annotated[int, typer.Option("--limit", metavar="N", min=1)] = 50,
        as_json: JsonOption = False,
    ) -> None:
        """
        List the requests that are open, or those that ended, or everything about one.

        Example: reassigner list --history --zookeeper zk1:2181/kafka

        Exit code: 0, or 1 when nothing is known of the request.
        """
        ids = request_ids([] if request is None else [request])
        with self._connected(zookeeper, config) as operator:
            if ids:
                raise typer.Exit(list_request(operator, ids[0], as_json=as_json))
            if history:
                raise typer.Exit(list_ended(operator, newest=limit, as_json=as_json))
            status = self._around.status_of_leader(operator)
            raise typer.Exit(list_open(operator, status, as_json=as_json))
