"""
The login to ZooKeeper, and the permissions of the reassigner's znodes.

Files of passwords are read at each connection, so that a changed one needs no restart.

The permissions are those of the cluster's own znodes: brokers, and later controllers, must be able
to change and delete what the reassigner creates. Below the roots that Kafka treats as sensitive
(``ZkData.SensitiveRootPaths``), which hold passwords and tokens, only the cluster's own identities
may read. A write does not change the permissions of a znode that exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE, Permissions
from tenacity import wait_exponential, wait_random

from controller.credentials import ClientTls
from controller.errors import InvalidInputError
from controller.settings import Settings
from controller.znodes import paths

# --- logins --------------------------------------------------------------------------------------

REFUSED: Final = wait_exponential(multiplier=1, max=60) + wait_random(0, 1)
"""The pauses before credentials that ZooKeeper refused are tried again."""


class Credentials(NamedTuple):
    """kazoo's arguments for a login."""

    sasl: dict[str, str] | None
    auth_data: tuple[tuple[str, str], ...]


def present_credentials(settings: Settings) -> Credentials:
    """
    Return the credentials for the next connection, from the files as they are now.

    Raises:
        InvalidInputError: a file cannot be used.
    """
    credential = settings.password("zookeeper_auth_credential")
    scheme = settings.zookeeper_auth_scheme
    auth = () if credential is None or scheme is None else ((scheme, credential.reveal()),)
    return Credentials(_sasl(settings), auth)


def _sasl(settings: Settings) -> dict[str, str] | None:
    password = settings.password("zookeeper_sasl_password")
    match settings.zookeeper_sasl_mechanism:
        case "DIGEST-MD5" if settings.zookeeper_sasl_username and password is not None:
            return {
                "mechanism": "DIGEST-MD5",
                "username": settings.zookeeper_sasl_username,
                "password": password.reveal(),
            }
        case "GSSAPI":
            principal = settings.zookeeper_sasl_principal
            named = {"principal": principal} if principal else {}
            return {"mechanism": "GSSAPI", "service": settings.zookeeper_sasl_service, **named}
        case _:
            return None


def zookeeper_tls(settings: Settings) -> ClientTls | None:
    """Return TLS towards ZooKeeper, None where it is not configured."""
    if not settings.zookeeper_tls:
        return None
    return ClientTls(
        prefix="zookeeper_tls",
        cafile=settings.zookeeper_tls_cafile,
        certfile=settings.zookeeper_tls_certfile,
        keyfile=settings.zookeeper_tls_keyfile,
        password=settings.password("zookeeper_tls_password"),
        check_hostname=settings.zookeeper_tls_check_hostname,
    )


# --- permissions ---------------------------------------------------------------------------------

SENSITIVE: Final = (paths.BROKER_CONFIGS, "/config/users", "/delegation_token/tokens")
"""On a cluster with ACLs, Kafka creates znodes below these with ``CREATOR_ALL_ACL`` alone."""


def acl_at(path: str, acls: list[Any]) -> list[Any]:
    """Return the permissions for a new znode, from those of the cluster's ordinary znodes."""
    if not any(path == root or path.startswith(f"{root}/") for root in SENSITIVE):
        return acls
    # An open cluster, or one without identities, has no other permissions to give.
    return [acl for acl in acls if acl.id.scheme != "world"] or acls


def cluster_acl(acls_of: Callable[[str], tuple[list[Any], Any]]) -> list[Any]:
    """
    Return the permissions of the cluster's own znodes; ``acls_of`` reads those of a znode.

    Raises:
        InvalidInputError: ZooKeeper does not allow to read them.
    """
    for path in paths.KAFKA_ROOTS:
        try:
            acls = list(acls_of(path)[0])
        except NoNodeError:
            continue
        except NoAuthError as error:
            raise InvalidInputError(_stranger(path)) from error
        if any(_is_masked(acl) for acl in acls):
            # Written as read, it would name an identity that does not exist.
            raise InvalidInputError(_stranger(path))
        if not any(_is_open(acl) for acl in acls):
            return acls
    return list(OPEN_ACL_UNSAFE)


def _stranger(path: str) -> str:
    return (
        f"ZooKeeper does not let us read the permissions of {path}: authenticate as the brokers do "
        "(zookeeper_auth_scheme or zookeeper_sasl_mechanism)"
    )


def _is_masked(acl: Any) -> bool:  # noqa: ANN401 - kazoo has no types
    """Return whether ZooKeeper masks a digest, as for clients without the ADMIN permission."""
    return bool(acl.id.scheme == "digest" and acl.id.id.endswith(":x"))


def _is_open(acl: Any) -> bool:  # noqa: ANN401 - kazoo has no types
    return bool(
        (acl.id.scheme, acl.id.id) == ("world", "anyone")
        and acl.perms & Permissions.ALL == Permissions.ALL
    )
