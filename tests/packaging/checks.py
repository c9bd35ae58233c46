"""Checks of each artefact that need no privileges: archive, SBOM, licences, Debian package, npm, PyPI."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

from harness.clients import CLIENTS, Place, play

ROOT = Path(__file__).resolve().parent.parent.parent
# Debian 12 has 2.36, RHEL 9 has 2.34.
OLDEST_GLIBC = (2, 34)
LICENCES = {"0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
            "CDLA-Permissive-2.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib"}
# Limit on the exposure of the unit in `systemd-analyze security`, in tenths.
EXPOSURE = 20
UV = "uv==0.13.9"


def run(*words, **more):
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 300, "check": True, **more}
    return subprocess.run([str(word) for word in words], **more).stdout


def own_environment(folder):
    """Returns an environment without our settings, with the caches of package managers in the scratch folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKGATE_", "MCP_", "VIRTUAL_ENV"))}
    return {**env, "npm_config_cache": str(folder / "npm-cache"), "UV_CACHE_DIR": str(folder / "uv-cache")}


def unpack(scene):
    folder = scene.scratch / "archive"
    with tarfile.open(scene.one("lockgate-*.tar.gz")) as tar:
        tar.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    return top


def archive(scene):
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=scene.out)
    top = unpack(scene)
    version = run(top / "lockgate", "--version").split()[1]
    assert top.name.startswith(f"lockgate-{version}-"), top.name
    for name in ("LICENSE", "THIRD-PARTY.txt", "README.md", "lockgate.cdx.json", "lockgate.service"):
        assert (top / name).stat().st_size > 500, name
    listed = run(top / "lockgate", "man", "--list").split("\n")
    pages = sorted((top / "man").iterdir())
    assert len(pages) == len(listed[:-1]) > 25, f"{len(pages)} pages"
    assert run("mandoc", "-T", "lint", "-W", "error", *pages) == "", "manual pages without errors"
    bash = f"set -e; source '{top}/completions/lockgate'; complete -p lockgate; COMP_WORDS=(lockgate conf); COMP_CWORD=1; "
    assert run("bash", "-c", bash + "_lockgate lockgate conf lockgate; echo ${COMPREPLY[@]}").split()[-1] == "config"
    run("bash", "-n", top / "completions/lockgate")


def links_lead_somewhere(folder, root):
    """Checks that every link of the documents to a file resolves; `root` is the start of absolute links."""
    pages = [folder / "README.md", *sorted((folder / "docs").glob("*.md"))]
    assert len(pages) >= 20, pages
    count = 0
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                count += 1
                place = root / target.lstrip("/") if target.startswith("/") else page.parent / target
                assert place.is_file(), f"{page.name}: {target}"
    assert count > 50, count


def documents(scene):
    """docs/ and policies/ are in the archive, the Debian package and the image, without broken links."""
    top = unpack(scene)
    links_lead_somewhere(top, top)
    root = scene.scratch / "documents"
    run("dpkg-deb", "--extract", scene.one("lockgate_*.deb"), root)
    links_lead_somewhere(root / "usr/share/doc/lockgate", root)
    image = scene.out / "image"
    steps = dict(line.split()[1:] for line in (image / "Containerfile").read_text().splitlines() if line.startswith("COPY "))
    laid = scene.scratch / "laid"
    for source in ("doc", "policies"):
        shutil.copytree(image / source, laid / steps[source].lstrip("/"))
    links_lead_somewhere(laid / "usr/share/doc/lockgate", laid)
    for policies in (top / "policies", root / "usr/share/lockgate/policies", laid / "usr/share/lockgate/policies"):
        assert " passed, 0 failed" in run(top / "lockgate", "policy", "test", policies / "cases"), policies


def origin(scene):
    """Every package has the licence and the addresses of Cargo.toml."""
    about = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    with tarfile.open(scene.one("lockgate-*.tgz")) as tar:
        package = json.load(tar.extractfile("package/package.json"))
    assert (package["license"], package["homepage"]) == (about["license"], about["homepage"]), package
    assert package["repository"] == {"type": "git", "url": about["repository"]}, package
    with zipfile.ZipFile(scene.one("lockgate-*.whl")) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        told = wheel.read(name).decode()
    for line in (f"License-Expression: {about['license']}", f"Project-URL: Homepage, {about['homepage']}",
                 f"Project-URL: Repository, {about['repository']}"):
        assert f"\n{line}\n" in told, told[:900]
    assert f"Homepage: {about['homepage']}\n" in run("dpkg-deb", "--field", scene.one("lockgate_*.deb"))


def signature(scene):
    """SHA256SUMS is signed with a minisign key and verifies as in docs/install.md; a changed file does not."""
    folder = scene.scratch / "signed"
    folder.mkdir()
    run("minisign", "-G", "-W", "-s", folder / "key", "-p", folder / "lockgate.pub")
    build = [ROOT / "packaging/build", "--out", folder / "out", "--program", scene.source, "npm", "--sign"]
    run(*build, folder / "key")
    page = (ROOT / "docs/install.md").read_text()
    verify = re.search(r"^minisign -V.*$", page, re.M).group()
    shutil.copy(folder / "lockgate.pub", folder / "out")
    told = run("sh", "-ec", f"{verify}\nsha256sum --check --ignore-missing SHA256SUMS", cwd=folder / "out")
    assert "signature" in told and ".tgz: OK" in told, told
    with (folder / "out/SHA256SUMS").open("a") as sums:
        sums.write("\n")
    assert "failed" in run("sh", "-ec", verify, cwd=folder / "out", check=False)
    assert "no secret key of minisign" in run(*build, folder / "lockgate.pub.missing", check=False)


def profiled(scene):
    """--profiled builds the program, so it excludes another; without llvm-profdata of rustc's LLVM it and --record end before the build."""
    build = [ROOT / "packaging/build", "--profiled", "--out", scene.scratch / "profiled"]
    assert "excludes --program" in run(*build, "--program", scene.source, check=False)
    # A rustc of an LLVM version for which there is no tool.
    folder = scene.scratch / "rustc"
    folder.mkdir()
    rustc = folder / "rustc"
    rustc.write_text('#!/bin/sh\ncase $1 in -vV) echo "host: x86_64-unknown-linux-gnu\nLLVM version: 3.0" ;; *) echo /nowhere ;; esac\n')
    rustc.chmod(0o755)
    for option in ("--profiled", "--record"):
        told = run(ROOT / "packaging/build", option, check=False, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        assert "llvm-profdata of LLVM 3 is not installed; `rustup component add llvm-tools` installs it" in told, told


def release_profile(scene):
    """Release builds pass the profile of calls to the crates that are optimised for speed, if this version of rustc recorded it."""
    top = scene.scratch / "wrapper"
    (top / ".cargo").mkdir(parents=True)
    (top / "gateway").mkdir()
    wrapper = shutil.copy(ROOT / ".cargo/rustc", top / ".cargo/rustc")
    rustc = top / "rustc"
    rustc.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "rustc 1.2.3 (0 2000-01-01)" || echo "$@"\n')
    rustc.chmod(0o755)
    crate = ["--crate-name", "tokio", "-C", "opt-level=2", "--out-dir", "/t/release/deps", "-C", "metadata=0"]
    assert "profile-use" not in run(wrapper, rustc, *crate)
    (top / "gateway/calls-1.2.3.profdata").touch()
    assert f"-Cprofile-use={top}/.cargo/../gateway/calls-1.2.3.profdata" in run(wrapper, rustc, *crate)
    for other in ([*crate[:3], "opt-level=z", *crate[4:]], [*crate[:5], "/t/debug/deps", *crate[6:]], [*crate, "-Cinstrument-coverage"]):
        assert "profile" not in run(wrapper, rustc, *other)
    assert "profile-use" not in run(wrapper, rustc, *crate, "-Cprofile-generate=/x")
    recording = run(wrapper, rustc, *crate, env={**os.environ, "LOCKGATE_RECORD": "/tmp/calls"})
    assert "-Cprofile-generate=/tmp/calls" in recording and "profile-use" not in recording


def glibc(scene):
    symbols = run("objdump", "-T", unpack(scene) / "lockgate")
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([0-9.]+)", symbols)}
    assert max(versions) <= OLDEST_GLIBC, f"needs glibc {max(versions)}"
    needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", unpack(scene) / "lockgate")))
    extra = needed - {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert not extra, f"needs {extra}"


def sbom(scene):
    top = unpack(scene)
    bom = json.loads((top / "lockgate.cdx.json").read_text())
    digest = hashlib.sha256((top / "lockgate").read_bytes()).hexdigest()
    assert bom["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    refs = {part["bom-ref"] for part in bom["components"]} | {bom["metadata"]["component"]["bom-ref"]}
    assert len(refs) == len(bom["components"]) + 1 > 200, "each crate once"
    known = {edge["ref"] for edge in bom["dependencies"]}
    used = {to for edge in bom["dependencies"] for to in edge["dependsOn"]}
    assert known == refs and used <= refs, "every crate has its dependencies, and all of them are there"
    foreign = [part for part in bom["components"] if not part["name"].startswith("lockgate")]
    assert all(part.get("hashes") and part.get("licenses") for part in foreign), "checksums and licences"
    names = {part["name"] for part in foreign}
    assert {"tokio", "rustls", "clap"} <= names and not {"proptest", "rmcp", "rcgen"} & names, "no crate of the tests"
    tree = run("cargo", "tree", "--locked", "-p", "lockgate", "-e", "normal,no-proc-macro", "--prefix", "none", "-f", "{p}",
               "--target", re.search(r"host: (\S+)", run("rustc", "-vV")).group(1), cwd=ROOT)
    told = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip() and not line.startswith(("lockgate", "warning"))}
    ours = {(part["name"], f"v{part['version']}") for part in foreign}
    assert told <= ours, f"cargo tree knows more: {sorted(told - ours)[:5]}"
    venv = environment(scene, "cyclonedx", "cyclonedx-python-lib[json-validation]==11.12.0")
    check = ("import sys; from cyclonedx.validation.json import JsonStrictValidator as V; from cyclonedx.schema import SchemaVersion as S;"
             "wrong = V(S.V1_6).validate_str(open(sys.argv[1]).read()); sys.exit(str(wrong) if wrong else 0)")
    run(venv / "bin/python", "-c", check, top / "lockgate.cdx.json")


def licences(scene):
    top = unpack(scene)
    text = (top / "THIRD-PARTY.txt").read_text()
    bom = json.loads((top / "lockgate.cdx.json").read_text())
    for part in bom["components"]:
        if part["name"].startswith("lockgate"):
            continue
        assert f"\n{part['name']} {part['version']}: " in text, part["name"]
        expression = part["licenses"][0]["expression"]
        unknown = {word.strip(" ()") for word in re.split(r" OR | AND ", expression)} - LICENCES
        assert not unknown, f"{part['name']}: {unknown}"
    assert text.count("Permission is hereby granted") > 20 and "TERMS AND CONDITIONS FOR USE" in text


def environment(scene, name, *packages):
    """Returns a virtual environment in the cache, created once for these versions."""
    folder = scene.cache / "packaging" / name
    mark = folder / "installed"
    if not mark.is_file() or mark.read_text() != " ".join(packages):
        run(sys.executable, "-m", "venv", "--clear", folder)
        run(folder / "bin/pip", "install", "-q", "--disable-pip-version-check", *packages)
        mark.write_text(" ".join(packages))
    return folder


def called_by_clients(scene, command, folder, kinds, env=()):
    """Real clients start this command, list tools and call a tool. Its store is in the scratch folder: the user's may be newer."""
    env = [("XDG_DATA_HOME", str(scene.scratch / "data")), *env]
    script = {"steps": [{"do": "list_tools"}, {"do": "call_tool", "name": "example__echo", "arguments": {"text": "packed"}}]}
    for kind in kinds:
        here = os.getcwd()
        os.chdir(folder)
        try:
            reports, err = play(CLIENTS[kind], scene.cache, Place(command=tuple(map(str, command)), env=tuple(env)), script)
        finally:
            os.chdir(here)
        told = json.dumps(reports)
        assert len(reports) >= 3 and all(report["ok"] for report in reports), f"{kind}: {told[:800]} {err}"
        assert '"text": "packed"' in told or '\\"packed\\"' in told, f"{kind}: {told[-800:]}"


def npm(scene):
    folder = scene.scratch / "npm"
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true}')
    env = own_environment(scene.scratch)
    run("npm", "install", "--offline", "--no-audit", "--no-fund", scene.one("lockgate-*.tgz"), cwd=folder, env=env)
    told = run("npx", "--offline", "lockgate", "--version", cwd=folder, env=env)
    assert re.fullmatch(r"lockgate \d\S+", told.splitlines()[-1]), told
    called_by_clients(scene, ["npx", "--offline", "lockgate", "stdio"], folder, ["ts-modern", "sdk-legacy"])
    # Like from a client's own configuration, outside any project: from the packed file, into a cache.
    away = scene.scratch / "npx"
    away.mkdir()
    words = ["npx", "--yes", "--offline", "--package", scene.one("lockgate-*.tgz"), "lockgate", "stdio"]
    called_by_clients(scene, words, away, ["py-auto"], [("npm_config_cache", str(scene.scratch / "npm-cache"))])
    installed = folder / "node_modules/lockgate"
    assert (installed / "THIRD-PARTY.txt").is_file() and (installed / "LICENSE").is_file()


def pypi(scene):
    wheel = scene.one("lockgate-*.whl")
    assert f"manylinux_{OLDEST_GLIBC[0]}_{OLDEST_GLIBC[1]}_" in wheel.name, wheel.name
    with zipfile.ZipFile(wheel) as packed:
        assert packed.testzip() is None
    venv = scene.scratch / "pip"
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", wheel)
    assert "lockgate-" not in run(venv / "bin/pip", "check"), "nothing is missing"
    files = run(venv / "bin/pip", "show", "-f", "lockgate")
    assert "licenses/THIRD-PARTY.txt" in files and "sboms/lockgate.cdx.json" in files, files
    called_by_clients(scene, [venv / "bin/lockgate", "stdio"], scene.scratch, ["py-modern", "py-legacy"])
    run(venv / "bin/pip", "uninstall", "-q", "-y", "lockgate")
    assert not (venv / "bin/lockgate").exists()
    uv = environment(scene, "uv", UV)
    words = [uv / "bin/uvx", "--offline", "--no-config", "--from", wheel, "lockgate", "stdio"]
    called_by_clients(scene, words, scene.scratch, ["ts-auto"], [("UV_CACHE_DIR", str(scene.scratch / "uv-cache"))])


def deb(scene):
    package = scene.one("lockgate_*.deb")
    fields = run("dpkg-deb", "--field", package)
    version = run(unpack(scene) / "lockgate", "--version").split()[1]
    assert f"Version: {version}\n" in fields and f"libc6 (>= {OLDEST_GLIBC[0]}.{OLDEST_GLIBC[1]})" in fields, fields
    owners = {line.split()[1] for line in run("dpkg-deb", "--contents", package).splitlines()}
    assert owners == {"root/root"}, owners
    root = scene.scratch / "deb"
    run("dpkg-deb", "--extract", package, root)
    assert (root / "usr/share/man/man1/lockgate-config-show.1.gz").is_file()
    config = root / "etc/lockgate/lockgate.yaml"
    assert "ok: " in run(root / "usr/bin/lockgate", "check", "--config", config)
    unit = root / "lib/systemd/system/lockgate.service"
    here = scene.scratch / "lockgate.service"
    here.write_text(unit.read_text().replace("/usr/bin/lockgate", str(root / "usr/bin/lockgate")))
    told = run("systemd-analyze", "verify", "--man=no", here, check=False)
    about = [line for line in told.splitlines() if "lockgate" in line]
    assert not about, about
    marks = run("systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE}", unit, check=False)
    mark = re.search(r"Overall exposure level for lockgate.service: ([0-9.]+)", marks)
    assert mark and float(mark.group(1)) * 10 <= EXPOSURE, marks[-600:]


def same_bytes(scene):
    """The same program and commit give the same bytes."""
    other = scene.scratch / "again"
    run(ROOT / "packaging/build", "--out", other, "--program", scene.source, "npm")
    for line in (other / "SHA256SUMS").read_text().splitlines():
        assert line in (scene.out / "SHA256SUMS").read_text(), line


ALL = {"archive": archive, "documents": documents, "origin": origin, "signature": signature, "profiled": profiled,
       "profile of release builds": release_profile, "glibc": glibc, "sbom": sbom, "licences": licences, "deb, unpacked": deb, "npm, with real clients": npm,
       "pypi, with real clients": pypi, "the same bytes again": same_bytes}
