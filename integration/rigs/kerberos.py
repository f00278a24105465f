"""
A Kerberos realm of its own for one cluster: a key distribution centre and its key tables.

Everything is in one directory; neither the machine's configuration nor its tickets are used.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from integration.rigs.processes import ChildProcess
from integration.rigs.reserved_ports import LOCALHOST

REALM: Final = "LOCKED.TEST"
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local")
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing_programs() -> list[str]:
    """Return the programs of a realm that this machine lacks (Debian: krb5-kdc)."""
    return [each for each in PROGRAMS if shutil.which(each, path=_PATH) is None]


class Realm:
    """
    A realm whose centre runs until ``close``.

    Args:
        directory: Receives its database, its configuration and its key tables.
        port: Of the centre, on the loopback interface (UDP and TCP).

    Attributes:
        configuration: Of programs that use the realm.
        hosts: The names of addresses for Java, whose clients put the name of the server's address
            into its principal: the address itself, which other clients use.
    """

    def __init__(self, directory: Path, port: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.configuration = directory / "krb5.conf"
        self.configuration.write_text(_CONFIGURATION.format(realm=REALM, host=LOCALHOST, port=port))
        self.hosts = directory / "hosts"
        self.hosts.write_text(f"{LOCALHOST} {LOCALHOST}\n")
        (directory / "kdc.conf").write_text(
            _CENTRE.format(realm=REALM, host=LOCALHOST, port=port, directory=directory)
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", secrets.token_hex(16))
        program = shutil.which("krb5kdc", path=_PATH) or "krb5kdc"
        self._centre = ChildProcess(
            "key distribution centre",
            [program, "-n"],
            log=directory / "krb5kdc.log",
            environment=self._environment,
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that make a program use this realm."""
        return {"KRB5_CONFIG": str(self.configuration)}

    def start(self) -> None:
        """Start the centre."""
        self._centre.start()

    def close(self) -> None:
        """Stop the centre."""
        self._centre.kill()

    def key_table(self, principal: str) -> Path:
        """Make a principal, given without the realm, and a key table for it alone."""
        table = self._directory / f"{principal.replace('/', '-')}.keytab"
        for query in (f"addprinc -randkey {principal}", f"ktadd -k {table} {principal}"):
            self._run("kadmin.local", "-r", REALM, "-q", query)
        return table

    def change_key(self, table: Path) -> None:
        """Give the principal of a key table another key, which the new table has alone."""
        principal = table.stem.replace("-", "/")
        table.unlink()
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {table} {principal}")

    @property
    def logins(self) -> int:
        """How often anyone asked for a ticket-granting ticket."""
        return self._centre.log.read_text().count("AS_REQ (")

    @property
    def _environment(self) -> dict[str, str]:
        profile = str(self._directory / "kdc.conf")
        return {"PATH": _PATH, **self.environment, "KRB5_KDC_PROFILE": profile}

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [shutil.which(program, path=_PATH) or program, *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


_CONFIGURATION: Final = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = {host}:{port}
    }}
"""
_CENTRE: Final = """\
[kdcdefaults]
    kdc_listen = {host}:{port}
    kdc_tcp_listen = {host}:{port}
[realms]
    {realm} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        acl_file = {directory}/kadm5.acl
        max_life = 1h
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    kdc = STDERR
"""
