"""Real clusters behind locks: ``locks`` says which, and holds the keys."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kazoo.security import make_acl

from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.kafka_tools import ToolResult
from integration.rigs.locks import (
    ADMIN,
    BROKER,
    CLIENTS,
    GSSAPI,
    SCRAM,
    Keys,
    Locks,
    scram_credential,
    secret,
)
from integration.rigs.plans import configure
from integration.rigs.servers import BrokerOptions, ZooKeeperServer

ACLS: Final = "kafka.admin.AclCommand"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedOptions(ClusterOptions):
    """The shape of a locked cluster."""

    brokers: int = 3
    locks: Locks = field(default_factory=Locks)


class LockedCluster(Cluster):
    """
    A cluster behind locks.

    Attributes:
        keys: The keys to it.
    """

    def __init__(self, directory: Path, options: ClusterOptions) -> None:
        assert isinstance(options, LockedOptions), options
        self._daemons: list[Daemon] = []
        self.locks = options.locks
        self.keys = Keys(directory / "keys", self.locks)
        self.zookeeper_client = self.keys.zookeeper_client()
        self.client_security = self.keys.client_security()
        self.daemon_settings = self.keys.daemon_settings()
        super().__init__(directory, options)

    def make_daemon(self, name: str, *options: str) -> Daemon:
        """Return a daemon with the keys; it is not started."""
        made = Daemon(
            self.zookeeper_connect,
            self.directory,
            *options,
            name=name,
            settings=self.daemon_settings,
        )
        self._daemons.append(made)
        return made

    def close(self) -> None:
        """Kill the daemons and the realm, too."""
        for daemon in self._daemons:
            daemon.kill()
            daemon.port.close()
        super().close()
        self.keys.close()

    def reassigner(self, *arguments: str) -> ToolResult:
        """Run a command of the reassigner with the daemon's keys."""
        settings = {"REASSIGNER_ZOOKEEPER": self.zookeeper_connect, **self.daemon_settings}
        return run_reassigner(*arguments, settings=settings)

    def run_admin_tool(self, main_class: str, *arguments: str) -> ToolResult:
        """Run a stock tool as ``admin``."""
        return self.run_tool_as(ADMIN, main_class, *arguments)

    def run_tool_as(self, user: str, main_class: str, *arguments: str) -> ToolResult:
        """Run a stock tool as a user."""
        config = ("--command-config", str(self.keys.client_properties(user)))
        return super().run_admin_tool(main_class, *config, *arguments)

    def allow(self, user: str, *rights: str) -> None:
        """Give rights to a user, as ``kafka-acls`` does."""
        self._change_rights("--add", user, rights)

    def withdraw(self, user: str, *rights: str) -> None:
        """Withdraw rights that were given to a user."""
        self._change_rights("--remove", user, rights)

    def _change_rights(self, how: str, user: str, rights: tuple[str, ...]) -> None:
        principal = ("--allow-principal", f"User:{user}")
        said = self.run_admin_tool(ACLS, how, *principal, *rights, "--force")
        assert said.code == 0, said.stdout

    def serve_clients(self) -> tuple[str, ...]:
        """Return the options of a daemon whose endpoint clients see; issue its certificate."""
        own = self.keys.authority.issue("endpoint") if self.locks.has_tls else None
        shown = (
            ()
            if own is None
            else ("--endpoint-certfile", str(own.certificate), "--endpoint-keyfile", str(own.key))
        )
        return ("--inter-broker-listener", CLIENTS, *shown)

    def change_password(self, user: str) -> None:
        """Give a user of the brokers another password (SCRAM), as ``kafka-configs`` does."""
        password = self.keys.passwords[user] = secret(user)
        configure(self, f"users/{user}", {SCRAM: scram_credential(password)})

    def change_zookeeper_password(self) -> None:
        """
        Give the brokers and the daemon another password for ZooKeeper.

        ZooKeeper and brokers read theirs when they start, the daemon when it connects.
        """
        self.keys.change_zookeeper_password()
        for broker in self.brokers.values():
            broker.kill()
        self.zookeeper.restart()
        self.start_brokers(*self.brokers)

    def _make_zookeepers(self) -> list[ZooKeeperServer]:
        server = ZooKeeperServer(
            self.directory / "zookeeper",
            extra=self.keys.zookeeper_settings(),
            properties=self.keys.zookeeper_properties(),
            tls=self.keys.context if self.locks.zookeeper_tls else None,
            client=self.zookeeper_client,
        )
        return [server]

    def _broker_options(self, broker_id: int) -> BrokerOptions:
        options = self.options.broker
        return replace(
            options,
            listeners=dict.fromkeys(self.locks.listeners, self.locks.protocol),
            tls=self.keys.context if self.locks.has_tls else None,
            properties={**self.keys.broker_properties(), **options.properties},
            extra={**self.keys.broker_settings(broker_id), **options.extra},
        )

    def _before_brokers(self) -> None:
        """Write users as ``kafka-configs --zookeeper`` does, with its permissions."""
        if self.locks.mechanism not in {SCRAM, GSSAPI}:
            return
        own = make_acl("sasl", BROKER, all=True)
        private = None if self.locks.zookeeper_sasl is None else [own]
        shown = private and [own, make_acl("world", "anyone", read=True)]
        self.zk.create("/config", b"", acl=shown)
        self.zk.create("/config/users", b"", acl=private)
        for user, password in self.keys.passwords.items():
            document = {"version": 1, "config": {SCRAM: scram_credential(password)}}
            self.zk.create(f"/config/users/{user}", json.dumps(document).encode(), acl=private)
