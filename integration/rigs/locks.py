"""
Locks of a cluster, TLS and logins, and what servers and clients need to pass them.

Every secret is made for one cluster and begins with ``PLANTED``, so that tests can search for it.
Principals: ``kafka`` of the brokers and ``admin`` of the rig's own clients are super users of
Kafka; ``reassigner`` of the daemon and ``client`` have the ACLs that a test gives them. Towards
ZooKeeper the daemon is ``kafka``, as the brokers are, and the rig is ``super``, which may do
anything.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller.endpoint.sasl import ITERATIONS, derive_keys
from integration.rigs.certificates import STORE_PASSWORD, CertificateAuthority, Identity
from integration.rigs.kerberos import REALM, Realm
from integration.rigs.reserved_ports import LOCALHOST, ReservedPort

PLANTED: Final = "planted"
"""Begins every secret."""

BROKER: Final = "kafka"
ADMIN: Final = "admin"
DAEMON: Final = "reassigner"
CLIENT: Final = "client"
SUPER: Final = "super"

CLIENTS: Final = "CLIENTS"
CONTROL: Final = "CONTROL"
"""Names of listeners: of brokers and clients, and of the controller alone."""

SCRAM: Final = "SCRAM-SHA-512"
DIGEST: Final = "DIGEST-MD5"
GSSAPI: Final = "GSSAPI"

_MODULES: Final[Mapping[str, str]] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM: "org.apache.kafka.common.security.scram.ScramLoginModule",
    DIGEST: "org.apache.zookeeper.server.auth.DigestLoginModule",
    GSSAPI: "com.sun.security.auth.module.Krb5LoginModule",
}
_BROKER_SERVICE: Final = f"{BROKER}/{LOCALHOST}"
_ZOOKEEPER_SERVICE: Final = f"zookeeper/{LOCALHOST}"
_DAEMON: Final = f"{BROKER}/{DAEMON}"
"""Kerberos principals; without its second part, the daemon's is that of the brokers."""
_NAME_OF_PRINCIPAL: Final = f"RULE:[2:$1;$2]({BROKER};{DAEMON})s/.*/{DAEMON}/,DEFAULT"
_LOGINS: Final = "java.security.auth.login.config"
_NAME_OF_CERTIFICATE: Final = "RULE:^CN=([a-z]+)-node$/$1/,DEFAULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """The kinds of locks of a cluster."""

    protocol: str = "SASL_SSL"
    """Security protocol of the brokers' listeners; SSL requires certificates of clients."""
    mechanism: str | None = SCRAM
    """SASL mechanism of the listeners; None where the protocol has no SASL."""
    zookeeper_sasl: str | None = DIGEST
    """SASL mechanism of ZooKeeper, which then requires a login; brokers set their ACLs."""
    zookeeper_tls: bool = False
    """Serve ZooKeeper's clients with TLS alone, and require certificates of them."""
    control_plane: bool = False
    """Give brokers a listener for the controller alone."""

    @property
    def has_tls(self) -> bool:
        """Whether the brokers' listeners have TLS."""
        return self.protocol.endswith("SSL")

    @property
    def by_certificate(self) -> bool:
        """Whether brokers know their clients by certificates."""
        return self.protocol == "SSL"

    @property
    def has_realm(self) -> bool:
        """Whether brokers and ZooKeeper are in a Kerberos realm."""
        return GSSAPI in {self.mechanism, self.zookeeper_sasl}

    @property
    def listeners(self) -> tuple[str, ...]:
        """The names of the listeners."""
        return (CLIENTS, CONTROL) if self.control_plane else (CLIENTS,)


class Keys:
    """
    The keys to one cluster: certificates and passwords, and the settings that use them.

    Args:
        directory: Receives every file.
        locks: What the keys are for.

    Attributes:
        authority: Issues every certificate.
        passwords: The password of each user of the brokers' listeners.
        zookeeper_passwords: The password of each user of ZooKeeper.
        key_password: Encrypts the daemon's private key.
        password_file: The daemon's password for brokers.
        zookeeper_password_file: Its password for ZooKeeper.
        key_password_file: The password of its key.
        daemon_identity: Its certificate.
    """

    def __init__(self, directory: Path, locks: Locks) -> None:
        self._directory = directory
        self._locks = locks
        self.authority = CertificateAuthority(directory)
        self.passwords = {user: secret(user) for user in (BROKER, ADMIN, DAEMON, CLIENT)}
        self.zookeeper_passwords = {user: secret(f"zk-{user}") for user in (BROKER, SUPER)}
        self.key_password = secret("key")
        self.realm_port = ReservedPort() if locks.has_realm else None
        self.realm = self._make_realm()
        self.password_file = self._write("password", self.passwords[DAEMON])
        self.zookeeper_password_file = self._write("zk-password", self.zookeeper_passwords[BROKER])
        self.key_password_file = self._write("key-password", self.key_password + "\n")
        self._admin = self.authority.issue(f"{ADMIN}-node")
        self._zookeeper = self.authority.issue("zookeeper")
        self.daemon_identity = self.issue_daemon()

    @property
    def secrets(self) -> frozenset[str]:
        """Every present password."""
        users = (*self.passwords.values(), *self.zookeeper_passwords.values())
        return frozenset({self.key_password, *users})

    def close(self) -> None:
        """Stop what was started for the keys."""
        if self.realm is not None and self.realm_port is not None:
            self.realm.close()
            self.realm_port.close()

    def _make_realm(self) -> Realm | None:
        """Start a Kerberos realm if one is needed."""
        if self.realm_port is None:
            return None
        realm = Realm(self._directory / "realm", self.realm_port.number)
        realm.start()
        self._tables = {
            name: realm.key_table(name) for name in (_BROKER_SERVICE, _ZOOKEEPER_SERVICE, _DAEMON)
        }
        return realm

    @property
    def daemon_key_table(self) -> Path:
        """The key table of the daemon."""
        return self._tables[_DAEMON]

    @property
    def context(self) -> ssl.SSLContext:
        """The TLS context of ``admin``."""
        return self.authority.client_context(self._admin)

    # --- the daemon ----------------------------------------------------------------------------

    def daemon_settings(self) -> dict[str, str]:
        """Return the settings of the daemon by environment variable."""
        locks, own = self._locks, self.daemon_identity
        given: dict[str, object] = {"security_protocol": locks.protocol}
        if locks.has_tls:
            given["ssl_cafile"] = self.authority.file
        if locks.by_certificate:
            given["ssl_certfile"], given["ssl_keyfile"] = own.certificate, own.key
            given["ssl_password_file"] = self.key_password_file
        if locks.mechanism is not None:
            given["sasl_mechanism"] = locks.mechanism
        if locks.mechanism not in {None, GSSAPI}:
            given["sasl_username"], given["sasl_password_file"] = DAEMON, self.password_file
        if locks.control_plane:
            given["control_plane_listener"], given["inter_broker_listener"] = CONTROL, CLIENTS
        if locks.zookeeper_sasl is not None:
            given["zookeeper_sasl_mechanism"] = locks.zookeeper_sasl
        if locks.zookeeper_sasl == DIGEST:
            given["zookeeper_sasl_username"] = BROKER
            given["zookeeper_sasl_password_file"] = self.zookeeper_password_file
        if locks.zookeeper_tls:
            given["zookeeper_tls"], given["zookeeper_tls_cafile"] = "true", self.authority.file
            given["zookeeper_tls_certfile"] = own.certificate
            given["zookeeper_tls_keyfile"] = own.key
            given["zookeeper_tls_password_file"] = self.key_password_file
        settings = {f"REASSIGNER_{name.upper()}": str(value) for name, value in given.items()}
        if self.realm is not None:
            settings |= self.realm.environment
            settings["KRB5_CLIENT_KTNAME"] = str(self._tables[_DAEMON])
            settings["KRB5CCNAME"] = f"FILE:{self._directory / 'tickets'}"
        return settings

    def issue_daemon(self, **options: Any) -> Identity:  # noqa: ANN401 - see issue
        """Issue the certificate of the daemon, over its former one; see ``issue``."""
        return self.authority.issue(f"{DAEMON}-node", password=self.key_password, **options)

    # --- the rig's own clients -----------------------------------------------------------------

    def client_security(self, user: str = ADMIN) -> dict[str, str]:
        """Return librdkafka's security settings of a user, by certificate always ``admin``."""
        locks = self._locks
        security = {"security.protocol": locks.protocol}
        if locks.has_tls:
            security["ssl.ca.location"] = str(self.authority.file)
        if locks.by_certificate:
            security["ssl.certificate.location"] = str(self._admin.certificate)
            security["ssl.key.location"] = str(self._admin.key)
        if locks.mechanism is not None:
            # The wheels of librdkafka have no GSSAPI.
            mechanism = SCRAM if locks.mechanism == GSSAPI else locks.mechanism
            security["sasl.mechanism"], security["sasl.username"] = mechanism, user
            security["sasl.password"] = self.passwords[user]
        return security

    def client_properties(self, user: str = ADMIN) -> Path:
        """Write the configuration of a Java client of a user; return its file."""
        settings = {"security.protocol": self._locks.protocol, **self._java("", user, self._admin)}
        if self._locks.mechanism is not None:
            settings["sasl.mechanism"] = self.client_security()["sasl.mechanism"]
        return self._write(f"{user}.properties", "".join(f"{k}={v}\n" for k, v in settings.items()))

    def zookeeper_client(self) -> dict[str, Any]:
        """Return the arguments of a kazoo client that is ``super``."""
        client: dict[str, Any] = {}
        if self._locks.zookeeper_sasl == DIGEST:
            password = self.zookeeper_passwords[SUPER]
            login = {"mechanism": DIGEST, "username": SUPER, "password": password}
            client["sasl_options"] = login
        if self._locks.zookeeper_sasl == GSSAPI:
            client["auth_data"] = [("digest", f"{SUPER}:{self.zookeeper_passwords[SUPER]}")]
        if self._locks.zookeeper_tls:
            client |= {"use_ssl": True, "check_hostname": True, "ca": str(self.authority.file)}
            client["certfile"] = str(self._admin.certificate)
            client["keyfile"] = str(self._admin.key)
        return client

    # --- servers -------------------------------------------------------------------------------

    def zookeeper_settings(self) -> dict[str, str]:
        """Return the settings of ZooKeeper."""
        settings: dict[str, str] = {}
        if self._locks.zookeeper_sasl is not None:
            provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
            settings |= {"authProvider.1": provider, "enforce.auth.enabled": "true"}
            settings["enforce.auth.schemes"] = "sasl,digest"
        if self._locks.zookeeper_sasl == GSSAPI:
            settings["kerberos.removeHostFromPrincipal"] = "true"
            settings["kerberos.removeRealmFromPrincipal"] = "true"
        if self._locks.zookeeper_tls:
            settings["ssl.keyStore.location"] = str(self._zookeeper.bundle)
            settings["ssl.trustStore.location"] = str(self.authority.file)
        return settings

    def zookeeper_properties(self) -> dict[str, str]:
        """Return the Java system properties of ZooKeeper."""
        properties: dict[str, str] = {}
        if self._locks.zookeeper_sasl is not None:
            properties[_LOGINS] = str(self.write_zookeeper_logins())
        if self._locks.zookeeper_sasl == GSSAPI:
            user = f"{SUPER}:{self.zookeeper_passwords[SUPER]}"
            digest = base64.b64encode(hashlib.sha1(user.encode()).digest()).decode()  # noqa: S324 - ZooKeeper's
            super_digest = "zookeeper.DigestAuthenticationProvider.superDigest"
            properties[super_digest] = f"{SUPER}:{digest}"
        properties |= self._realm_properties()
        if self._locks.zookeeper_tls:
            factory = "org.apache.zookeeper.server.NettyServerCnxnFactory"
            properties["zookeeper.serverCnxnFactory"] = factory
        return properties

    def change_zookeeper_password(self) -> None:
        """Write another password of the brokers and the daemon for ZooKeeper."""
        self.zookeeper_passwords[BROKER] = secret(f"zk-{BROKER}")
        self.zookeeper_password_file.write_text(self.zookeeper_passwords[BROKER])
        self.write_zookeeper_logins()
        self.write_broker_logins()

    def write_zookeeper_logins(self) -> Path:
        """Write the users of ZooKeeper, or its own login; it reads them when it starts."""
        if self._locks.zookeeper_sasl == GSSAPI:
            return self._write(
                "zookeeper.jaas", f"Server {{ {self._ticket(_ZOOKEEPER_SERVICE)} }};\n"
            )
        users = {f"user_{user}": password for user, password in self.zookeeper_passwords.items()}
        return self._write("zookeeper.jaas", f"Server {{ {_login(_MODULES[DIGEST], users)} }};\n")

    def broker_settings(self, broker_id: int) -> dict[str, str]:
        """Return the settings of a broker, whose certificate is issued here."""
        locks, own = self._locks, self.issue_broker(broker_id)
        settings = {
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER};User:{ADMIN}",
            "inter.broker.listener.name": CLIENTS,
        }
        for listener in locks.listeners:
            settings |= self._java(f"listener.name.{listener.lower()}.", BROKER, own)
        if locks.mechanism is not None:
            settings["sasl.enabled.mechanisms"] = locks.mechanism
        if locks.mechanism == GSSAPI:
            settings["sasl.enabled.mechanisms"] = f"{GSSAPI},{SCRAM}"
            settings["sasl.kerberos.service.name"] = BROKER
            settings["sasl.kerberos.principal.to.local.rules"] = _NAME_OF_PRINCIPAL
        if locks.mechanism is not None:
            settings["sasl.mechanism.inter.broker.protocol"] = locks.mechanism
        if locks.by_certificate:
            settings["ssl.client.auth"] = "required"
            settings["ssl.principal.mapping.rules"] = _NAME_OF_CERTIFICATE
        if locks.control_plane:
            settings["control.plane.listener.name"] = CONTROL
        if locks.zookeeper_sasl is not None:
            settings["zookeeper.set.acl"] = "true"
        if locks.zookeeper_tls:
            socket = "org.apache.zookeeper.ClientCnxnSocketNetty"
            settings |= {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.clientCnxnSocket": socket,
            }
            settings |= _stores("zookeeper.ssl.keystore", own.bundle)
            settings |= _stores("zookeeper.ssl.truststore", self.authority.file)
        return settings

    def broker_properties(self) -> dict[str, str]:
        """Return the Java system properties of brokers."""
        if self._locks.zookeeper_sasl is None:
            return self._realm_properties()
        return {_LOGINS: str(self.write_broker_logins()), **self._realm_properties()}

    def _realm_properties(self) -> dict[str, str]:
        if self.realm is None:
            return {}
        return {
            "java.security.krb5.conf": str(self.realm.configuration),
            "jdk.net.hosts.file": str(self.realm.hosts),
            "zookeeper.sasl.client.canonicalize.hostname": "false",
        }

    def _ticket(self, principal: str) -> str:
        """Return the login of a Java program with a key table."""
        options = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(self._tables[principal])}
        return _login(_MODULES[GSSAPI], {**options, "principal": f"{principal}@{REALM}"})

    def write_broker_logins(self) -> Path:
        """Write the login of the brokers to ZooKeeper; they read it when they start."""
        if self._locks.zookeeper_sasl == GSSAPI:
            return self._write("broker.jaas", f"Client {{ {self._ticket(_BROKER_SERVICE)} }};\n")
        user = {"username": BROKER, "password": self.zookeeper_passwords[BROKER]}
        return self._write("broker.jaas", f"Client {{ {_login(_MODULES[DIGEST], user)} }};\n")

    def issue_broker(self, broker_id: int, **options: Any) -> Identity:  # noqa: ANN401 - see issue
        """Issue the certificate of a broker, over its former one; see ``issue``."""
        return self.authority.issue(f"{BROKER}-node", file=f"broker-{broker_id}", **options)

    def _java(self, prefix: str, user: str, own: Identity) -> dict[str, str]:
        """Return the settings of Kafka's Java client, or of a listener, for one user."""
        locks = self._locks
        settings: dict[str, str] = {}
        if locks.has_tls:
            settings |= _stores(f"{prefix}ssl.truststore", self.authority.file)
        if locks.has_tls and (prefix or locks.by_certificate):
            settings[f"{prefix}ssl.keystore.type"] = "PKCS12"
            settings[f"{prefix}ssl.keystore.location"] = str(own.store)
            settings[f"{prefix}ssl.keystore.password"] = STORE_PASSWORD
            settings[f"{prefix}ssl.key.password"] = STORE_PASSWORD
        if prefix and locks.mechanism == GSSAPI:
            settings[f"{prefix}gssapi.sasl.jaas.config"] = self._ticket(_BROKER_SERVICE)
        if locks.mechanism is not None:
            mechanism = SCRAM if locks.mechanism == GSSAPI else locks.mechanism
            login = {"username": user, "password": self.passwords[user]}
            if prefix and mechanism == "PLAIN":
                login |= {f"user_{name}": password for name, password in self.passwords.items()}
            name = f"{prefix}{mechanism.lower()}." if prefix else ""
            settings[f"{name}sasl.jaas.config"] = _login(_MODULES[mechanism], login)
        return settings

    def _write(self, name: str, text: str) -> Path:
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path


def secret(name: str) -> str:
    """Return a new password that shows whose it is."""
    return f"{PLANTED}-{name}-{secrets.token_hex(8)}"


def scram_credential(password: str) -> str:
    """Return what Kafka keeps of a password for SCRAM-SHA-512 (RFC 5802)."""
    salt, stored, server, _ = derive_keys("sha512", password, secrets.token_bytes(16), ITERATIONS)
    parts = {"salt": salt, "stored_key": stored, "server_key": server}
    encoded = (f"{name}={base64.b64encode(part).decode()}" for name, part in parts.items())
    return ",".join([*encoded, f"iterations={ITERATIONS}"])


def _stores(prefix: str, file: Path) -> dict[str, str]:
    return {f"{prefix}.type": "PEM", f"{prefix}.location": str(file)}


def _login(module: str, options: Mapping[str, str]) -> str:
    return " ".join([module, "required", *(f'{k}="{v}"' for k, v in options.items())]) + ";"
