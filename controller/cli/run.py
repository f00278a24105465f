"""
``run``: start the daemon, with one option for each setting.

The options are made from the settings, so that the help, ``docs/reference/configuration.md`` and
the settings cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from inspect import Signature
from pathlib import Path
from typing import Any, Final, get_args

import typer
from pydantic.fields import FieldInfo

from controller.cli.context import context_of
from controller.cli.options import CONFIG, ZOOKEEPER_METAVAR, set_signature, signature_of
from controller.setting_values import HttpAddress
from controller.settings import Settings, descriptions, flag_of, is_secret

SECTIONS: Final = {
    "zookeeper": "ZooKeeper",
    "engine": "Engine and tenure",
    "step_size": "Scheduling",
    "security_protocol": "Kafka brokers",
    "http": "Telemetry",
}
"""The title of each section of settings, by its first field."""

METAVARS: Final = {
    "zookeeper": ZOOKEEPER_METAVAR,
    "step_size": "N|all",
    "throttle": "RATE|auto",
    "throttle_min": "RATE",
    "throttle_max": "RATE",
    "http_advertise": "HOST[:PORT]",
}
"""The form of values that the type alone does not show."""


def run(ctx: typer.Context, **given: Any) -> int:  # noqa: ANN401 - options by field name
    """
    Run the daemon until SIGTERM or Ctrl-C.

    Example: reassigner run --zookeeper zk1:2181/kafka --step-size 1

    Each option is also an environment variable (--step-size: REASSIGNER_STEP_SIZE) and a key of the
    TOML file (step_size).
    """
    context = replace(context_of(ctx), config=given.pop("config"))
    return context.run_daemon(context.settings(**given))


def settings_signature() -> Signature:
    """Return the signature of ``run``: an option for every setting that is not a secret."""
    options = {
        field: _option(field, about)
        for field, about in Settings.model_fields.items()
        if not is_secret(about)
    }
    return signature_of({**options, "config": CONFIG})


def _option(field: str, about: FieldInfo) -> tuple[object, object]:
    flag = flag_of(field)
    panel = section_of(field)
    help_text = f"{descriptions()[field]} Default: {default_of(about)}."
    if about.annotation is bool:
        both = f"{flag}/--no-{flag.removeprefix('--')}"
        return bool | None, typer.Option(
            None, both, help=help_text, show_default=False, rich_help_panel=panel
        )
    return str | None, typer.Option(
        None,
        flag,
        metavar=metavar_of(field, about),
        help=help_text,
        show_default=False,
        rich_help_panel=panel,
    )


def section_of(field: str) -> str:
    """Return the title of the section of a setting."""
    title = ""
    for name in Settings.model_fields:
        title = SECTIONS.get(name, title)
        if name == field:
            break
    return title


def default_of(about: FieldInfo) -> str:
    """Return the default of a setting as text."""
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
    """Return the form of a setting's value."""
    kinds = list(_kinds(about.annotation))
    if field in METAVARS:
        return METAVARS[field]
    enums = [k for k in kinds if isinstance(k, type) and issubclass(k, Enum)]
    choices = [k for k in kinds if isinstance(k, str)] or [str(m.value) for e in enums for m in e]
    if choices:
        return "|".join(choices)
    if HttpAddress in kinds:
        return "HOST:PORT"
    if Path in kinds:
        return "PATH"
    if field.endswith("_s"):
        return "SECONDS"
    return "N" if int in kinds else "TEXT"


def _kinds(annotation: object) -> Iterator[type | str]:
    """Yield the types of an annotation, and the texts that it permits."""
    if isinstance(annotation, type | str):
        yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)


set_signature(run, settings_signature())
