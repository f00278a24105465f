"""The reference of all verbs: prints ``docs/reference/cli.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import typer

from controller.brokers import cluster_ids, surveys
from controller.cli.app import build_app
from controller.cli.context import HTTP_TIMEOUT_S, CommandContext
from controller.zk.operator_connection import CONNECT_S
from docs.generate.command_tree import Option, Verb, command_tree

_HEAD: Final = """# Command line

<!-- Generated from the verbs by `make reference`; do not edit. -->

`reassigner VERB --help` prints the same. Name the cluster's ZooKeeper with `--zookeeper`, with
`REASSIGNER_ZOOKEEPER` or in a file (`--config`). The same holds for every setting; see
[configuration](configuration.md).

Exit codes of every verb but `stock`, which has those of Kafka's own tool:

| code | meaning |
|---|---|
| 0 | done; of a submission: accepted |
| 1 | error or wrong usage |
| 2 | in progress, or not accepted yet; of `doctor`: there are findings |
| 3 | refused, at least in part |
| 4 | cancelled |

`--json` prints JSON for programs. `--dry-run` prints what would be written and writes nothing.

Every wait has a limit: @ZOOKEEPER@ s for a connection to ZooKeeper, @DAEMON@ s for the daemon,
@BROKERS@ s for a broker, and `--timeout` for the acceptance of a submission.
`--wait` and `watch` end with Ctrl-C, which does not stop the reassignments.

Tables, lines and the status page show an instant as `2026-01-02 22:00:00Z` (UTC), a duration in the
largest unit of which there are two or more (`90 s`, `5 min`, `2 h`, `3 days`; latencies as `420 ms`
or `1.3 s`), an estimate as a range: `5 min to 2 h`, `up to 5 min`, or `under a minute`, below which
it is not exact. The page shows instants relative to now, and as above on hover. JSON, log, journal
and metrics have ISO 8601 and seconds.

Completion in bash, zsh, fish and PowerShell: `reassigner --install-completion` installs it for the
current shell, `reassigner --show-completion` prints the script.
"""
_TIMES: Final = {
    "@ZOOKEEPER@": CONNECT_S,
    "@DAEMON@": HTTP_TIMEOUT_S,
    "@BROKERS@": max(cluster_ids.WITHIN_S, surveys.WITHIN_S),
}
ELSEWHERE: Final = "run"
"""Its options are the settings, which have a reference of their own."""


def command_line() -> Verb:
    """Return every verb; no cluster is connected to."""
    app = build_app(CommandContext(environ={}))
    return command_tree(typer.main.get_command(app))


def verb_reference(tree: Verb) -> str:
    """Return the content of ``docs/reference/cli.md``."""
    verbs = [verb for verb in tree.walk() if verb.path]
    head = _HEAD
    for mark, seconds in _TIMES.items():
        head = head.replace(mark, f"{seconds:g}")
    parts = [head, "| verb | purpose |\n|---|---|"]
    parts += [
        f"| [`{v.name}`](#{'-'.join(('reassigner', *v.path))}) | {v.summary} |" for v in verbs
    ]
    for verb in verbs:
        parts += ["", *_section(verb)]
    return "\n".join(parts) + "\n"


def _section(verb: Verb) -> Iterator[str]:
    yield f"## {verb.name}\n"
    usage = [verb.name, *(a.metavar for a in verb.arguments)]
    usage += ["[OPTIONS]"] if verb.options else []
    usage += ["[VERB]"] if verb.verbs else []
    yield f"```\n{' '.join(usage)}\n```\n"
    for paragraph in verb.about.split("\n\n"):
        text = " ".join(paragraph.split())
        example = text.removeprefix("Example: ")
        yield f"{text}\n" if example == text else f"```\n{example}\n```\n"
    if verb.path == (ELSEWHERE,):
        yield "Its options are the [settings](configuration.md)."
        return
    rows = [(a.metavar, a.about) for a in verb.arguments]
    rows += [(_option(o), o.about) for o in verb.options]
    if rows:
        yield "| | |\n|---|---|"
        for name, about in rows:
            yield f"| `{_escaped(name)}` | {_escaped(about)} |"


def _option(option: Option) -> str:
    names = ", ".join(option.names)
    return names if option.metavar is None else f"{names} {option.metavar}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(verb_reference(command_line()))
