"""
The program that runs containers on this machine: Docker where its engine runs, else Podman.

Podman keeps its images below the user's cache directory, apart from those of the machine. Where
control groups cannot be delegated (sandboxes that mix version 1 and 2), it runs in a mount
namespace of its own with version 2 alone, and makes no control groups. The namespace hides the
names and addresses of other containers, too, which may be left from a machine that died. It is held
open by a process that outlives a killed test run: the next run finds the containers there and
removes them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from integration.rigs.caches import alone, cache_directory
from integration.rigs.kafka_tools import ToolResult
from integration.rigs.waiting import GaveUpError, eventually

PACKAGES: Final = ("podman", "crun", "netavark", "aardvark-dns", "iptables", "debootstrap")
"""What Podman takes on Debian."""
_PROGRAMS: Final = ("podman", "crun", "iptables", "nsenter", "unshare")
_UNIFIED: Final = Path("/sys/fs/cgroup/cgroup.controllers")
"""There where control groups are of version 2 alone."""
_PROBE: Final = "localhost/reassigner-probe:1"
_CONTAINERS_CONF: Final = """\
[containers]
{containers}
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{run}/libpod"
[network]
network_backend = "netavark"
network_config_dir = "{store}/networks"
"""
_WITHOUT_CONTROL_GROUPS: Final = """\
cgroups = "disabled"
default_ulimits = ["nofile=4096:8192", "nproc=4096:4096"]"""
_STORAGE_CONF: Final = """\
[storage]
driver = "overlay"
graphroot = "{store}/storage"
runroot = "{run}/storage"
"""
_NETWORKS: Final = "/run/containers/networks"
"""Where Podman that runs as root keeps names and addresses of containers; no setting moves it."""
_HOLD: Final = f"""\
umount -l -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup \
    && mkdir -p {_NETWORKS} && mount -t tmpfs none {_NETWORKS} && exec sleep infinity"""


class ContainersUnavailableError(RuntimeError):
    """Containers cannot run here; the message says why."""


class EngineError(RuntimeError):
    """The engine refused what it was asked to do."""


class Engine:
    """
    What Docker and Podman have in common.

    Args:
        name: How messages call it.
        program: Its command line up to the sub-command.
        compose: That of compose.
        environment: In addition to ours.
    """

    build_options: Sequence[str] = ()

    def __init__(
        self,
        name: str,
        program: Sequence[str],
        compose: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self._program = tuple(program)
        self._compose = tuple(compose)
        self._environment = dict(environment)

    def run(self, *arguments: str, within_s: float = 120.0, stdin: str = "") -> str:
        """
        Return what a sub-command wrote to its standard output.

        Raises:
            EngineError: It failed.
        """
        done = self.tried(*arguments, within_s=within_s, stdin=stdin)
        if done.code != 0:
            raise EngineError(f"{self.name} {' '.join(arguments)}: {done.stdout[-3000:]}")
        return done.stdout

    def tried(
        self,
        *arguments: str,
        within_s: float = 120.0,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> ToolResult:
        """Return exit code and output of a sub-command; with errors where it failed."""
        return self._call(self._program, arguments, within_s, stdin, environment or {})

    def compose(
        self, *arguments: str, environment: Mapping[str, str], within_s: float = 300.0
    ) -> str:
        """
        Return what a sub-command of compose wrote.

        Raises:
            EngineError: It failed.
        """
        done = self._call(self._compose, arguments, within_s, "", environment)
        if done.code != 0:
            raise EngineError(f"compose {' '.join(arguments)}: {done.stdout[-3000:]}")
        return done.stdout

    def has_image(self, image: str) -> bool:
        """Return whether an image is on this machine."""
        return self.tried("image", "inspect", image).code == 0

    def build(self, context: Path, tag: str, *options: str, **arguments: str) -> None:
        """
        Build an image from a context, with build arguments.

        Raises:
            EngineError: It failed.
        """
        pairs = [part for pair in arguments.items() for part in ("--build-arg", "=".join(pair))]
        everything = (*self.build_options, *options, *pairs, "--tag", tag, str(context))
        self.run("build", *everything, within_s=900.0)

    def import_root(self, root: Path, tag: str) -> None:
        """
        Make an image of a directory that is a root file system.

        Raises:
            EngineError: It failed.
        """
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            subprocess.run(["tar", "-C", str(root), "-cf", archive.name, "."], check=True)
            self.run("import", archive.name, tag, within_s=300.0)

    def is_healthy(self, container: str) -> bool:
        """Return whether the health check of a container passes."""
        status = self.tried("inspect", "--format", "{{.State.Health.Status}}", container)
        return status.stdout.strip() == "healthy"

    def probe(self) -> None:
        """
        Create and start a container that does nothing, on a network of its own.

        Raises:
            EngineError: It failed.
        """
        if not self.has_image(_PROBE):
            with tempfile.TemporaryDirectory() as name:
                _copy_program(Path("/bin/true"), Path(name))
                self.import_root(Path(name), _PROBE)
        network = "reassigner-probe"
        self.tried("network", "rm", "--force", network)
        self.run("network", "create", network)
        try:
            self.run("run", "--rm", "--network", network, _PROBE, "/bin/true")
        finally:
            self.tried("network", "rm", "--force", network)

    def close(self) -> None:
        """Give up what was made for the engine itself."""

    def _call(
        self,
        program: Sequence[str],
        arguments: Sequence[str],
        within_s: float,
        stdin: str,
        environment: Mapping[str, str],
    ) -> ToolResult:
        done = subprocess.run(
            [*program, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **self._environment, **environment},
            timeout=within_s,
            check=False,
        )
        # Podman complains about timers of systemd at each start; only failures are worth reading.
        return ToolResult(done.returncode, done.stdout + (done.stderr if done.returncode else ""))


class Docker(Engine):
    """Docker with its compose plugin."""

    def __init__(self) -> None:
        super().__init__("docker", ("docker",), ("docker", "compose"), {})


class Podman(Engine):
    """
    Podman with podman-compose.

    Args:
        private_mounts: Run in a mount namespace of its own, without control groups.
    """

    def __init__(self, *, private_mounts: bool) -> None:
        store = cache_directory("containers")
        run = _run_directory()
        store.mkdir(parents=True, exist_ok=True)
        run.mkdir(parents=True, exist_ok=True)
        places = {"store": store, "run": run}
        conf, storage = run / "containers.conf", run / "storage.conf"
        own = _WITHOUT_CONTROL_GROUPS if private_mounts else ""
        conf.write_text(_CONTAINERS_CONF.format(containers=own, **places))
        storage.write_text(_STORAGE_CONF.format(**places))
        self._holder = _hold_mounts(run / "mounts.pid") if private_mounts else None
        inside = ("nsenter", f"--mount=/proc/{self._holder}/ns/mnt", "--wd=.")
        before = () if self._holder is None else inside
        super().__init__(
            "podman in a mount namespace of its own" if private_mounts else "podman",
            (*before, "podman"),
            (*before, sys.executable, "-m", "podman_compose"),
            {"CONTAINERS_CONF": str(conf), "CONTAINERS_STORAGE_CONF": str(storage)},
        )
        # With Docker's format the health check is part of the image. Chroot isolation makes no
        # container for each line, and raises no resource limit.
        self.build_options = ("--format", "docker", "--isolation", "chroot")

    def is_healthy(self, container: str) -> bool:
        """Run the health check: the timers that would are systemd's."""
        return self.tried("healthcheck", "run", container).code == 0

    def close(self) -> None:
        """
        End the process that holds the mount namespace open, and with it the namespace.

        It stays while containers run: only from there they can be removed with their networks.
        """
        if self._holder is not None and not self.tried("ps", "--quiet").stdout.strip():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._holder, signal.SIGKILL)


@contextmanager
def running_engine() -> Iterator[Engine]:
    """
    Yield the engine of this machine, to one process at a time.

    Raises:
        ContainersUnavailableError: No container can be started here.
    """
    with alone(cache_directory("containers") / "lock"):
        engine = _find_engine()
        try:
            yield engine
        finally:
            engine.close()


def _find_engine() -> Engine:
    if shutil.which("docker") is not None and Docker().tried("compose", "version").code == 0:
        docker = Docker()
        if docker.tried("info").code == 0:
            docker.probe()
            return docker
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise ContainersUnavailableError(
            f"no Docker engine runs here, and Podman lacks {', '.join(missing)}"
            f" (Debian: apt-get install {' '.join(PACKAGES)})"
        )
    reasons: list[str] = []
    # Where control groups are mixed, Podman as it is fails halfway, with a network left behind.
    for private_mounts in (False, True) if _UNIFIED.exists() else (True, False):
        if private_mounts and os.geteuid() != 0:
            reasons.append("a mount namespace of its own takes root")
            continue
        try:
            engine = Podman(private_mounts=private_mounts)
        except OSError as error:
            reasons.append(str(error))
            continue
        try:
            engine.probe()
        except (EngineError, subprocess.TimeoutExpired) as error:
            reasons.append(f"{engine.name} starts no container: {error}")
            engine.close()
        else:
            return engine
    raise ContainersUnavailableError("\n".join(reasons))


def _run_directory() -> Path:
    if os.geteuid() == 0:
        return Path("/run/kafka-reassigner")
    return Path(os.environ.get("XDG_RUNTIME_DIR", tempfile.gettempdir())) / "kafka-reassigner"


def _hold_mounts(pid_file: Path) -> int:
    """
    Return the process that holds the mount namespace, started now or left by a killed run.

    Raises:
        OSError: The kernel does not permit it.
    """
    with contextlib.suppress(OSError, ValueError):
        held = int(pid_file.read_text())
        if _is_holding(held):
            return held
    # The shell leaves it behind, in a session of its own: Ctrl-C is for the orderly end.
    started = subprocess.run(
        ["sh", "-c", 'setsid unshare --mount sh -c "$1" >/dev/null 2>&1 & echo $!', "sh", _HOLD],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    holder = int(started.stdout)
    try:
        eventually(lambda: _is_holding(holder), within_s=5)
    except GaveUpError as error:
        raise OSError("control groups of version 2 cannot be mounted by themselves") from error
    pid_file.write_text(str(holder))
    return holder


def _is_holding(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        elsewhere = Path(f"/proc/{pid}/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
    except OSError:
        return False
    return elsewhere and command == b"sleep\0infinity\0"


def _copy_program(program: Path, root: Path) -> None:
    """Copy a program and the libraries that it is linked with to where they are found."""
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    libraries = [Path(word) for word in linked.stdout.split() if word.startswith("/")]
    for file in (program, *libraries):
        copy = root / file.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
