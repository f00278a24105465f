"""The diagram of the phases from the transition table: prints ``docs/reference/phases.md``."""

from __future__ import annotations

import sys

from controller.core.reassignments.phases import LABELS, LEGAL, RESETS, Ended, Expanding, Pending
from controller.telemetry.advice import PHASE_MEANINGS, PHASE_WORDS


def mermaid() -> str:
    """Return the transition table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    names = {phase: f"s{index}" for index, phase in enumerate(LEGAL)}
    lines += [f'    state "{LABELS[phase]}" as {name}' for phase, name in names.items()]
    lines += [f"    [*] --> {names[first]}" for first in (Pending, Expanding)]
    for before, followers in LEGAL.items():
        lines += [
            f"    {names[before]} --> {names[after]}" for after in LEGAL if after in followers
        ]
    for before, followers in RESETS.items():
        lines += [
            f"    {names[before]} --> {names[after]} : reset"
            for after in LEGAL
            if after in followers and after is not before
        ]
    lines.append(f"    {names[Ended]} --> [*]")
    return "\n".join(lines)


def document() -> str:
    """Return the whole page: the diagram and what each phase means."""
    labels = [LABELS[phase] for phase in LEGAL]
    rows = "\n".join(f"| {p} | {PHASE_WORDS[p]} | {PHASE_MEANINGS[p]} |" for p in labels)
    return (
        "# Phases of a reassignment\n\n"
        "The phases of one partition and the transitions between them, generated from\n"
        "`controller/core/reassignments/phases.py` (`make diagram`). Phases are only in memory.\n\n"
        "A reset puts a partition where its topic znode says it is: when a tenure begins or ends,\n"
        "and when another controller changed its replicas. Any other transition is a bug: the\n"
        "daemon stops, and another one takes over.\n\n"
        f"```mermaid\n{mermaid()}\n```\n\n"
        "The name is that in the log, the journal, metrics and `/status`; commands and the status\n"
        "page show the words.\n\n"
        f"| name | words | meaning |\n|---|---|---|\n{rows}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(document())
