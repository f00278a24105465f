"""A process of ``Gate.java`` with the client library of one Kafka release."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from integration.rigs.jvms import java_command, write_logging
from integration.rigs.kafka_jars import clients_classpath
from integration.rigs.processes import dying_with_parent

_PROGRAM: Final = Path(__file__).with_name("Gate.java")


class NotReadableError(Exception):
    """The library raised; a broker would have stopped, or closed the connection."""


class GateProcess:
    """Reads and writes frames, given and returned without the length in front of them."""

    def __init__(self, release: str, directory: Path) -> None:
        """
        Start the process.

        Args:
            release: The version of the library, such as ``3.9.1``.
            directory: Where the logging configuration is written.

        Raises:
            JarsUnavailableError: Maven is missing or cannot get the library.
            JavaMissingError: there is no Java.
        """
        command = java_command(
            str(_PROGRAM),
            classpath=clients_classpath(release),
            heap_mb=128,
            logging=write_logging(directory),
        )
        self._process = subprocess.Popen(
            dying_with_parent(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def versions(self, key: int) -> tuple[int, int] | None:
        """Return the lowest and the highest version of a request, None if it is not known."""
        answer = self._send("versions", key)
        if answer == "none":
            return None
        lowest, highest = answer.split()
        return int(lowest), int(highest)

    def read_response(self, key: int, version: int, correlation_id: int, frame: bytes) -> Any:  # noqa: ANN401 - JSON
        """
        Return the body of an answer, read as a broker reads it.

        Raises:
            NotReadableError: the library refused it, or would have written other bytes.
        """
        return json.loads(self._send("response", key, version, correlation_id, frame.hex()))

    def read_request(self, frame: bytes) -> Any:  # noqa: ANN401 - JSON
        """
        Return the body of a request, read as a broker reads it.

        Raises:
            NotReadableError: the library refused it, or would have written other bytes.
        """
        return json.loads(self._send("request", frame.hex()))

    def write_request(
        self, key: int, version: int, correlation_id: int, client_id: str, body: object
    ) -> bytes:
        """
        Return the frame of a request, as a broker of this release writes it.

        Raises:
            NotReadableError: the release has no such request or field.
        """
        text = json.dumps(body)
        return bytes.fromhex(self._send("write", key, version, correlation_id, client_id, text))

    def _send(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        verdict, _, rest = self._process.stdout.readline().rstrip("\n").partition(" ")
        if verdict != "ok":
            raise NotReadableError(rest or "the process ended")
        return rest
