"""Fixtures of what is deployed."""

from __future__ import annotations

import pytest

from integration.containers.deployment import DAEMONS, Deployment


@pytest.fixture
def deployed(deployment: Deployment) -> Deployment:
    """Give the deployment with both daemons up."""
    for service in DAEMONS:
        deployment.start(service)
    return deployment
