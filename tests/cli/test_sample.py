"""The sample configuration, which an operator copies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.setting_sources import load_settings
from controller.settings import Settings, name_of
from docs.generate.sample import sample

FILE = Path(__file__).parents[2] / "deploy" / "reassigner.toml"


def test_the_file_is_up_to_date() -> None:
    """`make reference` writes it."""
    assert FILE.read_text(encoding="utf-8") == sample()


def test_it_loads_as_it_is() -> None:
    """Only what is required is set, to an example; all else keeps its default."""
    example = "zk1:2181,zk2:2181,zk3:2181/kafka"
    assert load_settings({}, {}, FILE) == load_settings({"zookeeper": example}, {})


def test_it_has_every_setting_once_with_its_meaning() -> None:
    """In the order of the settings, below a comment."""
    lines = sample().splitlines()
    set_here = [re.match(r"(?:# )?([a-z_]+) = ", line) for line in lines]
    assert [m[1] for m in set_here if m] == [name_of(field) for field in Settings.model_fields]
    assert all(above.startswith("# ") for above, m in zip(lines, set_here[1:], strict=False) if m)


@pytest.mark.parametrize("field", sorted(Settings.model_fields))
def test_what_is_commented_out_shows_the_default(field: str, tmp_path: Path) -> None:
    """Taking the comment sign away changes nothing; without a default it shows what to write."""
    about = Settings.model_fields[field]
    if about.is_required():
        return
    (line,) = re.findall(rf"^# ({name_of(field)} = .*)$", sample(), re.MULTILINE)
    if about.default is None:
        assert re.fullmatch(r"[a-z_]+ = <[^<>]+>", line)
        return
    file = tmp_path / "settings.toml"
    file.write_text(f'zookeeper = "zk"\n{line}\n')
    assert load_settings({}, {}, file) == load_settings({"zookeeper": "zk"}, {})
