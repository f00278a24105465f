"""The reference of all settings: prints ``docs/reference/configuration.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from controller.cli.run import default_of, metavar_of, section_of
from controller.settings import Settings, descriptions, flag_of, is_secret, name_of, variable_of

_HEAD: Final = """# Settings

<!-- Generated from controller/settings.py by `make reference`; do not edit. -->

Each setting has four sources. The first one that sets it wins: a command-line option of
`reassigner run`, an environment variable, the TOML file (`--config FILE` or `REASSIGNER_CONFIG`),
the default. The other verbs have the options `--zookeeper` and `--config`, and read all other
settings from the environment or the file.

Secrets have no command-line option, because process lists show options to every user. They are
never printed. In the TOML file, the names of the first column are keys at the top level:

```toml
zookeeper = "zk1:2181,zk2:2181,zk3:2181/kafka"
step_size = "all"
tenure_linger = 60
```
"""


def reference() -> str:
    """Return the content of ``docs/reference/configuration.md``."""
    return "\n".join((_HEAD, *_sections())) + "\n"


def _sections() -> Iterator[str]:
    section = ""
    for field, about in Settings.model_fields.items():
        if section_of(field) != section:
            yield ""
            section = section_of(field)
            yield f"## {section}\n"
            yield "| setting | value | default | option | environment variable | meaning |"
            yield "|---|---|---|---|---|---|"
        value = metavar_of(field, about).replace("|", "\\|")
        option = "none: a secret" if is_secret(about) else f"`{flag_of(field)}`"
        if about.annotation is bool:
            value = "true\\|false"
            option = f"`{flag_of(field)}`, `--no-{flag_of(field).removeprefix('--')}`"
        yield (
            f"| `{name_of(field)}` | {value} | {default_of(about)} | {option} "
            f"| `{variable_of(field)}` | {descriptions()[field]} |"
        )


if __name__ == "__main__":
    sys.stdout.write(reference())
