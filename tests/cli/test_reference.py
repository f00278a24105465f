"""The reference of the settings, and the options of ``run`` made from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.run import metavar_of, section_of, settings_signature
from controller.settings import Settings, flag_of, is_secret, variable_of
from docs.generate.settings import reference

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_document_is_up_to_date() -> None:
    """`make reference` writes it."""
    assert DOCUMENT.read_text(encoding="utf-8") == reference()


def test_every_setting_is_in_the_document() -> None:
    """With its environment variable, and its option unless it is a secret."""
    text = reference()
    for name, about in Settings.model_fields.items():
        assert f"`{variable_of(name)}`" in text
        assert (f"`{flag_of(name)}`" in text) is not is_secret(about)


def test_secrets_have_no_option() -> None:
    """A process list shows options to everybody."""
    names = settings_signature().parameters
    assert "sasl_password" not in names
    assert "sasl_username" in names


@pytest.mark.parametrize(
    ("name", "metavar"),
    [
        ("step_size", "N|all"),
        ("tenure_linger_s", "SECONDS"),
        ("engine", "auto|native|delegated"),
        ("http", "HOST:PORT"),
        ("journal_dir", "PATH"),
        ("ssl_cafile", "PATH"),
        ("max_partitions_in_flight", "N"),
        ("max_bytes_in_flight", "N"),
        ("inter_broker_listener", "TEXT"),
    ],
)
def test_values_say_what_they_are(name: str, metavar: str) -> None:
    """A usage line distinguishes a number from a time."""
    assert metavar_of(name, Settings.model_fields[name]) == metavar


def test_every_setting_is_in_a_section() -> None:
    """The first of a section begins it."""
    assert section_of("zookeeper") == "ZooKeeper"
    assert section_of("stalled_after_s") == "Scheduling"
    assert section_of("log_level") == "Telemetry"
