"""Compile the policy of the brokers in ``TopicPolicy.java``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from integration.rigs.kafka_jars import Release, classpath

CLASS: Final = "TopicPolicy"
_COMPILED_WITHIN_S: Final = 120.0


def compiled(release: Release, into: Path) -> Path:
    """
    Compile the policy for a release; return the directory of its classes.

    Raises:
        FileNotFoundError: there is no Java compiler on this machine.
        subprocess.CalledProcessError: the policy does not compile.

    """
    compiler = shutil.which("javac")
    if compiler is None:
        raise FileNotFoundError("javac is needed to compile a policy of brokers")
    source = Path(__file__).with_name(f"{CLASS}.java")
    command = [compiler, "-cp", classpath(release), "-d", str(into), str(source)]
    subprocess.run(command, check=True, timeout=_COMPILED_WITHIN_S)
    return into
