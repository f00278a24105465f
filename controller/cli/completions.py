"""
``completion``: scripts that complete verbs and options in a shell.

They are made from the verbs as they are and hold everything they know, so that completing starts no
Python. What is a name in the cluster is not completed; where a file may stand, files are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from controller.cli.command_tree import Option, Verb

HELP: Final = ("-h", "--help")

_BASH: Final = """\
_reassigner() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at='' i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at ${COMP_WORDS[i]}" in
@VERBS@
        esac
    done
    COMPREPLY=()
    case "$at $before" in
@VALUES@
    esac
    case "$at" in
@WORDS@
    esac
}
complete -o default -F _reassigner reassigner
"""


def bash_script(tree: Verb) -> str:
    """Return a script for bash."""
    verbs = [v for v in tree.walk() if v.path]
    patterns = "|".join(_quoted(_at(v)) for v in verbs)
    words = [
        f"    {_quoted(_at(v))}) COMPREPLY=($(compgen -W '{' '.join(_words(v))}' -- \"$word\")) ;;"
        for v in tree.walk()
    ]
    values = [
        f"    {_quoted(f'{_at(v)} {name}')}) "
        + (
            f"COMPREPLY=($(compgen -W '{' '.join(o.choices)}' -- \"$word\")); return ;;"
            if o.choices
            else "return ;;"
        )
        for v in tree.walk()
        for o in v.options
        if o.metavar is not None
        for name in o.names
    ]
    filled = {
        "@VERBS@": f'            {patterns}) at="$at ${{COMP_WORDS[i]}}" ;;',
        "@VALUES@": "\n".join(values),
        "@WORDS@": "\n".join(words),
    }
    script = _BASH
    for mark, text in filled.items():
        script = script.replace(mark, text)
    return script


def zsh_script(tree: Verb) -> str:
    """Return a script for zsh, which runs the one for bash."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash_script(tree)}"


def fish_script(tree: Verb) -> str:
    """Return a script for fish."""
    lines = ["complete -c reassigner -e"]
    for verb in tree.walk():
        lines += _fish_lines(verb)
    return "\n".join(lines) + "\n"


def _fish_lines(verb: Verb) -> Iterator[str]:
    """Return what completes the words behind one verb."""
    if verb.path:
        behind = [f"__fish_seen_subcommand_from {word}" for word in verb.path]
    else:
        behind = ["__fish_use_subcommand"]
    if verb.path and verb.verbs:
        names = " ".join(child.path[-1] for child in verb.verbs)
        behind.append(f"not __fish_seen_subcommand_from {names}")
    start = f"complete -c reassigner -n '{'; and '.join(behind)}'"
    for child in verb.verbs:
        yield f"{start} -f -a {child.path[-1]} -d {_fish_quoted(child.summary)}"
    for option in verb.options:
        for name in option.names:
            letter = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            yield f"{start} {letter}{_fish_value(option)} -d {_fish_quoted(option.about)}"


def _fish_value(option: Option) -> str:
    if option.metavar is None:
        return ""
    return f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r"


SHELLS: Final[Mapping[str, Callable[[Verb], str]]] = MappingProxyType(
    {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
)


def _at(verb: Verb) -> str:
    """Return a verb as the script for bash remembers it: each word behind a blank."""
    return "".join(f" {word}" for word in verb.path)


def _words(verb: Verb) -> list[str]:
    """Return what may stand behind a verb."""
    names = [name for option in verb.options for name in option.names]
    return [*(child.path[-1] for child in verb.verbs), *names, *HELP]


def _quoted(text: str) -> str:
    """Quote names of verbs and options."""
    return f"'{text}'"


def _fish_quoted(text: str) -> str:
    """Quote anything for fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
