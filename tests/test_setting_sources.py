"""Tests of ``controller.setting_sources``: which source wins, and how errors are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.errors import InvalidInputError
from controller.setting_sources import load_settings


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return where a TOML file may be written."""
    return tmp_path / "reassigner.toml"


def test_the_first_source_that_names_a_setting_wins(config: Path) -> None:
    """Command line before environment before file before default."""
    config.write_text('zookeeper = "file:1"\nstep_size = 2\nmax_partitions_in_flight = 3\n')
    settings = load_settings(
        {"zookeeper": "option:1", "step_size": None},
        {"REASSIGNER_ZOOKEEPER": "variable:1", "REASSIGNER_STEP_SIZE": "all"},
        config,
    )
    assert settings.zookeeper == "option:1"
    assert settings.step_size == "all"
    assert settings.max_partitions_in_flight == 3
    assert settings.max_incoming_per_broker == 10


def test_the_file_may_be_named_by_the_environment(config: Path) -> None:
    """REASSIGNER_CONFIG stands in for --config."""
    config.write_text('zookeeper = "file:1"\n')
    assert load_settings({}, {"REASSIGNER_CONFIG": str(config)}).zookeeper == "file:1"


def test_other_variables_are_left_alone() -> None:
    """Kubernetes puts variables such as REASSIGNER_SERVICE_HOST into every container."""
    environ = {"REASSIGNER_SERVICE_HOST": "10.0.0.1", "REASSIGNER_PORT": "tcp://x", "PATH": "/bin"}
    assert load_settings({"zookeeper": "zk:1"}, environ).zookeeper == "zk:1"


@pytest.mark.parametrize(
    ("options", "environ", "content", "message"),
    [
        ({}, {}, "", "--zookeeper is required"),
        ({"step_size": "x"}, {}, "", "--step-size: must be a whole number of replicas"),
        (
            {},
            {"REASSIGNER_TENURE_LINGER": "x"},
            "",
            "REASSIGNER_TENURE_LINGER: must be a number, n",
        ),
        ({}, {}, "tenure_linger = -1", "toml: tenure_linger: must be at least 0, not -1"),
        ({}, {}, "tenure_linger = nan", "toml: tenure_linger: must be"),
        ({}, {}, "step_sise = 2", "toml: unknown setting step_sise; did you mean step_size?"),
        ({}, {}, "zzz = 2", "toml: unknown setting zzz"),
        ({}, {}, "[http]\nport = 1", "toml: http: must be HOST:PORT"),
        ({}, {}, "step_size = true", "toml: step_size: must not be true or false"),
        ({}, {}, "preferred_election = 7", "toml: preferred_election: must be true or false"),
        ({}, {}, "max_partitions_in_flight = 1.5", "must be a whole number, not 1.5"),
        ({}, {}, "max_partitions_in_flight = 99999999", "must be at most 1000000, not 99999999"),
        ({}, {"REASSIGNER_TENURE": "often"}, "", "REASSIGNER_TENURE: must be 'on_demand' or"),
        ({}, {"REASSIGNER_LOG_LEVEL": ""}, "", "REASSIGNER_LOG_LEVEL: must not be empty"),
        ({}, {}, "= 1", "toml: not a TOML file"),
        ({}, {}, "journal_dir = []", "toml: journal_dir: must be a path, not []"),
        ({"zookeeper": "!" * 99}, {}, "", "..."),
    ],
)
def test_a_wrong_value_is_one_line_that_names_its_source(
    options: dict[str, object], environ: dict[str, str], content: str, message: str, config: Path
) -> None:
    """The operator learns which option is wrong, where it was set, and what would be right."""
    config.write_text(content)
    given = options if "zookeeper is required" in message else {"zookeeper": "zk:1", **options}
    with pytest.raises(InvalidInputError) as refused:
        load_settings(given, environ, config)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """A file that was named has to be there."""
    with pytest.raises(InvalidInputError, match="No such file"):
        load_settings({}, {}, tmp_path / "none.toml")


def test_a_file_that_is_not_text_is_reported(config: Path) -> None:
    """Bytes that are not UTF-8 are refused, not raised."""
    config.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match="not a TOML file"):
        load_settings({}, {}, config)


def test_a_wrong_secret_is_not_repeated(config: Path) -> None:
    """The message says what is wrong with a secret without saying the secret."""
    config.write_text("sasl_password = 4711\n")
    with pytest.raises(InvalidInputError) as refused:
        load_settings({"zookeeper": "zk:1"}, {}, config)
    assert "sasl_password: must be a text" in str(refused.value)
    assert "4711" not in str(refused.value)


@pytest.mark.parametrize("line", ["adaptive = true", "slow_answer = 5"])
def test_a_setting_that_was_removed_is_named_with_what_takes_its_place(
    config: Path, line: str
) -> None:
    """A file of an earlier version is not obeyed in part."""
    config.write_text(f'zookeeper = "zk:2181"\n{line}\n')
    with pytest.raises(InvalidInputError, match=r"was removed: throttle = auto"):
        load_settings({}, {}, config)


@pytest.mark.parametrize(
    ("text", "throttle"), [("auto", "auto"), ("50MB", 50_000_000), ("none", None), ("7", 7)]
)
def test_a_throttle_is_a_rate_or_auto(text: str, throttle: object) -> None:
    """As operators write it everywhere."""
    settings = load_settings({"zookeeper": "zk:2181", "throttle": text}, {}, None)
    assert settings.options().throttle == throttle


def test_the_bounds_of_a_throttle_are_in_order() -> None:
    """The least is not above the most."""
    options = {"zookeeper": "zk:2181", "throttle_min": "2MB", "throttle_max": "1MB"}
    with pytest.raises(InvalidInputError, match="is above throttle_max"):
        load_settings(options, {}, None)
