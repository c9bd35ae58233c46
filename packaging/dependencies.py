"""The program's dependencies, from cargo's metadata alone: an SBOM (CycloneDX 1.6) and all licences."""

import hashlib
import json
import re
import subprocess
import tomllib
import uuid
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LICENCE_FILE = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.I)


def metadata(target):
    """Returns cargo's metadata of the workspace, with the dependencies of one target."""
    told = subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target], cwd=ROOT,
                          stdout=subprocess.PIPE, check=True)
    return json.loads(told.stdout)


class Dependencies:
    """The crates in the program, each with its dependencies; without those of tests and build scripts."""

    def __init__(self, target):
        told = metadata(target)
        self.packages = {package["id"]: package for package in told["packages"]}
        nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
        self.root = told["resolve"]["root"]
        self.needs = {}
        waiting = [self.root]
        while waiting:
            at = waiting.pop()
            if at not in self.needs:
                kept = [dep["pkg"] for dep in nodes[at]["deps"] if self.is_in_program(dep)]
                self.needs[at] = sorted(kept)
                waiting += kept
        locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
        self.checksums = {(lock["name"], lock["version"]): lock.get("checksum") for lock in locked}

    def is_in_program(self, dependency):
        kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
        targets = self.packages[dependency["pkg"]]["targets"]
        return None in kinds and not any("proc-macro" in target["kind"] for target in targets)

    def version(self):
        return self.packages[self.root]["version"]

    def about(self):
        """Returns the licence and addresses for every package."""
        return {key: self.packages[self.root][key] for key in ("license", "homepage", "repository")}

    def others(self):
        """Returns the third-party crates, by name and version."""
        found = [self.packages[at] for at in self.needs if self.packages[at]["source"]]
        return sorted(found, key=lambda package: (package["name"], package["version"]))


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def expression(package):
    """Returns the SPDX expression; older crates write `/` for OR."""
    return re.sub(r"\s*/\s*", " OR ", package["license"]) if package["license"] else None


def component(dependencies, package, kind="library"):
    entry = {"type": kind, "bom-ref": purl(package), "name": package["name"], "version": package["version"], "purl": purl(package)}
    if package["description"]:
        entry["description"] = " ".join(package["description"].split())
    if expression(package):
        entry["licenses"] = [{"expression": expression(package)}]
    checksum = dependencies.checksums.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def bom(dependencies, program, epoch):
    """Returns the CycloneDX 1.6 SBOM of the file `program`. Equal inputs give equal bytes."""
    root = dependencies.packages[dependencies.root]
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    main = component(dependencies, root, "application")
    main["hashes"] = [{"alg": "SHA-256", "content": digest}]
    parts = [dependencies.packages[at] for at in dependencies.needs if at != dependencies.root]
    parts.sort(key=lambda package: (package["name"], package["version"]))
    edges = {purl(dependencies.packages[at]): sorted({purl(dependencies.packages[to]) for to in needs})
             for at, needs in dependencies.needs.items()}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": main,
            "properties": [{"name": "cargo:profile", "value": "dist"}],
        },
        "components": [component(dependencies, package) for package in parts],
        "dependencies": [{"ref": ref, "dependsOn": to} for ref, to in sorted(edges.items())],
    }


def licence_texts(package):
    folder = Path(package["manifest_path"]).parent
    named = [folder / package["license_file"]] if package["license_file"] else []
    found = sorted(path for path in folder.iterdir() if path.is_file() and LICENCE_FILE.match(path.name))
    texts = []
    for path in [*named, *found]:
        text = path.read_text(errors="replace").strip()
        if text and text not in texts:
            texts.append(text)
    return texts


def licences(dependencies):
    """Returns a text with a line per crate, followed by each licence once, with its crates."""
    lines, carried = [], {}
    for package in dependencies.others():
        if not package["license"] and not package["license_file"]:
            raise SystemExit(f"packaging: {package['name']} {package['version']} says nothing of its licence")
        name = f"{package['name']} {package['version']}"
        texts = licence_texts(package)
        where = package["repository"] or ""
        by = "" if texts else f"; the crate has no text of it; by {', '.join(package['authors']) or 'its authors'}"
        lines.append(f"{name}: {expression(package) or 'see below'}{by}  {where}".rstrip())
        for text in texts:
            carried.setdefault(text, []).append(name)
    parts = ["Lockgate is made with the crates of these projects. Their licences follow.", "\n".join(lines)]
    for text, names in carried.items():
        parts.append(f"{'=' * 78}\n{', '.join(names)}\n{'-' * 78}\n{text}")
    return "\n\n".join(parts) + "\n"
