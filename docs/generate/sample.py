"""The sample configuration with every setting: prints ``deploy/reassigner.toml``."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from pydantic.fields import FieldInfo

from controller.cli.run import metavar_of, section_of
from controller.settings import Settings, descriptions, is_secret, name_of, variable_of

_HEAD: Final = """\
# Settings of the reassigner. Made from controller/settings.py by `make reference`; copy it, and
# change the copy.
#
#   reassigner run --config /etc/reassigner/reassigner.toml
#
# Each comment shows the default, or <what to write> if there is none. A command-line option or an
# environment variable overrides this file. An unknown key is an error.
"""
_WIDTH: Final = 100
_EXAMPLE: Final = "zk1:2181,zk2:2181,zk3:2181/kafka"


def sample() -> str:
    """Return the content of ``deploy/reassigner.toml``."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    section = ""
    for field, about in Settings.model_fields.items():
        if section_of(field) != section:
            section = section_of(field)
            yield f"\n\n# --- {section} ".ljust(_WIDTH + 2, "-")
        yield ""
        words = descriptions()[field]
        if is_secret(about):
            words += f" Better in the environment, as {variable_of(field)}."
        yield from textwrap.wrap(words, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        if about.is_required():
            yield f'{name_of(field)} = "{_EXAMPLE}"'
        else:
            yield f"# {name_of(field)} = {_default(field, about)}"


def _default(field: str, about: FieldInfo) -> str:
    """Return a default in TOML, or a placeholder if there is none."""
    value: Any = about.default
    if value is None:
        return f"<{metavar_of(field, about)}>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if isinstance(value, int) else json.dumps(str(value))


if __name__ == "__main__":
    sys.stdout.write(sample())
