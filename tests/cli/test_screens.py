"""
Tests of the tables on a terminal, at 80 and at 200 columns.

``tests/cli/screens`` has what is printed; ``pytest --rewrite`` writes the present output.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from rich.cells import cell_len
from rich.console import Console

from controller.cli.status_screen import status_screen
from controller.cli.terminal import drawn, screen_of, shorten
from controller.cli.terminal_tables import ROWS_MAX, Bar, Column, Listing, Name, Part, Words
from controller.core.model import NO_LEADER, BlockedBy, OutcomeKind, RequestId
from controller.core.reason_kinds import IN_TURN, PATIENT
from controller.core.requests.submissions import RequestOptions
from controller.telemetry.advice import ADVICE
from controller.znodes.cancellations import KillSwitch
from controller.znodes.plans import encode_submission
from docs.generate.verbs import command_line
from tests.cli.builders import FakeCluster, Terminal, a_partition, a_request, a_status
from tests.cli.scripted_answers import AT_MS
from tests.cli.test_explain import a_moving_cluster, explained
from tests.core.builders import replicas, tp
from tests.doctor.builders import SnapshotBuilder

SCREENS: Final = Path(__file__).parent / "screens"
WIDTHS: Final = (80, 200)
AT: Final = "2026-01-02T03:14:05.000Z"
SINCE: Final = "2026-01-02T03:04:05.000Z"
LONG: Final = "billing.invoices.created.by-region.europe-and-middle-east.v2"

Print = Callable[[Terminal], str]


def blocked(by: str, detail: str) -> dict[str, str]:
    """Return a blocked reason as in ``/status``."""
    return {"by": by, "detail": detail, "since": SINCE}


def copying(**parts: Any) -> dict[str, Any]:  # noqa: ANN401 - a document's values
    """Return a partition that copies."""
    adding = {"state": "copying", "adding_replicas": [3], "phase_since": "2026-01-02T03:13:05.000Z"}
    return a_partition(**{**adding, **parts})


def a_copy(held: int | None, rate: int | None) -> dict[str, Any]:
    """Return a copy of 4 GB as in ``/status``."""
    whole = {"broker": 3, "from": 1, "total_bytes": 4_000_000_000}
    return {**whole, "bytes": held, **pace(None if held is None else rate, held or 0)}


def pace(rate: int | None, held: int) -> dict[str, Any]:
    """Return the rate and the estimate of 4 GB as in ``/status``."""
    if rate is None:
        return {"bytes_per_s": None, "eta_s": None, "no_estimate": "its rate is not measured yet"}
    seconds = (4_000_000_000 - held) / rate
    return {"bytes_per_s": rate, "eta_s": [round(seconds / 1.25), round(seconds / 0.6)]}


def busy() -> dict[str, Any]:
    """Return the status of a daemon with copies, and partitions that are stalled and blocked."""
    volume = {"total": 80_000_000_000, "moved": 20_000_000_000, "remaining": 60_000_000_000}
    drain = {
        **a_request(total=40, done=10, in_flight=4, waiting=24, refused=2),
        "id": "req-20250615T150640Z-0a1b2c",
        "bytes": volume,
        "bytes_per_s": 50_000_000,
        "eta_s": [1200, 1800],
        "share": 0.25,
        "requested_by": "ann@desk",
        "asked_for": "drain broker 5",
    }
    paused = {**a_request(waiting=3, total=3), "id": "request_0000000004", "state": "waiting"}
    ended = {**a_request(done=12, cancelled=3, total=15), "id": "request_0000000002"}
    dead = blocked("broker_dead", "broker 4 is not live")
    full = blocked("disk_full", f"{LONG}-3 needs 12 GB on broker 2 /data/1, which has 3 GB free")
    total = {"bytes_per_s": 50_000_000, "eta_s": None, "no_estimate": "broker 4 is not live"}
    return a_status(
        at=AT,
        total=total,
        tenure={"held": True, "epoch": 9, "since": SINCE},
        requests=[
            drain,
            {**paused, "reason": "paused: disk swap"},
            {**ended, "state": "cancelled"},
        ],
        partitions={"in_flight": 5, "copying": 3, "waiting": 27},
        in_flight=[
            copying(
                topic="orders",
                partition=1,
                copies=[a_copy(600_000_000, 12_000_000)],
                share=0.05,
                **pace(12_000_000, 600_000_000),
            ),
            a_partition(topic="orders", partition=2, phase="pending", blocked_on=FULL_LIMIT),
            a_partition(topic=LONG, partition=7, step=2, blocked_on=dead, stalled=True),
            copying(topic=LONG, partition=8, step=2, copies=[a_copy(None, None)], **pace(None, 0)),
            copying(
                topic="clicks",
                stalled=True,
                phase_since=SINCE,
                copies=[a_copy(1_000_000, 1000)],
                **pace(1000, 1_000_000),
            ),
        ],
        waiting=[
            {"topic": LONG, "partition": 3, "request": "r", "blocked_on": full},
            {"topic": "orders", "partition": 5, "request": "r", "blocked_on": FULL_LIMIT},
        ],
        blocked={"broker_dead": 2, "disk_full": 1, "limit": 24},
        stalled={"broker_dead": 1, "none": 1},
        broker_loads=[
            {
                "broker": 3,
                "incoming": 2,
                "outgoing": 0,
                "in_bytes_remaining": 3_000_000_000,
                "in_bytes_per_s": 50_000_000,
                "out_bytes_per_s": 0,
                "throttle_bytes_per_s": 60_000_000,
            },
            {
                "broker": 1,
                "incoming": 0,
                "outgoing": 2,
                "out_bytes_remaining": 12_000_000_000,
                "in_bytes_per_s": 0,
                "out_bytes_per_s": None,
                "throttle_bytes_per_s": 60_000_000,
            },
        ],
        unreachable_brokers={"6": "connection refused"},
        controls={"paused": {"everything": None, "requests": {}, "brokers": {}}, "disabled": True},
    )


FULL_LIMIT: Final = blocked("limit", "5 partitions are in flight")


def status(terminal: Terminal) -> str:
    """Print a busy status."""
    terminal.cluster.statuses = [busy()]
    return terminal.run("status").stdout


def idle(terminal: Terminal) -> str:
    """Print the status without work."""
    terminal.cluster.statuses = [a_status(at=AT)]
    return terminal.run("status").stdout


def crowded(terminal: Terminal) -> str:
    """Print a status with more partitions than rows."""
    many = [copying(topic="orders", partition=n) for n in range(ROWS_MAX + 12)]
    number = {"in_flight": len(many), "waiting": 0}
    terminal.cluster.statuses = [a_status(at=AT, in_flight=many, partitions=number)]
    return terminal.run("status").stdout


def explain(terminal: Terminal) -> str:
    """Print a partition that is stalled."""
    terminal.cluster = a_moving_cluster()
    terminal.cluster.explanations[tp()] = explained()
    return terminal.run("explain", "t-0").stdout


def doctor(terminal: Terminal) -> str:
    """Print findings of each severity."""
    built = SnapshotBuilder(1, 2).with_znodes(kill_switch=True, daemons=("a:1", "b:1"))
    built.partition(tp(1), (1, 2), leader=NO_LEADER, isr=())
    built.disk(1, [tp(n) for n in range(1, 20)]).disk(2, [tp(1)])
    terminal.cluster = FakeCluster(snapshot=built.build(), statuses=[a_status()])
    return terminal.run("doctor").stdout


FIRST: Final = RequestId("request_0000000004")


def a_submission(terminal: Terminal) -> FakeCluster:
    """Let the cluster have a request for six partitions, one of which is refused."""
    cluster = terminal.cluster
    plan = {tp(n): replicas(2, 3) for n in range(6)}
    for partition in plan:
        cluster.assign(partition, (1, 2))
    wanted = RequestOptions(reason="the new rack", requested_by="ann", throttle=50_000_000)
    cluster.submit(encode_submission(plan, wanted))
    return cluster


def open_requests(terminal: Terminal) -> str:
    """Print a request that is open, and the kill switch."""
    cluster = a_submission(terminal)
    cluster.take_up({tp(5): "no such broker"})
    cluster.switch = KillSwitch("incident", since_ms=AT_MS)
    documented = {**a_request(total=6, in_flight=2, waiting=3, refused=1), "id": FIRST}
    cluster.statuses = [a_status(requests=[{**documented, "eta_s": [600, 1200]}])]
    return terminal.run("list").stdout


def one_request(terminal: Terminal) -> str:
    """Print a request with a refused, a superseded and open entries."""
    cluster = a_submission(terminal)
    cluster.take_up({tp(5): "no such broker"})
    cluster.call_off(tp(4), OutcomeKind.SUPERSEDED, "by request_0000000009")
    return terminal.run("list", FIRST).stdout


def ended_requests(terminal: Terminal) -> str:
    """Print the outcome of a request."""
    cluster = a_submission(terminal)
    cluster.take_up({tp(5): "no such broker"})
    cluster.call_off(tp(4), OutcomeKind.ROLLED_BACK)
    cluster.conclude(FIRST, done=4)
    return terminal.run("list", "--history").stdout


def dry_run(terminal: Terminal) -> str:
    """Print what a plan would do; one entry would be refused, one is done."""
    for number, assigned in enumerate(((1, 2), (1, 2), (2, 3))):
        terminal.cluster.assign(tp(number, LONG), assigned)
    entries = [(0, [2, 3]), (1, [2, 99]), (2, [2, 3])]
    plan = [{"topic": LONG, "partition": n, "replicas": ids} for n, ids in entries]
    path = Path(terminal.environ["PLAN"])
    path.write_text(json.dumps({"version": 1, "partitions": plan}), encoding="utf-8")
    return terminal.run("execute", str(path), "--dry-run").stdout


def dry_cancellation(terminal: Terminal) -> str:
    """Print what a cancellation would select."""
    a_submission(terminal).take_up()
    return terminal.run("cancel", "--everything", "--dry-run").stdout


CASES: Final[dict[str, Print]] = {
    "status": status,
    "status-idle": idle,
    "status-crowded": crowded,
    "explain": explain,
    "doctor": doctor,
    "list": open_requests,
    "list-one": one_request,
    "list-history": ended_requests,
    "execute-dry-run": dry_run,
    "cancel-dry-run": dry_cancellation,
}


def a_terminal(directory: Path, width: int, **environ: str) -> Terminal:
    """Return a terminal of this width."""
    known = {"REASSIGNER_ZOOKEEPER": "zk:2181", "PLAN": str(directory / "plan.json")}
    known |= {"COLUMNS": str(width), **environ}
    return Terminal(FakeCluster(), environ=known, is_terminal=True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_screens_are_as_they_were(
    case: str, width: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A change is seen in the difference of the file."""
    printed = CASES[case](a_terminal(tmp_path, width))
    lines = [line.rstrip() for line in printed.splitlines()]
    assert max(map(cell_len, lines)) <= width
    path = SCREENS / f"{case}-{width}.txt"
    if request.config.getoption("--rewrite"):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("case", CASES)
def test_narrow_terminals_lose_no_line(case: str, tmp_path: Path) -> None:
    """Down to 60 columns nothing is wider than the terminal."""
    printed = CASES[case](a_terminal(tmp_path, 60))
    assert max(cell_len(line.rstrip()) for line in printed.splitlines()) <= 60


@pytest.mark.parametrize("case", CASES)
def test_pipes_get_neither_tables_nor_colours(case: str, tmp_path: Path) -> None:
    """Lines of plain text, whatever the width."""
    terminal = a_terminal(tmp_path, 80)
    terminal.is_terminal = False
    printed = CASES[case](terminal)
    assert "\x1b" not in printed
    assert not set(printed) & set("━╸…│─")


def test_dumb_terminals_get_lines(tmp_path: Path) -> None:
    """A terminal that cannot move its cursor draws nothing in place."""
    plain = a_terminal(tmp_path, 80)
    plain.is_terminal = False
    assert status(a_terminal(tmp_path, 80, TERM="dumb")) == status(plain)


def test_bar_rate_and_estimate_of_a_partition_are_those_of_the_status(tmp_path: Path) -> None:
    """Beside the bytes of all its copies; a share that is unknown is a question mark."""
    terminal = a_terminal(tmp_path, 80)
    halves = [a_copy(1_000_000_000, 10_000_000), a_copy(3_000_000_000, 5_000_000)]
    shown = {"bytes_per_s": 15_000_000, "eta_s": [240, 600], "share": 0.29}
    for share, words in ((0.29, "29%"), (None, "?")):
        found = copying(copies=halves, **{**shown, "share": share})
        terminal.cluster.statuses = [a_status(in_flight=[found])]
        (row,) = (x for x in terminal.run("status").stdout.splitlines() if x.startswith("t-0"))
        expected = f"{words} 1/3 copying to 3 4/8 GB 15 MB/s 4-10 min"
        assert " ".join(row.split()).endswith(expected)


def test_all_rows_are_shown_on_demand(tmp_path: Path) -> None:
    """Otherwise the number of rows is limited, and the rest is counted."""
    terminal = a_terminal(tmp_path, 80)
    printed = crowded(terminal)
    assert "... and 12 more (--all-rows shows them)" in printed
    assert f"orders-{ROWS_MAX + 11}" not in printed
    printed = terminal.run("status", "--all-rows").stdout
    assert f"orders-{ROWS_MAX + 11}" in printed
    assert "more" not in printed


def test_what_needs_attention_comes_first(tmp_path: Path) -> None:
    """Stalled, blocked, in flight, requests, and what only waits for its turn."""
    printed = status(a_terminal(tmp_path, 200))
    marks = ["needs attention", "STALLED", "(disk_full)", "what to do", "in flight\n"]
    marks += ["requests\n", "brokers\n", "\nwaiting or held up\n"]
    places = [printed.index(mark) for mark in marks]
    assert places == sorted(places)


def test_reasons_without_a_remedy_need_no_attention() -> None:
    """Those that end by themselves: their advice begins with "nothing"; and wishes of operators."""
    patient = {by for by, advice in ADVICE.items() if advice.startswith("nothing")}
    # Its advice begins with the cause, if there is one: to claim the role takes a moment.
    assert patient | IN_TURN | {BlockedBy.CONTROLLER_ROLE} == PATIENT


def printed_at(width: int, *parts: Part, **options: Any) -> str:  # noqa: ANN401 - of a console
    """Return what a terminal gets."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, **options)
    with console.capture() as capture:
        console.print(*map(drawn, parts), sep="\n")
    return capture.get()


def test_no_color_means_no_colour() -> None:
    """Sequences that set a colour (30 to 49 and 90 to 107) are absent; bold may stay."""
    colour = "\x1b[31m"
    plain = screen_of({"NO_COLOR": "1"}, all_rows=False).console
    assert plain.no_color
    assert not screen_of({"NO_COLOR": ""}, all_rows=False).console.no_color
    assert colour in printed_at(80, Words("x", "red"), color_system="standard")
    screen = status_screen(busy())
    assert colour not in printed_at(80, *screen, color_system="standard", no_color=True)


@pytest.mark.parametrize(("columns", "width"), [("132", 132), ("0", None), ("", None), ("x", None)])
def test_columns_sets_the_width(columns: str, width: int | None) -> None:
    """As it does for other programs; nonsense is ignored."""
    found = screen_of({"COLUMNS": columns}, all_rows=False).console.width
    assert found == (width or screen_of({}, all_rows=False).console.width)


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("orders-7", 8, "orders-7"),
        ("a-rather-long-topic-17", 13, "a-rath…pic-17"),
        ("abcdef", 4, "ab…f"),
        ("abcdef", 1, "…"),
    ],
)
def test_long_names_are_shortened_in_the_middle(text: str, width: int, short: str) -> None:
    """Beginning and end distinguish them."""
    assert shorten(text, width) == short
    assert len(short) <= width


def test_columns_without_content_are_left_out() -> None:
    """An empty column costs width."""
    columns = (
        Column[str]("name", Name),
        Column[str]("void", lambda _: ""),
        Column[str]("no text", lambda _: Words("")),
    )
    assert printed_at(80, Listing(columns=columns, rows=["x"]), no_color=True).split()[1:] == ["x"]
    assert printed_at(80, Listing(columns=columns, rows=[])).strip() == ""


@pytest.mark.parametrize(("share", "words"), [(-1.0, "0%"), (0.999, "99%"), (2.0, "100%")])
def test_a_bar_is_never_full_before_the_end(share: float, words: str) -> None:
    """Nor longer than whole."""
    assert printed_at(80, Bar(share)).split()[-1] == words


def test_every_option_with_a_value_names_its_default() -> None:
    """Except those that are required; `stock` has the texts of Kafka's tool, `run` its own."""
    missing = [
        f"{verb.name} {option.names[0]}"
        for verb in command_line().walk()
        if verb.path and verb.path[0] not in {"run", "stock"}
        for option in verb.options
        if option.metavar is not None and "Default: " not in option.about
    ]
    assert sorted(missing) == [
        "reassigner pipeline plan --out",
        "reassigner pipeline rebase --out",
        "reassigner pipeline report --out",
        "reassigner pipeline snapshot --out",
    ]
