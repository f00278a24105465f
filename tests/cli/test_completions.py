"""Completion, tried in a shell where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from controller.cli.verb_reference import tree_without_surroundings
from tests.cli.builders import FakeCluster, Terminal

VERBS = [verb for verb in tree_without_surroundings().walk() if verb.path]


def script(shell: str) -> str:
    """Return what the verb prints."""
    result = Terminal(FakeCluster(), environ={}).run("completion", shell)
    assert result.exit_code == 0
    return result.stdout


def completed(directory: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    path = directory / "reassigner.bash"
    path.write_text(script("bash"))
    typed = " ".join(f"'{word}'" for word in ("reassigner", *words))
    command = (
        f"source {path}; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _reassigner; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(  # noqa: S603 - the script is ours
        [bash, "--norc", "-c", command], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pa",), ["pause"]),
        (("queue", "re"), ["remove"]),
        (("queue", "add", "--dry"), ["--dry-run"]),
        (("limits", "--order", "sm"), ["small-first"]),
        (("cancel", "--scope", ""), ["in_flight", "all"]),
        (("execute", "plan"), []),
        (("execute", "--reason", "pa"), []),
        (("verify", "list", "--js"), ["--json"]),
        (("pause", "--broker", "5", "--rea"), ["--reason"]),
    ],
)
def test_bash_completes(words: tuple[str, ...], expected: list[str], tmp_path: Path) -> None:
    """Verbs, sub-verbs, options and values to choose; nothing where a name or a file may stand."""
    assert completed(tmp_path, *words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_verb_and_option_is_known_to_every_shell(shell: str) -> None:
    """The scripts are made from the verbs, so none is forgotten."""
    text = script(shell)
    for verb in VERBS:
        assert verb.path[-1] in text
        for option in verb.options:
            for name in option.names:
                assert (
                    f"-l {name[2:]}" if shell == "fish" and name[1] == "-" else name[1:]
                ) in text


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_their_script(shell: str, tmp_path: Path) -> None:
    """Read without running it, where the shell is installed."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell}")
    path = tmp_path / "script"
    path.write_text(script(shell))
    subprocess.run([found, "-n", str(path)], check=True)  # noqa: S603 - the script is ours


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pa", {"pause"}),
        ("queue re", {"remove"}),
        ("limits --order sm", {"small-first"}),
        ("execute --leg", {"--legacy"}),
    ],
)
def test_fish_completes(line: str, expected: set[str], tmp_path: Path) -> None:
    """As bash does, with a word about each."""
    path = tmp_path / "reassigner.fish"
    path.write_text(script("fish"))
    fish = shutil.which("fish")
    assert fish is not None
    command = f"source {path}; complete -C 'reassigner {line}'"
    done = subprocess.run(  # noqa: S603 - the script is ours
        [fish, "--no-config", "-c", command], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert {offered.split("\t")[0] for offered in done.stdout.splitlines()} == expected


def test_an_unknown_shell_is_refused() -> None:
    """One line, exit code 1."""
    result = Terminal(FakeCluster()).run("completion", "tcsh")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "reassigner: one of bash, zsh, fish, not 'tcsh'\n"
