"""The verbs that steer work: pauses, limits, throttle, and the kill switch."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.commands import (
    ByOption,
    Commands,
    DryRunOption,
    ReasonOption,
    RequestsOption,
    request_ids,
)
from controller.cli.limit_changes import (
    Changes,
    change_limits,
    change_throttle,
    show_limits,
    show_throttle,
)
from controller.cli.options import ConfigOption, JsonOption, ZookeeperOption
from controller.cli.pause import Selection, disable_work, enable_work, pause_work, resume_work
from controller.cli.units import check_priority, parse_bytes, parse_step_size, parse_window
from controller.core.controls import Pause, QueueOrder
from controller.core.model import BrokerId
from controller.errors import InvalidInputError
from controller.znodes.kill_switches import KillSwitch

BrokersOption = Annotated[
    list[int] | None,
    typer.Option("--broker", metavar="ID", min=0, help="This broker; may be repeated."),
]
CountOption = int | None


def _limit(name: str, about: str) -> object:
    return typer.Option(f"--{name}", metavar="N", min=1, help=about, show_default=False)


class ControlVerbs(Commands):
    """Steering while work goes on."""

    def pause(  # noqa: PLR0913 - the options of the verb
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        request: RequestsOption = None,
        broker: BrokersOption = None,
        reason: ReasonOption = "",
        requested_by: ByOption = None,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Let no new step begin, of all, of requests, or to and from brokers.

        Example: reassigner pause --broker 5 --reason "disk swap" --zookeeper zk1:2181/kafka

        What is in flight ends. It lasts until `reassigner resume`, whoever leads meanwhile.
        """
        pause = Pause(reason, self._name(requested_by), self._around.wall_ms())
        meant = _selection(request, broker)
        with self._connected(zookeeper, config) as operator:
            raise typer.Exit(pause_work(operator, meant, pause, dry_run=dry_run, as_json=as_json))

    def resume(  # noqa: PLR0913 - the options of the verb
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        request: RequestsOption = None,
        broker: BrokersOption = None,
        everything: Annotated[
            bool, typer.Option("--all", help="Lift every pause, those of single brokers too.")
        ] = False,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Let steps begin again, of all, of requests, or to and from brokers.

        Example: reassigner resume --broker 5 --zookeeper zk1:2181/kafka
        """
        meant = _selection(request, broker)
        with self._connected(zookeeper, config) as operator:
            raise typer.Exit(
                resume_work(operator, meant, whole=everything, dry_run=dry_run, as_json=as_json)
            )

    def limits(  # noqa: PLR0913 - the options of the verb
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        broker: Annotated[
            int | None, typer.Option("--broker", metavar="ID", min=0, help="Of this broker only.")
        ] = None,
        request: Annotated[
            str | None, typer.Option("--request", metavar="ID", help="Of this request only.")
        ] = None,
        max_partitions_in_flight: Annotated[
            CountOption, _limit("max-partitions-in-flight", "Partitions with a step under way.")
        ] = None,
        max_incoming: Annotated[
            CountOption, _limit("max-incoming", "Replicas a broker copies at once.")
        ] = None,
        max_outgoing: Annotated[
            CountOption, _limit("max-outgoing", "Partitions a broker serves copies of at once.")
        ] = None,
        leader_moves: Annotated[
            CountOption, _limit("leader-moves", "Leaders moved per broker and second.")
        ] = None,
        max_bytes: Annotated[
            str | None,
            typer.Option("--max-bytes", metavar="SIZE", help="Bytes in flight, such as 10GB."),
        ] = None,
        step_size: Annotated[
            str | None,
            typer.Option("--step-size", metavar="N|all", help="Replicas added per step."),
        ] = None,
        order: Annotated[
            str | None,
            typer.Option(
                "--order",
                metavar="|".join(o.value.replace("_", "-") for o in QueueOrder),
                help="What goes first among equals.",
            ),
        ] = None,
        window: Annotated[
            str | None,
            typer.Option("--window", metavar="HOURS", help='"22:00-05:00 Europe/Berlin".'),
        ] = None,
        priority: Annotated[
            int | None,
            typer.Option("--priority", metavar="N", help="Of a request: higher goes first."),
        ] = None,
        unset: Annotated[
            list[str] | None,
            typer.Option("--unset", metavar="NAME", help="As in the settings again; repeatable."),
        ] = None,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Show or change, while work goes on, how much of it goes on at once.

        Example: reassigner limits --broker 5 --max-incoming 2 --zookeeper zk1:2181/kafka

        Without an option: what holds. A limit is set for all, for a broker, or for a request; it
        lasts until it is unset, whoever leads meanwhile.
        """
        given: dict[str, object | None] = {
            "max-partitions-in-flight": max_partitions_in_flight,
            "max-incoming": max_incoming,
            "max-outgoing": max_outgoing,
            "leader-moves": leader_moves,
            "max-bytes": None if max_bytes is None else parse_bytes("--max-bytes", max_bytes),
            "step-size": None if step_size is None else parse_step_size("--step-size", step_size),
            "order": None if order is None else _order(order),
            "window": None if window is None else parse_window("--window", window),
            "priority": None if priority is None else check_priority("--priority", priority),
        }
        changes = Changes(
            values={name: value for name, value in given.items() if value is not None},
            unset=[name.removeprefix("--") for name in unset or ()],
            broker=None if broker is None else BrokerId(broker),
            request=next(iter(request_ids([] if request is None else [request])), None),
        )
        with self._connected(zookeeper, config) as operator:
            if changes:
                raise typer.Exit(change_limits(operator, changes, dry_run=dry_run, as_json=as_json))
            status = self._around.status_of_leader(operator)
            raise typer.Exit(show_limits(operator, status, as_json=as_json))

    def throttle(  # noqa: PLR0913 - the options of the verb
        self,
        rate: Annotated[
            str | None,
            typer.Argument(
                metavar="RATE|none", help="Per second and broker: 50MB.", show_default=False
            ),
        ] = None,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        request: Annotated[
            str | None,
            typer.Option(
                "--request", metavar="ID", help="Of this request only, its submitted one included."
            ),
        ] = None,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Show, change or lift, while work goes on, how fast brokers copy for it.

        Example: reassigner throttle 50MB --zookeeper zk1:2181/kafka

        Without --request: for every request without a throttle of its own; open requests that have
        one are listed. With --request: for that request, until `reassigner limits --request ID
        --unset throttle` restores what was submitted. none lifts a throttle, and the settings of
        brokers and topics are as before. A broker obeys the lowest rate of the requests that copy
        to or from it.
        """
        ids = request_ids([] if request is None else [request])
        with self._connected(zookeeper, config) as operator:
            if rate is None:
                raise typer.Exit(show_throttle(operator, as_json=as_json))
            whose = ids[0] if ids else None
            raise typer.Exit(
                change_throttle(operator, rate, whose, dry_run=dry_run, as_json=as_json)
            )

    def disable(  # noqa: PLR0913 - the options of the verb
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        reason: ReasonOption = "",
        requested_by: ByOption = None,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Refuse new reassignments until `reassigner enable`; what has begun goes on.

        Example: reassigner disable --reason "incident 42" --zookeeper zk1:2181/kafka
        """
        switch = KillSwitch(reason, self._name(requested_by), self._around.wall_ms())
        with self._connected(zookeeper, config) as operator:
            raise typer.Exit(disable_work(operator, switch, dry_run=dry_run, as_json=as_json))

    def enable(
        self,
        *,
        zookeeper: ZookeeperOption = None,
        config: ConfigOption = None,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """
        Take new reassignments again.

        Example: reassigner enable --zookeeper zk1:2181/kafka
        """
        with self._connected(zookeeper, config) as operator:
            raise typer.Exit(enable_work(operator, dry_run=dry_run, as_json=as_json))


def _selection(requests: list[str] | None, brokers: list[int] | None) -> Selection:
    return Selection(
        requests=request_ids(requests), brokers=[BrokerId(broker) for broker in brokers or ()]
    )


def _order(text: str) -> QueueOrder:
    known = {order.value.replace("_", "-"): order for order in QueueOrder}
    found = known.get(text.replace("_", "-"))
    if found is None:
        raise InvalidInputError(f"--order: one of {', '.join(known)}, not {text!r}")
    return found
