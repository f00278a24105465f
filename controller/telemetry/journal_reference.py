"""
Generate the reference of the journal, ``docs/reference/journal.md``.

``make reference`` writes the page; a test compares it with what is generated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from controller.telemetry.journal_events import EVENTS, RECORDS
from controller.telemetry.journal_kinds import LIFE, Kind

_HEAD: Final = """# The journal

<!-- Made by `python -m controller.telemetry.journal_reference`; do not edit. -->

Every decision the daemon committed and everything that happened around it, as JSON Lines: an audit
trail, and what the after-action report is made of. One directory for each daemon (`--journal-dir`,
default `./journal`); a standby writes its own, and after a failover both are needed.

## Files

`journal.jsonl` is the present file. At 64 MiB it becomes `journal.jsonl.1`, what was `.1` becomes
`.2`, and so on; ten files are kept, the present one included. The oldest lines are in the file
with the highest number. A restarted daemon goes on in the same file. `journal.lock` keeps two
daemons apart.

Writing never holds up the work: lines wait in a bounded queue, and when the disk is slow or full
they are dropped, the log says so once, and `journal_dropped` tells how many as soon as there is
room. Where the disk was full, or the machine crashed, a line may be cut off: pass over what is not
JSON.

## Lines

Each line is one object with at least

| field | type | meaning |
|---|---|---|
| `v` | integer | version of this schema: 1 |
| `at` | text | when: ISO 8601, UTC, milliseconds, such as `2026-01-02T03:04:05.678Z` |
| `kind` | text | what the line is; decides which other fields there are |

Fields and kinds may be added without a new version: pass over what you do not know. All fields of a
kind are always there, but for those marked optional; what is not known is null. Broker ids are
integers, request ids texts, durations seconds, sizes bytes. Order: within one file lines are in the
order of the daemon's loop.

How a copy is timed: a replica counts as being copied from the write that begins its step (`begun`)
until the daemon sees it in the ISR. `bytes` is its size then, as DescribeLogDirs told last.
"""

_SECTIONS: Final[tuple[tuple[str, str, Mapping[str, Kind]], ...]] = (
    ("The course of the work", "What an after-action report is made of.", LIFE),
    ("What was committed", "Named after the records of `controller/core/records.py`.", RECORDS),
    ("What happened around it", "Each fact once, when it begins or changes.", EVENTS),
)


def reference() -> str:
    """Return the content of ``docs/reference/journal.md``."""
    return "\n".join((_HEAD, *_sections())) + "\n"


def _sections() -> Iterator[str]:
    for title, words, kinds in _SECTIONS:
        yield f"## {title}\n\n{words}\n"
        for name, kind in kinds.items():
            yield from _kind(name, kind)


def _kind(name: str, kind: Kind) -> Iterator[str]:
    yield f"### `{name}`\n\n{kind.meaning}\n"
    if not kind.fields:
        return
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    for field, (wanted, meaning) in kind.fields.items():
        may = " (optional)" if field in kind.optional else ""
        yield f"| `{field}` | {wanted}{may} | {meaning} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(reference())
