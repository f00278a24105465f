"""
Say whether containers can run here, and get their images: ``python -m integration.containers``.

The exit code is 0 where they can, 1 where not, with the reason. An image of our own that cannot be
built is no reason: the tests fail then.
"""

from __future__ import annotations

import logging
import sys

from integration.containers.engines import (
    ContainersUnavailableError,
    EngineError,
    running_engine,
)
from integration.containers.images import base_images


def main() -> int:
    """Start a container that does nothing; then find or make every image below ours."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        with running_engine() as engine:
            print(f"containers run here, with {engine.name}", flush=True)
            base_images(engine)
    except (ContainersUnavailableError, EngineError) as error:
        print(f"containers cannot run here: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
