"""
The images that the compose file names, or stand-ins for them where no registry can be reached.

A stand-in is Debian with the same server in it, taking the same variables. Its name says what it
is; the name is given to the compose file by its variable. An image that a variable of the
environment names is taken as it is.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from integration.containers.engines import ContainersUnavailableError, Engine
from integration.rigs.kafka_jars import jars_directory

ROOT: Final = Path(__file__).resolve().parents[2]
SUITE: Final = "bookworm"
RECIPES: Final = Path(__file__).with_name("standins")
_STANDINS: Final = {
    "PYTHON_IMAGE": "python",
    "ZOOKEEPER_IMAGE": "kafka",
    "KAFKA_IMAGE": "kafka",
    "PROMETHEUS_IMAGE": "prometheus",
}
_NAMED: Final = re.compile(r"\$\{(\w+_IMAGE):-([^}]+)\}")
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
OWN: Final = "localhost/kafka-reassigner:test"
"""The daemon's image that tests build."""

log = logging.getLogger("containers")


def images(engine: Engine) -> dict[str, str]:
    """
    Return the image for each variable of the compose file, all of them on this machine.

    A service whose variable is missing in the result has no image here.

    Raises:
        ContainersUnavailableError: A stand-in takes a program or a right that is missing.
        EngineError: An image could not be built.
    """
    found = base_images(engine)
    return found | {"DAEMON_IMAGE": build_own(engine, found["PYTHON_IMAGE"])}


def base_images(engine: Engine) -> dict[str, str]:
    """
    Return the images that are not ours; see ``images``.

    Raises:
        ContainersUnavailableError: A stand-in takes a program or a right that is missing.
        EngineError: A stand-in could not be built.
    """
    named: dict[str, str] = dict(_NAMED.findall((ROOT / "docker-compose.yml").read_text()))
    named.pop("DAEMON_IMAGE")
    found: dict[str, str] = {}
    reachable = True
    for variable, default in named.items():
        image = os.environ.get(variable) or default
        if engine.has_image(image) or (reachable and _pulled(engine, image)):
            found[variable] = image
        elif os.environ.get(variable):
            raise ContainersUnavailableError(f"{variable}: {image} cannot be pulled")
        else:
            reachable = False
            if variable in _STANDINS:
                found[variable] = standin(engine, _STANDINS[variable])
            log.info("%s: %s", variable, found.get(variable, "left out, there is no stand-in"))
    return found


def build_own(engine: Engine, python: str, tag: str = OWN, *options: str) -> str:
    """
    Build the daemon's image on this Python image; return its name.

    Raises:
        EngineError: It failed.
    """
    file = str(ROOT / "deploy" / "Dockerfile")
    engine.build(ROOT, tag, "--file", file, *options, PYTHON_IMAGE=python)
    log.info("built %s on %s", tag, python)
    return tag


def standin(
    engine: Engine, name: str, base: str | None = None, files: Mapping[str, Path] | None = None
) -> str:
    """
    Return a stand-in, built if its recipe is new.

    Args:
        engine: Which builds.
        name: The directory of its recipe.
        base: The image below; a minimal Debian if none is named.
        files: Further files of its context, by the name that they have there.

    Raises:
        ContainersUnavailableError: It takes a program or a right that is missing.
        EngineError: It could not be built.
    """
    below = base or _debian(engine)
    extra = dict(files or {})
    if name == "kafka":
        extra["jars"] = jars_directory()
    recipe = RECIPES / name
    key = _key(recipe, engine.run("image", "inspect", "--format", "{{.Id}}", below), extra)
    tag = f"localhost/reassigner-standin/{name}:{key}"
    if not engine.has_image(tag):
        with tempfile.TemporaryDirectory() as directory:
            context = Path(directory) / "context"
            shutil.copytree(recipe, context)
            for called, source in extra.items():
                copy = shutil.copytree if source.is_dir() else shutil.copy
                copy(source, context / called)
            engine.build(context, tag, "--file", str(context / "Containerfile"), BASE=below)
        log.info("built the stand-in %s", tag)
    return tag


def _debian(engine: Engine) -> str:
    """Return a minimal Debian, with the certificates that this machine trusts in a file."""
    tag = f"localhost/reassigner-standin/debian:{SUITE}"
    if engine.has_image(tag):
        return tag
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise ContainersUnavailableError(
            "no registry can be reached, and stand-ins take root and debootstrap"
        )
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "root"
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", SUITE, str(root)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode != 0:
            raise ContainersUnavailableError(f"debootstrap failed: {done.stdout[-1000:]}")
        if _CERTIFICATES.exists():
            shutil.copy(_CERTIFICATES, root / "etc" / "certificates-of-the-machine.crt")
        engine.import_root(root, tag)
    log.info("built the stand-in %s", tag)
    return tag


def _pulled(engine: Engine, image: str) -> bool:
    log.info("pulling %s", image)
    try:
        done = engine.tried("pull", "--quiet", image, within_s=600.0)
    except subprocess.TimeoutExpired:
        return False
    if done.code != 0:
        log.info("no registry gives %s: %s", image, done.stdout.strip().splitlines()[-1:])
    return done.code == 0


def _key(recipe: Path, base: str, extra: Mapping[str, Path]) -> str:
    digest = hashlib.sha256(base.encode())
    for file in sorted(recipe.iterdir()):
        digest.update(file.read_bytes())
    for name, source in sorted(extra.items()):
        digest.update(name.encode())
        digest.update(source.name.encode() if source.is_dir() else source.read_bytes())
    return digest.hexdigest()[:12]
