"""The Dockerfile, instruction by instruction: what a linter says of it, and what we promise."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
TEXT: Final = (ROOT / "deploy" / "Dockerfile").read_text()
KNOWN: Final = frozenset(
    [
        "ARG",
        "FROM",
        "RUN",
        "CMD",
        "COPY",
        "ENV",
        "ENTRYPOINT",
        "EXPOSE",
        "HEALTHCHECK",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)


def instructions() -> list[tuple[str, str]]:
    """Return each instruction with what follows it, continued lines joined."""
    lines = [line for line in TEXT.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(name, rest) for name, rest in found]


def every(name: str) -> list[str]:
    """Return what follows each instruction of this name."""
    return [rest for found, rest in instructions() if found == name]


def test_every_instruction_is_one_that_is_meant() -> None:
    """A misspelled one would fail the build; ADD fetches and unpacks unreviewed content."""
    assert {name for name, _ in instructions()} <= KNOWN


def test_the_last_stage_holds_nothing_that_builds() -> None:
    """It takes the environment from the first stage and installs nothing."""
    stages = TEXT.split("\nFROM ")
    assert len(stages) == 3
    last = stages[-1]
    assert re.findall(r"^COPY (\S+)", last, re.MULTILINE) == ["--from=build"]
    assert "pip" not in last
    assert "apt" not in TEXT


def test_what_is_installed_fits_together_and_is_listed() -> None:
    """The build fails where a requirement is not met; the list goes with the environment."""
    (install,) = (run for run in every("RUN") if "pip" in run)
    steps = [step.strip() for step in install.split("&&")]
    assert [step for step in steps if step.endswith(" check")]
    (listing,) = (step for step in steps if "cyclonedx-py" in step)
    assert "/opt/reassigner/sbom.cdx.json" in listing
    assert "--without-pip /opt/reassigner" in install


def test_the_process_gets_the_signals() -> None:
    """Started without a shell between, and stopped by what it gives the role back for."""
    (entrypoint,), (command,) = every("ENTRYPOINT"), every("CMD")
    assert json.loads(entrypoint) + json.loads(command) == ["reassigner", "run"]
    assert every("STOPSIGNAL") == ["SIGTERM"]
    (check,) = every("HEALTHCHECK")
    assert json.loads(check.partition(" CMD ")[2])[0] == "python"


def test_no_user_is_needed_before_files_are_placed_and_none_is_root_after() -> None:
    """What is copied belongs to root and cannot be changed by the process."""
    names = [name for name, _ in instructions()]
    after = names[names.index("USER") :]
    assert not {"RUN", "COPY"} & set(after)
    assert every("USER") == ["10095"]


def test_paths_are_absolute_and_no_secret_is_baked_in() -> None:
    """The environment of an image is readable in it."""
    assert all(path.startswith("/") for path in (*every("WORKDIR"), *every("VOLUME")))
    assert not re.search(r"password|token|credential|secret", TEXT, re.IGNORECASE)


def test_what_is_copied_is_sent_to_the_builder() -> None:
    """The ignore file lets in what the image is built from, and nothing else."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    sources = {
        source
        for rest in every("COPY")
        if not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert "*" in ignored
    assert {source.removeprefix("./") for source in sources} == allowed
