"""The verbs and their options as values: what documentation and completion are made from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_ANY_NUMBER: Final = -1
_CHOICES: Final = re.compile(r"[a-z_-]+(\|[a-z_-]+)+")
"""A value to choose is written ``one|other``."""


@dataclass(frozen=True, slots=True)
class Argument:
    """Something that is given by its place."""

    metavar: str
    about: str


@dataclass(frozen=True, slots=True)
class Option:
    """Something that is given by name."""

    names: tuple[str, ...]
    metavar: str | None
    """What to write for its value; None where it takes none."""
    about: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, or a sub-verb."""

    path: tuple[str, ...]
    """Its words behind ``reassigner``; empty for the command itself."""
    about: str
    """The help, paragraphs separated by empty lines."""
    summary: str
    """The same in a few words."""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    verbs: tuple[Verb, ...] = ()

    @property
    def name(self) -> str:
        """The whole of what is typed for it."""
        return " ".join(("reassigner", *self.path))

    def walk(self) -> Iterator[Verb]:
        """Return this one and all below it."""
        yield self
        for verb in self.verbs:
            yield from verb.walk()


def command_tree(command: Any) -> Verb:  # noqa: ANN401 - typer hides its command classes
    """Return a command with everything below it."""
    return _verb(command, ())


def _verb(command: Any, path: tuple[str, ...]) -> Verb:  # noqa: ANN401 - as above
    parameters = list(command.params)
    return Verb(
        path=path,
        about=inspect.cleandoc(command.help or ""),
        summary=command.get_short_help_str(limit=100),
        arguments=tuple(_argument(p) for p in parameters if p.param_type_name == "argument"),
        options=tuple(_option(p) for p in parameters if p.param_type_name == "option"),
        verbs=tuple(
            _verb(command.get_command(None, name), (*path, name))
            for name in getattr(command, "commands", ())
        ),
    )


def _argument(parameter: Any) -> Argument:  # noqa: ANN401 - as above
    name = str(parameter.metavar or parameter.name.upper())
    name = name if parameter.required else f"[{name}]"
    return Argument(f"{name}..." if parameter.nargs == _ANY_NUMBER else name, parameter.help or "")


def _about(parameter: Any) -> str:  # noqa: ANN401 - as above
    """Return the help of an option, with the default that ``--help`` appends."""
    default = parameter.default
    if parameter.is_flag or not parameter.show_default or default in (None, ""):
        return str(parameter.help)
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f"{parameter.help} Default: {shown}."


def _option(parameter: Any) -> Option:  # noqa: ANN401 - as above
    metavar = None if parameter.is_flag else str(parameter.metavar or "TEXT")
    return Option(
        names=(*parameter.opts, *parameter.secondary_opts),
        metavar=metavar,
        about=_about(parameter),
        choices=tuple(metavar.split("|")) if metavar and _CHOICES.fullmatch(metavar) else (),
    )
