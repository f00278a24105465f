"""
Sources of settings: command line, environment, TOML file, default; the first one wins.

Secrets have no command-line option, because process lists are public. The error for a wrong value
names the option as it was spelled where it was set. The environment is a parameter; only the TOML
file is read here.
"""

from __future__ import annotations

import tomllib
from collections import ChainMap
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from controller.errors import InvalidInputError, errors_about
from controller.settings import Settings, flag_of, is_secret, name_of, variable_of

CONFIG_VARIABLE: Final = "REASSIGNER_CONFIG"

SHOWN_MAX: Final = 60
"""Length up to which an error shows a wrong value whole."""

WANTED: Final[Mapping[str, str]] = {
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "path_type": "must be a path",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}
"""Texts for pydantic's error types."""


class _Given(NamedTuple):
    """Values of one source by field, with the name of each in that source."""

    values: dict[str, object]
    called: Mapping[str, str]


REMOVED: Final[Mapping[str, str]] = {
    "adaptive": "throttle = auto follows the load of the cluster",
    "slow_answer": "throttle = auto counts late answers without a setting",
}
"""Settings of earlier versions, and what takes their place."""


def load_settings(
    options: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None
) -> Settings:
    """
    Collect and validate the settings.

    Options are those of the command line by field name, None where they are not given. Without
    ``config``, ``REASSIGNER_CONFIG`` names the TOML file.

    Raises:
        InvalidInputError: a value is wrong; the message names where it was set.

    """
    fields = Settings.model_fields
    given = {f: v for f, v in options.items() if v is not None}
    variables = {f: variable_of(f) for f in fields if variable_of(f) in environ}
    path = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    sources = (
        _Given(given, {f: flag_of(f) for f in given}),
        _Given({f: environ[v] for f, v in variables.items()}, variables),
        _from_file(path),
    )
    try:
        return Settings.model_validate(dict(ChainMap(*(s.values for s in sources))))
    except ValidationError as error:
        raise InvalidInputError(_sentence(error.errors(include_url=False)[0], sources)) from None


def _from_file(path: Path | None) -> _Given:
    if path is None:
        return _Given({}, {})
    try:
        with errors_about(path):
            content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path}: not a TOML file: {error}") from error
    fields = {name_of(f): f for f in Settings.model_fields}
    for name in content:
        if name not in fields:
            if name in REMOVED:
                raise InvalidInputError(f"{path}: {name} was removed: {REMOVED[name]}")
            near = get_close_matches(name, fields, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InvalidInputError(f"{path}: unknown setting {name}{hint}")
    return _Given(
        {fields[n]: v for n, v in content.items()}, {fields[n]: f"{path}: {n}" for n in content}
    )


def _sentence(error: ErrorDetails, sources: tuple[_Given, ...]) -> str:
    """Return the option as it was set, what is wrong with it, and its value unless secret."""
    context: dict[str, Any] = {"message": error["msg"]}
    context |= {k: _whole(v) for k, v in error.get("ctx", {}).items()}
    field = str(error["loc"][0] if error["loc"] else context["field"])
    if error["type"] == "missing":
        flag, variable = flag_of(field), variable_of(field)
        return f"{flag} is required (or {variable}, or {name_of(field)} in the --config file)"
    called = next((s.called[field] for s in sources if field in s.called), flag_of(field))
    wanted = WANTED.get(error["type"], "{message}")
    said = wanted.format_map(context)
    if error["type"] in ("belongs_together", "empty") or is_secret(Settings.model_fields[field]):
        return f"{called}: {said}"
    return f"{called}: {said}, not {_value_text(error['input'])}"


def _whole(value: object) -> object:
    """Return a whole number without its fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _value_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."
