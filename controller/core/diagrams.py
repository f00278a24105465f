"""
Generate the page of the phases from the transition table.

``make diagram`` writes ``docs/reference/phases.md``; a test compares it with what is generated.
"""

from __future__ import annotations

from controller.core.phases import LABELS, LEGAL, Ended, Pending

MEANING = {
    "pending": "accepted, with no step in flight; or between two steps",
    "ordered": "delegated engine: the step was sent to the cluster's controller",
    "A1": "a step found in the topic znode: this tenure has to raise the leader epoch",
    "A2": "topic znode and partition state written, LeaderAndIsr and UpdateMetadata sent",
    "A2-syncing": "the added replicas copy, until the ISR contains the step's target",
    "B3": "one write excluded the dropped replicas from the ISR and moved the leader",
    "B5": "StopReplica (stop, then delete) sent to the dropped replicas",
    "ended": "B6 to B8: the topic znode is final, the record deleted, UpdateMetadata sent",
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
        "The phases of one partition and the transitions between them, generated from\n"
        "`controller/core/phases.py` by `make diagram`. Phases are kept in memory only.\n\n"
        f"```mermaid\n{mermaid()}\n```\n\n"
        f"| phase | meaning |\n|---|---|\n{rows}\n"
    )


if __name__ == "__main__":
    print(document(), end="")  # noqa: T201 - this is its purpose
