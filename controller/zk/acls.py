"""
The permissions of the reassigner's znodes: those of the cluster's own znodes.

Brokers, and later controllers, must be able to change and delete these znodes. Below the
roots that Kafka treats as sensitive (``ZkData.SensitiveRootPaths``), which hold passwords and
tokens, only the cluster's own identities may read. A write does not change the permissions of a
znode that exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE, Permissions

from controller.errors import InvalidInputError
from controller.znodes import paths

SENSITIVE: Final = (paths.BROKER_CONFIGS, "/config/users", "/delegation_token/tokens")
"""On a cluster with ACLs, Kafka creates znodes below these with ``CREATOR_ALL_ACL`` alone."""


def acl_at(path: str, acls: list[Any]) -> list[Any]:
    """
    Return the permissions for a new znode.

    Args:
        path: Its path.
        acls: The permissions of the cluster's ordinary znodes.

    """
    if not any(path == root or path.startswith(f"{root}/") for root in SENSITIVE):
        return acls
    # An open cluster, or one without identities, has no other permissions to give.
    return [acl for acl in acls if acl.id.scheme != "world"] or acls


def cluster_acl(acl_of: Callable[[str], list[Any]]) -> list[Any]:
    """
    Return the permissions of the cluster's own znodes.

    Args:
        acl_of: Reads the permissions of a znode.

    Raises:
        InvalidInputError: ZooKeeper does not allow to read them.

    """
    for path in (paths.TOPICS, "/admin"):
        try:
            acls = acl_of(path)
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
