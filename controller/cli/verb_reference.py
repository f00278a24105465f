"""
Generate the reference of all verbs, ``docs/reference/cli.md``.

``make reference`` writes the page; a test compares it with what is generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import typer

from controller.brokers import broker_survey, cluster_id
from controller.cli.app import build_app
from controller.cli.command_tree import Option, Verb, command_tree
from controller.cli.context import HTTP_TIMEOUT_S, CommandContext
from controller.zk.connections import CONNECT_S

_HEAD: Final = """# The command line

<!-- Made from the verbs by `python -m controller.cli.verb_reference`; do not edit. -->

`reassigner VERB --help` says the same. ZooKeeper is named by `--zookeeper`, by
`REASSIGNER_ZOOKEEPER` or in a file (`--config`), and so is every setting; see
[configuration.md](configuration.md).

Exit codes of every verb but `stock`, which has those of Kafka's own tool:

| code | meaning |
|---|---|
| 0 | done, or accepted where that was asked for |
| 1 | an error, or wrong usage |
| 2 | something is under way, or not accepted yet; `doctor`: there are findings |
| 3 | at least a part of what was asked for will not be done |
| 4 | cancelled |

`--json` prints documents for programs, `--dry-run` says what would be written and writes nothing.

Nothing waits for ever: connecting to ZooKeeper takes @ZOOKEEPER@ s at most, an answer of the daemon
@DAEMON@ s, one of the brokers @BROKERS@ s; how long a submission waits for the daemon is
`--timeout`, and `--wait` and `watch` end with Ctrl-C, which stops nothing.

Completion: `reassigner completion bash > /etc/bash_completion.d/reassigner`, or for zsh and fish
what `reassigner completion --help` says.
"""
_TIMES: Final = {
    "@ZOOKEEPER@": CONNECT_S,
    "@DAEMON@": HTTP_TIMEOUT_S,
    "@BROKERS@": max(cluster_id.WITHIN_S, broker_survey.WITHIN_S),
}
ELSEWHERE: Final = "run"
"""Its options are the settings, which have a reference of their own."""


def tree_without_surroundings() -> Verb:
    """Return the command as it is everywhere: nothing is asked of the outside."""
    app = build_app(CommandContext(environ={}))
    return command_tree(typer.main.get_command(app))


def verb_reference(tree: Verb) -> str:
    """Return the content of ``docs/reference/cli.md``."""
    verbs = [verb for verb in tree.walk() if verb.path]
    head = _HEAD
    for mark, seconds in _TIMES.items():
        head = head.replace(mark, f"{seconds:g}")
    parts = [head, "| verb | what it does |\n|---|---|"]
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
        yield "Its options are the settings: [configuration.md](configuration.md)."
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
    typer.echo(verb_reference(tree_without_surroundings()), nl=False)
