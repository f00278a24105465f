"""
Read the capacities of brokers from a CSV file with a header line.

The columns ``broker`` (an id), ``rack`` and ``host`` (the beginning of a host name) select brokers,
the others are capacities. Each row is a rule.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from controller.errors import InvalidInputError, errors_about
from controller.planning.broker_capacities import COLUMNS, SELECTORS, Capacities, CapacityRule
from controller.planning.load_goals import LEADERS, REPLICAS
from controller.units import parse_bytes

COUNTED: Final = frozenset({REPLICAS, LEADERS})


def read_capacities(path: Path) -> Capacities:
    """
    Read a file of capacities.

    Raises:
        InvalidInputError: it cannot be read, or a row is wrong.

    """
    with errors_about(path):
        # A spreadsheet may begin the file with a byte order mark.
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True)
        try:
            columns = [column.strip() for column in reader.fieldnames or ()]
            rows = list(reader)
        except csv.Error as error:
            raise InvalidInputError(f"not a CSV file: {error}") from error
        strange = [column for column in columns if column not in {*SELECTORS, *COLUMNS}]
        if strange or not set(columns) & set(COLUMNS):
            known = ", ".join((*SELECTORS, *COLUMNS))
            what = f"column {strange[0]} is unknown" if strange else "no column is a capacity"
            raise InvalidInputError(f"{what}; there are {known}")
        reader_rows = ({(k or "").strip(): v for k, v in row.items()} for row in rows)
        return Capacities(
            str(path), tuple(_rule(n, row) for n, row in enumerate(reader_rows, start=2))
        )


def _rule(line: int, row: Mapping[str, object]) -> CapacityRule:
    if "" in row or any(not isinstance(value, str) for value in row.values()):
        raise InvalidInputError(f"line {line} has another number of columns than the header")
    cells = {column: str(value).strip() for column, value in row.items()}
    cells = {column: value for column, value in cells.items() if value}
    broker = cells.get("broker", "0")
    if not broker.isdecimal():
        raise InvalidInputError(f"line {line}: column broker is not an id: {broker}")
    found: dict[str, float] = {}
    for column, name in COLUMNS.items():
        if column in cells:
            found[name] = _amount(f"line {line}: column {column}", name, cells[column])
    selectors: dict[str, str] = {s: cells[s] for s in SELECTORS if s in cells}
    if "broker" in selectors:
        selectors["broker"] = str(int(broker))
    return CapacityRule(selectors, found)


def _amount(about: str, name: str, text: str) -> float:
    if name not in COUNTED:
        return float(parse_bytes(about, text))
    if not text.isdecimal() or int(text) == 0:
        raise InvalidInputError(f"{about} is not a positive number: {text}")
    return float(text)
