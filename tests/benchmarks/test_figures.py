"""The reduction of rounds to figures, and their output."""

from __future__ import annotations

from math import inf

from benchmarks.figures import Figure, Sample, reduced, table, verdicts


def recovery(seconds: float, bare: float) -> Sample:
    """Return what a round says of a recovery."""
    return Sample("recovery", seconds, "s", limit=1.5, beside=bare, beside_what="the bare reads")


def test_a_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    """A noisy round makes both of its figures larger, so they are held against each other."""
    figure = reduced([recovery(4.0, 2.0), recovery(30.0, 10.0), recovery(3.0, 2.0)])
    assert (figure.median, figure.spread, figure.runs) == ("4.0 s", "3.0 to 30.0 s", 3)
    assert (figure.ratio, figure.spec) == (
        "2.00 times the bare reads",
        "under 1.5 times the bare reads",
    )
    assert figure.is_met is False


def test_a_figure_without_a_goal_is_only_printed() -> None:
    """And one round has no spread."""
    figure = reduced([Sample("bare reads", 2.25, "s")])
    assert (figure.median, figure.spread, figure.spec, figure.is_met) == ("2.2 s", "", "", None)


def test_a_table_begins_with_the_ratio() -> None:
    """Single figures depend on the machine."""
    figure = Figure("moving", "3 s", 1, ratio="5 times Kafka's", spec="12 times", of_goal=2.4)
    assert table([figure]).splitlines() == [
        "| ratio | what | median | spread | runs | goal | met |",
        "|---|---|---|---|---|---|---|",
        "| 5 times Kafka's | moving | 3 s |  | 1 | 12 times | missed by 140% |",
    ]


def test_the_verdicts_name_what_is_missed_the_worst_first() -> None:
    """By how much; what has no goal, or meets it, is not named."""
    figures = [
        Figure("beside", "3 s", 1),
        Figure("pause", "0.2 s", 20, spec="under 0.3 s", of_goal=0.67),
        Figure("memory", "6.3 KB", 1, spec="under 6 KB", of_goal=1.05),
        Figure("recovery", "3 s", 1, spec="under 2 s", of_goal=1.5),
        Figure("moving", "for ever", 1, spec="at all", of_goal=inf),
    ]
    assert verdicts(figures).splitlines() == [
        "1 of 4 goals are met.",
        "* missed: moving; goal: at all",
        "* missed by 50%: recovery; goal: under 2 s",
        "* missed by 5%: memory; goal: under 6 KB",
    ]
    assert verdicts([]) == "0 of 0 goals are met."
