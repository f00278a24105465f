"""
Draws the phases from the table that the code obeys, so that the picture cannot drift from it.

``python -m controller.core.diagrams`` prints the document kept at ``docs/reference/phases.md``.
"""

from __future__ import annotations

from controller.core.phases import LABELS, LEGAL, Ended, Pending

MEANING = {
    "pending": "accepted; the topic znode says nothing of it, or the next step has not begun",
    "ordered": "delegated: the cluster's controller was told to make the step",
    "A1": "a step found in the topic znode: the leader epoch has to be bumped anew in this tenure",
    "A2": "topic znode and state written, LeaderAndIsr and UpdateMetadata sent",
    "A2-syncing": "the new replicas copy; the target within the ISR is awaited",
    "B3": "the dropped replicas were taken out of the ISR and the leader moved, in one write",
    "B5": "StopReplica (stop, then delete) is out to the dropped replicas",
    "ended": "B6 to B8: the topic znode is final, the record is gone, every broker is told",
}


def mermaid() -> str:
    """Return the transition table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    names = {phase: f"s{index}" for index, phase in enumerate(LEGAL)}
    lines += [f'    state "{LABELS[phase]}" as {name}' for phase, name in names.items()]
    lines.append(f"    [*] --> {names[Pending]}")
    for before, followers in LEGAL.items():
        lines += [
            f"    {names[before]} --> {names[after]}" for after in LEGAL if after in followers
        ]
    lines.append(f"    {names[Ended]} --> [*]")
    return "\n".join(lines)


def document() -> str:
    """Return the whole page: the diagram and what each phase means."""
    rows = "\n".join(f"| {LABELS[p]} | {MEANING[LABELS[p]]} |" for p in LEGAL)
    return (
        "# Phases of a reassignment\n\n"
        "Drawn from the transition table in `controller/core/phases.py` (`make diagram`).\n\n"
        f"```mermaid\n{mermaid()}\n```\n\n"
        f"| phase | meaning |\n|---|---|\n{rows}\n"
    )


if __name__ == "__main__":
    print(document(), end="")  # noqa: T201 - this is its purpose
