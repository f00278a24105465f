"""
Log lines: structlog's own and those of the libraries, through one formatter to one stream.

Configured once, explicitly, by the composition root; importing this module changes nothing. What is
worth a line is decided in ``notes``, how it is written in ``log_streams``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TextIO

import structlog

from controller.settings import LogFormat, LogLevel
from controller.telemetry.log_streams import QueuedStream

if TYPE_CHECKING:
    from structlog.typing import Processor

LIBRARIES: Final = ("kazoo", "kafka", "confluent_kafka")
"""Loggers of libraries: only their warnings and errors are ours to pass on."""


def configure_logging(log_format: LogFormat, level: LogLevel, stream: TextIO) -> QueuedStream:
    """
    Route structlog and the standard library's loggers to the stream; return who writes to it.

    Args:
        log_format: One JSON object per line, or aligned text for people.
        level: The least severe lines to write.
        stream: Where to.

    """
    threshold = logging.getLevelNamesMapping()[level.value.upper()]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(log_format),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = QueuedStream(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_shared(log_format), structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _renderer(log_format, stream),
            ],
        )
    )
    root = logging.getLogger()
    former, root.handlers[:] = root.handlers[:], [handler]
    for replaced in former:
        if isinstance(replaced, QueuedStream):
            replaced.close()
    root.setLevel(threshold)
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))
    return handler


def _shared(log_format: LogFormat) -> list[Processor]:
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format is LogFormat.JSON:
        processors.append(structlog.processors.dict_tracebacks)
    return processors


def _renderer(log_format: LogFormat, stream: TextIO) -> Processor:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=stream.isatty())
