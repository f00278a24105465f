"""
Configured capacities of log directories, for brokers that do not report their free space.

The file is TOML or JSON: a table for each broker id, with the bytes of each log directory; the
table ``default`` holds for brokers without one of their own. It is read again when it changes. A
file that became invalid changes nothing: the capacities of before stay.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from controller.core.model import BrokerId
from controller.errors import InvalidInputError
from controller.followed_files import FollowedFiles
from controller.units import parse_bytes

DEFAULT: Final = "default"

Tables = Mapping[str, Mapping[str, int]]


class DiskCapacities:
    """The capacities in a file; called with a broker, it returns the bytes by directory."""

    def __init__(self, path: Path, problem: Callable[[str], None]) -> None:
        """
        Read the file.

        Args:
            path: The file.
            problem: Called with what is wrong when the file became invalid.

        Raises:
            InvalidInputError: the file cannot be read, or is invalid.

        """
        self._tables = FollowedFiles((path,), lambda: read_capacities(path), problem)

    def __call__(self, broker: BrokerId) -> Mapping[str, int]:
        """Return the capacities of a broker, of the present file."""
        tables = self._tables.content()
        return tables.get(str(broker), tables.get(DEFAULT, {}))


def read_capacities(path: Path) -> Tables:
    """
    Read and check a file of capacities.

    Raises:
        InvalidInputError: it cannot be read, or a value is wrong; the message names it.

    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise InvalidInputError(f"{path}: not a {kind} file: {error}") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: must be a table of brokers")
    return {name: _directories(path, name, table) for name, table in content.items()}


def _directories(path: Path, name: str, table: object) -> Mapping[str, int]:
    where = f"{path}, {name}"
    if name != DEFAULT and not (name.isascii() and name.isdigit()):
        raise InvalidInputError(f"{where}: must be a broker id or {DEFAULT!r}")
    if not isinstance(table, dict):
        raise InvalidInputError(f"{where}: must be a table of log directories and their bytes")
    capacities = {}
    for directory, value in table.items():
        if not directory.startswith("/"):
            raise InvalidInputError(f"{where}: {directory!r} is not an absolute path")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InvalidInputError(f"{where}, {directory}: must be bytes such as '2TB'")
        capacities[directory] = parse_bytes(f"{where}, {directory}", str(value))
    return capacities
