"""
Say whether containers can run here, and get their images: ``python -m integration.containers``.

The exit code is 0 where they can, and 69 (``EX_UNAVAILABLE``) where not, with the reason: rights,
images or ports that are missing. An image of our own that cannot be built is no reason: the tests
fail then.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from integration.containers.deployment import Deployment
from integration.containers.engines import (
    ContainersUnavailableError,
    EngineError,
    running_engine,
)
from integration.containers.images import OWN, base_images


def main() -> int:
    """Start a container that does nothing, get every image below ours, and make room."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        with running_engine() as engine:
            images = base_images(engine) | {"DAEMON_IMAGE": OWN}
            with tempfile.TemporaryDirectory() as directory:
                Deployment(engine, images, Path(directory)).make_room()
            print(f"containers can run here, with {engine.name}")
    except (ContainersUnavailableError, EngineError, subprocess.TimeoutExpired) as error:
        print(f"containers cannot run here: {error}")
        return os.EX_UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
