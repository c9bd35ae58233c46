"""The artefacts: each function gets the kit and returns the created file or folder. Equal kits give equal bytes."""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from datetime import datetime, timezone
from email.utils import formatdate
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SUMMARY = "One gate in front of many MCP servers, across both protocol eras"
# The registries' names of the machines.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
NODE = {"x86_64": "x64", "aarch64": "arm64"}
DOCUMENTS = ("README.md", "CHANGELOG.md", "LICENSE")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def documents(policies):
    """Returns README.md, docs/ and policies/ as name → bytes, for a package with `policies` beside or above the documents. Links to
    files outside the package become plain text."""
    shown = {"README.md": ROOT / "README.md"} | {str(path.relative_to(ROOT)): path for path in sorted(ROOT.glob("docs/**/*")) if path.is_file()}
    files = {}
    for name, path in shown.items():
        data = path.read_bytes()
        files[name] = LINK.sub(lambda link: kept(link, path, policies), data.decode()).encode() if path.suffix == ".md" else data
    return files


def kept(link, page, policies):
    words, target = link.groups()
    place, mark, part = target.partition("#")
    if "://" in target or not place:
        return link.group()
    path = (page.parent / place).resolve().relative_to(ROOT)
    if path.parts[0] == "policies":
        return link.group() if policies is None else f"[{words}]({policies}/{Path(*path.parts[1:])}{mark}{part})"
    is_here = path.parts[0] == "docs" or str(path) in DOCUMENTS
    return link.group() if is_here and (ROOT / path).is_file() else words


def examples_of_policies():
    """Returns all of policies/: the files, their cases and schemas."""
    return {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted(ROOT.glob("policies/**/*")) if path.is_file()}


def papers(kit):
    """Returns the files beside the program in every artefact, as name → bytes."""
    files = {name: (ROOT / name).read_bytes() for name in DOCUMENTS}
    files["THIRD-PARTY.txt"] = kit.licences.encode()
    files["lockgate.cdx.json"] = (json.dumps(kit.bom, indent=1) + "\n").encode()
    return files


def write_tar(path, epoch, files):
    """Writes a .tar.gz of name → (bytes, mode), owned by root, with the same time for all files."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, epoch) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, (data, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode, epoch
            tar.addfile(entry, io.BytesIO(data))
    return path


def archive(kit):
    top = f"lockgate-{kit.version}-{kit.target}"
    files = {f"{top}/{name}": (data, 0o644) for name, data in papers(kit).items()}
    files[f"{top}/lockgate"] = (kit.program.read_bytes(), 0o755)
    for folder in ("man", "completions"):
        for path in (kit.stage / folder).iterdir():
            files[f"{top}/{folder}/{path.name}"] = (path.read_bytes(), 0o644)
    files[f"{top}/lockgate.service"] = ((HERE / "debian/lockgate.service").read_bytes(), 0o644)
    for name, data in (documents(None) | examples_of_policies()).items():
        files[f"{top}/{name}"] = (data, 0o644)
    return write_tar(kit.out / f"{top}.tar.gz", kit.epoch, files)


def put(root, name, data, mode=0o644):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def packed(data):
    """Compresses like `gzip -9n`, without a timestamp."""
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, out, 0) as file:
        file.write(data)
    return out.getvalue()


def debian_changelog(kit, maintainer):
    date = formatdate(kit.epoch)
    return f"lockgate ({kit.version}) stable; urgency=medium\n\n  * CHANGELOG.md says what is new.\n\n -- {maintainer}  {date}\n"


def deb(kit):
    if not kit.glibc:
        raise SystemExit("packaging: the Debian package is for programs that use Debian's glibc")
    root = kit.stage / "deb"
    put(root, "usr/bin/lockgate", kit.program.read_bytes(), 0o755)
    put(root, "lib/systemd/system/lockgate.service", (HERE / "debian/lockgate.service").read_bytes())
    put(root, "etc/lockgate/lockgate.yaml", (HERE / "debian/lockgate.yaml").read_bytes())
    for path in (kit.stage / "man").iterdir():
        put(root, f"usr/share/man/man1/{path.name}.gz", packed(path.read_bytes()))
    completions = {"bash-completion/completions": "lockgate", "zsh/vendor-completions": "_lockgate",
                   "fish/vendor_completions.d": "lockgate.fish"}
    for folder, name in completions.items():
        put(root, f"usr/share/{folder}/{name}", (kit.stage / "completions" / name).read_bytes())
    doc = "usr/share/doc/lockgate"
    for name, data in documents("/usr/share/lockgate/policies").items():
        put(root, f"{doc}/{name}", data)
    for name, data in examples_of_policies().items():
        put(root, f"usr/share/lockgate/{name}", data)
    put(root, f"{doc}/CHANGELOG.md", (ROOT / "CHANGELOG.md").read_bytes())
    put(root, f"{doc}/LICENSE", (ROOT / "LICENSE").read_bytes())
    put(root, f"{doc}/lockgate.cdx.json.gz", packed(papers(kit)["lockgate.cdx.json"]))
    put(root, f"{doc}/THIRD-PARTY.txt.gz", packed(kit.licences.encode()))
    control = (HERE / "debian/control").read_text()
    maintainer = re.search(r"^Maintainer: (.+)$", control, re.M).group(1)
    put(root, f"{doc}/changelog.gz", packed(debian_changelog(kit, maintainer).encode()))
    put(root, f"{doc}/copyright", (HERE / "debian/copyright").read_bytes())
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    control = control.format(version=kit.version, architecture=DEBIAN[kit.machine], size=size, glibc=kit.glibc, summary=SUMMARY,
                             homepage=kit.about["homepage"])
    put(root, "DEBIAN/control", control.encode())
    put(root, "DEBIAN/conffiles", b"/etc/lockgate/lockgate.yaml\n")
    for name in ("postinst", "prerm", "postrm"):
        put(root, f"DEBIAN/{name}", (HERE / "debian" / name).read_bytes(), 0o755)
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
            for path in sorted(root.rglob("*")) if path.is_file() and "DEBIAN" not in path.parts]
    put(root, "DEBIAN/md5sums", "".join(sums).encode())
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    out = kit.out / f"lockgate_{kit.version}_{DEBIAN[kit.machine]}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(out)], check=True,
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(kit.epoch)}, stdout=subprocess.DEVNULL)
    return out


def npm(kit):
    """The package's command is the program itself, so that no Node process stays beside it."""
    about = json.loads((HERE / "npm/package.json").read_text())
    about.update(version=kit.version, description=SUMMARY, license=kit.about["license"], homepage=kit.about["homepage"],
                 repository={"type": "git", "url": kit.about["repository"]}, cpu=[NODE[kit.machine]], libc=["glibc" if kit.glibc else "musl"])
    files = {f"package/{name}": (data, 0o644) for name, data in papers(kit).items() if name != "README.md"}
    files["package/README.md"] = ((HERE / "npm/README.md").read_bytes(), 0o644)
    files["package/package.json"] = ((json.dumps(about, indent=2) + "\n").encode(), 0o644)
    files["package/bin/lockgate"] = (kit.program.read_bytes(), 0o755)
    return write_tar(kit.out / f"lockgate-{kit.version}.tgz", kit.epoch, files)


def pypi(kit):
    """A wheel with the program as its only script; its tag states the required glibc."""
    machine = kit.machine
    tag = f"py3-none-manylinux_{kit.glibc.replace('.', '_')}_{machine}" if kit.glibc else f"py3-none-musllinux_1_2_{machine}"
    info = f"lockgate-{kit.version}.dist-info"
    head = (HERE / "pypi/METADATA").read_text().format(version=kit.version, summary=SUMMARY, **kit.about)
    files = {
        f"lockgate-{kit.version}.data/scripts/lockgate": kit.program.read_bytes(),
        f"{info}/METADATA": (head + "\n" + (HERE / "pypi/README.md").read_text()).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: packaging/build\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    # The locations of PEP 770 and PEP 639.
    for name, data in papers(kit).items():
        if name in ("LICENSE", "THIRD-PARTY.txt"):
            files[f"{info}/licenses/{name}"] = data
        elif name.endswith(".json"):
            files[f"{info}/sboms/{name}"] = data
    lines = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
             for name, data in files.items()]
    files[f"{info}/RECORD"] = ("".join(lines) + f"{info}/RECORD,,\n").encode()
    out = kit.out / f"lockgate-{kit.version}-{tag}.whl"
    moment = datetime.fromtimestamp(max(kit.epoch, 315532800), timezone.utc).timetuple()[:6]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return out


def image(kit):
    """Creates the input of `podman build` or `docker build`; only its steps download packages."""
    folder = kit.out / "image"
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in papers(kit).items():
        put(folder, f"doc/{name}", data)
    for name, data in documents("/usr/share/lockgate/policies").items():
        put(folder, f"doc/{name}", data)
    for name, data in examples_of_policies().items():
        put(folder, name, data)
    put(folder, "lockgate", kit.program.read_bytes(), 0o755)
    put(folder, "lockgate.yaml", (HERE / "image/lockgate.yaml").read_bytes())
    for name in ("Containerfile", "Containerfile.tools"):
        put(folder, name, (HERE / name).read_bytes())
    return folder


ALL = {"archive": archive, "deb": deb, "npm": npm, "pypi": pypi, "image": image}
