"""The charts of a report, as inline SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

GIB: Final = float(1 << 30)
BROKERS_NAMED: Final = 40
"""Maximum number of brokers labelled on an axis."""

# Text stays text: it can be searched, and the file is small. Element ids are reproducible.
mpl.rcParams["svg.fonttype"] = "none"
mpl.rcParams["svg.hashsalt"] = "reassigner"


def load_picture(brokers: Sequence[int], loads: Mapping[str, Sequence[float]]) -> str:
    """
    Draw the bytes of each broker.

    Args:
        brokers: Ids.
        loads: Bytes by broker, for each of before, planned and after.

    """
    figure = Figure(figsize=(10, 3.6))
    axes = figure.subplots()
    width = 0.8 / max(1, len(loads))
    for n, (name, held) in enumerate(loads.items()):
        at = [x + n * width for x in range(len(brokers))]
        axes.bar(at, [value / GIB for value in held], width=width, label=name)
    _name_brokers(axes.set_xticks, brokers)
    axes.set_xlabel("broker")
    axes.set_ylabel("GiB")
    axes.legend(loc="upper right")
    return _svg(figure)


def matrix_picture(brokers: Sequence[int], pairs: Mapping[tuple[int, int], float]) -> str:
    """Draw the bytes copied from each broker (row) to each other one (column)."""
    index = {broker: n for n, broker in enumerate(brokers)}
    grid = [[0.0] * len(brokers) for _ in brokers]
    for (served_by, copied_by), size in pairs.items():
        if served_by in index and copied_by in index:
            grid[index[served_by]][index[copied_by]] = size / GIB
    figure = Figure(figsize=(6, 5))
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="Blues", aspect="auto")
    figure.colorbar(image, label="GiB")
    _name_brokers(axes.set_xticks, brokers)
    _name_brokers(axes.set_yticks, brokers)
    axes.set_xlabel("copied by")
    axes.set_ylabel("served by")
    return _svg(figure)


def timeline_picture(spans: Sequence[tuple[str, float, float]]) -> str:
    """Draw the begin and end of requests: name, first and last second."""
    figure = Figure(figsize=(10, max(1.6, 0.35 * len(spans) + 1)))
    axes = figure.subplots()
    for n, (_, begun, ended) in enumerate(spans):
        axes.barh(n, max(ended - begun, 0.1), left=begun, height=0.6)
    axes.set_yticks(range(len(spans)), [name for name, _, _ in spans])
    axes.invert_yaxis()
    axes.set_xlabel("seconds since the first began")
    figure.tight_layout()
    return _svg(figure)


def phases_picture(phases: Mapping[str, tuple[float, float, float]]) -> str:
    """Draw the median, 90th and 99th percentile of the duration of each phase."""
    figure = Figure(figsize=(10, 3.2))
    axes = figure.subplots()
    for n, label in enumerate(("median", "90 %", "99 %")):
        at = [x + 0.25 * n for x in range(len(phases))]
        axes.bar(at, [times[n] for times in phases.values()], width=0.25, label=label)
    axes.set_xticks([x + 0.25 for x in range(len(phases))], list(phases))
    axes.set_ylabel("seconds")
    axes.legend(loc="upper right")
    return _svg(figure)


def _name_brokers(set_ticks: Any, brokers: Sequence[int]) -> None:
    step = -(-len(brokers) // BROKERS_NAMED)
    at = range(0, len(brokers), max(1, step))
    set_ticks(list(at), [str(brokers[n]) for n in at])


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    # An inline SVG has no XML declaration and no document type.
    return re.sub(r"^.*?(?=<svg)", "", out.getvalue(), flags=re.DOTALL)
