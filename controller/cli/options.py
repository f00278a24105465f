"""
Command-line options made from the settings.

One source for the options of ``run``, their help and ``docs/reference/configuration.md``: a new
setting appears in all three.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer
from pydantic.fields import FieldInfo

from controller.setting_values import HttpAddress
from controller.settings import Settings, flag_of, is_secret

SECTIONS: Final = {
    "zookeeper": "ZooKeeper",
    "engine": "Engine and tenure",
    "step_size": "Pace",
    "security_protocol": "Kafka brokers",
    "http": "Telemetry",
}
"""The first setting of each section, in the order of the fields."""

SPECIAL: Final = {
    "zookeeper": "HOST:PORT[,HOST:PORT][/chroot]",
    "zookeeper_sasl_mechanism": "DIGEST-MD5|GSSAPI",
    "step_size": "N|all",
    "http_advertise": "HOST[:PORT]",
}
"""What to write where the type alone does not say it."""

ZookeeperOption = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar=SPECIAL["zookeeper"],
        help="The cluster's ZooKeeper, or REASSIGNER_ZOOKEEPER.",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A TOML file with settings, or REASSIGNER_CONFIG.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def settings_signature() -> inspect.Signature:
    """Return the signature of a verb that takes every setting as an option."""
    parameters = [
        inspect.Parameter(
            field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(field, about)
        )
        for field, about in Settings.model_fields.items()
        if not is_secret(about)
    ]
    config = inspect.Parameter(
        "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConfigOption
    )
    return inspect.Signature([*parameters, config])


def _option(field: str, about: FieldInfo) -> object:
    flag = flag_of(field)
    panel = section_of(field)
    help_text = f"{about.description} Default: {default_of(about)}."
    if about.annotation is bool:
        both = f"{flag}/--no-{flag.removeprefix('--')}"
        return Annotated[
            bool | None,
            typer.Option(both, help=help_text, show_default=False, rich_help_panel=panel),
        ]
    return Annotated[
        str | None,
        typer.Option(
            flag,
            metavar=metavar_of(field, about),
            help=help_text,
            show_default=False,
            rich_help_panel=panel,
        ),
    ]


def section_of(field: str) -> str:
    """Return the section a setting belongs to."""
    title = ""
    for name in Settings.model_fields:
        title = SECTIONS.get(name, title)
        if name == field:
            break
    return title


def default_of(about: FieldInfo) -> str:
    """Word a setting's default."""
    value: Any = about.default
    if about.is_required():
        return "none, required"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def metavar_of(field: str, about: FieldInfo) -> str:
    """Return what to write for the value in a usage line."""
    kinds = list(_kinds(about.annotation))
    for kind in kinds:
        if issubclass(kind, Enum):
            return "|".join(str(member.value) for member in kind)
    if field in SPECIAL:
        return SPECIAL[field]
    if HttpAddress in kinds:
        return "HOST:PORT"
    if Path in kinds:
        return "PATH"
    if field.endswith("_s"):
        return "SECONDS"
    return "N" if int in kinds else "TEXT"


def _kinds(annotation: object) -> Iterator[type]:
    """Yield the types that an annotation is made of."""
    if isinstance(annotation, type):
        yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)
