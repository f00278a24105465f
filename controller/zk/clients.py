"""The settings that concern the connection to ZooKeeper, as kazoo's client takes them."""

from __future__ import annotations

import importlib.util
from typing import Any

from controller.errors import PlanInvalidError
from controller.settings import Settings
from controller.zk.handlers import PollHandler


def client_options(settings: Settings) -> dict[str, Any]:
    """
    Return the settings that concern the connection, as kazoo's client takes them.

    Raises:
        PlanInvalidError: they ask for SASL and the library for it is not installed.

    """
    if settings.zookeeper_sasl_mechanism and importlib.util.find_spec("puresasl") is None:
        raise PlanInvalidError("zookeeper_sasl_mechanism needs the Python package pure-sasl")
    credential = settings.zookeeper_auth_credential
    return {
        "hosts": settings.zookeeper,
        "handler": PollHandler(),
        "timeout": settings.zookeeper_session_timeout_s,
        "auth_data": (
            [(settings.zookeeper_auth_scheme, credential.get_secret_value())]
            if credential
            else None
        ),
        "sasl_options": _sasl_options(settings),
        "use_ssl": settings.zookeeper_tls,
        "ca": _text(settings.zookeeper_tls_cafile),
        "certfile": _text(settings.zookeeper_tls_certfile),
        "keyfile": _text(settings.zookeeper_tls_keyfile),
        "keyfile_password": (
            settings.zookeeper_tls_password.get_secret_value()
            if settings.zookeeper_tls_password
            else None
        ),
        "check_hostname": settings.zookeeper_tls_check_hostname,
    }


def _sasl_options(settings: Settings) -> dict[str, str] | None:
    password = settings.zookeeper_sasl_password
    match settings.zookeeper_sasl_mechanism:
        case "DIGEST-MD5" if settings.zookeeper_sasl_username and password:
            return {
                "mechanism": "DIGEST-MD5",
                "username": settings.zookeeper_sasl_username,
                "password": password.get_secret_value(),
            }
        case "GSSAPI":
            principal = settings.zookeeper_sasl_principal
            named = {"principal": principal} if principal else {}
            return {"mechanism": "GSSAPI", "service": settings.zookeeper_sasl_service, **named}
        case _:
            return None


def _text(path: object) -> str | None:
    return None if path is None else str(path)
