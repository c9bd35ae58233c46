"""The image without a container engine: the steps of the Containerfiles run in a root file system made of Debian packages, and the
program runs in it as a random user on a read-only root. The Debian package is installed in such a root too. Needs root."""

import hashlib
import json
import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = "bookworm"
# The stand-in for the base image, and the dependencies of the Debian package.
BASE = ["ca-certificates", "libgcc-s1", "adduser"]
LIMIT = 900
KEY = "0123456789abcdef-of-the-container"


def run(*words, **more):
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": LIMIT, "check": True, **more}
    return subprocess.run([str(word) for word in words], **more).stdout


def base(scene):
    """Returns a packed root file system of Debian 12, created once for this list of packages."""
    folder = scene.cache / "packaging"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = hashlib.sha256(" ".join([SUITE, *BASE]).encode()).hexdigest()[:12]
    packed = folder / f"debian-{stamp}.tar"
    if not packed.is_file():
        sources = [path for path in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
                   if path.is_file() and SUITE in path.read_text()]
        half = folder / "half.tar"
        run("mmdebstrap", "--variant=minbase", f"--include={','.join(BASE)}", SUITE, half, *sources[:1])
        half.rename(packed)
    return packed


def fresh_root(scene, name):
    root = scene.scratch / name
    root.mkdir()
    run("tar", "-C", root, "-xf", base(scene), "--exclude=./dev/*")
    return root


def inside(root, *words, **more):
    """Runs a command in the root file system, as root, with the machine's network and apt's settings."""
    bind = ["--bind", root, "/", "--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp"]
    for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/apt/apt.conf.d", "/etc/pip.conf", "/etc/ssl/certs"):
        if Path(path).exists() and (root / path[1:]).exists():
            bind += ["--ro-bind", path, path]
    return run("bwrap", *bind, "--die-with-parent", "--clearenv", "--setenv", "PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin",
               "--setenv", "DEBIAN_FRONTEND", "noninteractive", *words, **more)


class Played:
    """The result of a Containerfile: a root file system, and how to start in it."""

    def __init__(self, root):
        self.root, self.env, self.user, self.cwd, self.entry, self.command = root, {}, "0:0", "/", [], []

    def play(self, context, name):
        text = re.sub(r"\\\n\s*", " ", (context / name).read_text())
        for line in text.splitlines():
            line = line.strip()
            if line and not line.startswith("#"):
                step, _, rest = line.partition(" ")
                getattr(self, f"step_{step.lower()}")(rest, context)

    def step_arg(self, _rest, _context):
        """Does nothing: the base is the root file system."""

    def step_from(self, rest, _context):
        assert rest == "${BASE}", f"another base than the argument: {rest}"

    def step_run(self, rest, _context):
        assert self.user in ("0:0", "root"), "only root installs"
        inside(self.root, "/bin/sh", "-ec", rest)

    def step_copy(self, rest, context):
        source, target = rest.split()
        target = self.root / target.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if (context / source).is_dir():
            shutil.copytree(context / source, target)
        else:
            shutil.copy(context / source, target)

    def step_env(self, rest, _context):
        name, _, value = rest.partition("=")
        self.env[name] = value

    def step_user(self, rest, _context):
        self.user = rest

    def step_workdir(self, rest, _context):
        self.cwd = rest

    def step_expose(self, _rest, _context):
        """Does nothing: ports are not published."""

    def step_entrypoint(self, rest, _context):
        self.entry = json.loads(rest)

    def step_cmd(self, rest, _context):
        self.command = json.loads(rest)

    def start(self, user, group, log, env=(), arguments=(), writable=()):
        """Starts the entry point as an unknown user without capabilities, on a read-only root with /tmp in memory."""
        words = ["bwrap", "--ro-bind", self.root, "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--die-with-parent",
                 "--unshare-user", "--unshare-pid", "--uid", user, "--gid", group, "--cap-drop", "ALL", "--clearenv", "--chdir",
                 self.cwd, "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"]
        for path in writable:
            words += ["--bind", path, path]
        for name, value in {**self.env, **dict(env)}.items():
            words += ["--setenv", name, value]
        words += ["--", *self.entry, *(arguments or self.command)]
        return subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def played(scene):
    """Returns the image, played once."""
    if not hasattr(scene, "image"):
        box = Played(fresh_root(scene, "root"))
        box.play(scene.out / "image", "Containerfile")
        scene.image = box
    return scene.image


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def post(port, body, headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", json.dumps(body).encode(), {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {KEY}", **headers})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers, answer.read().decode()


def call_in_both_eras(port):
    modern = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "example__echo", "arguments": {"text": "in a box"}}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "example__echo"}
    _, said = post(port, {**call, "params": {**call["params"], "_meta": modern}}, headers)
    assert "in a box" in said, said
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "box", "version": "1"}}}
    given, said = post(port, hello, {})
    session = {"Mcp-Session-Id": given["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
    post(port, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    _, said = post(port, call, session)
    assert "in a box" in said, said


def wait_until_ready(port, child, log):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        try:
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).status == 200:
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"never ready: {Path(log).read_text()[-1500:]}")


def children(pid):
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def programs_below(pid):
    """Returns the descendants of this process that run the program."""
    found = []
    for child in children(pid):
        found += programs_below(child)
        if "lockgate" in Path(f"/proc/{child}/cmdline").read_text().split("\0")[0]:
            found.append(child)
    return found


def image(scene):
    box = played(scene)
    assert box.user == "65532:65532" and box.entry == ["/usr/local/bin/lockgate"] and box.command == ["serve"]
    size = int(run("du", "-s", "--block-size=1", box.root).split()[0]) / 1e6
    print(f"     the image's files: {size:.0f} MB, of which the program {(box.root / 'usr/local/bin/lockgate').stat().st_size / 1e6:.0f}")
    user, group = str(random.randint(100_000, 2_000_000)), str(random.choice([0, 12345]))
    port = free_port()
    log = scene.scratch / "box.log"
    env = {"LOCKGATE_KEY": KEY, "MCP_PORT": str(port), "MCP_HOST": "0.0.0.0"}
    with log.open("w") as out:
        child = box.start(user, group, out, env)
    try:
        wait_until_ready(port, child, log)
        call_in_both_eras(port)
        (pid,) = programs_below(child.pid)
        status = Path(f"/proc/{pid}/status").read_text()
        assert re.search(r"^CapEff:\s+0+$", status, re.M), status
        mounts = Path(f"/proc/{pid}/mounts").read_text()
        assert re.search(r"^\S+ / \S+ ro[,\s]", mounts, re.M), mounts
        os.kill(pid, 15)
        assert child.wait(60) == 0, log.read_text()[-1500:]
    finally:
        child.kill()
        child.wait()
    said = log.read_text()
    assert KEY not in said and "Traceback" not in said and "panicked" not in said, said[-1500:]


def image_refuses_to_write(scene):
    """A path that must be written is reported at the start, and not at the first call."""
    box = played(scene)
    with (scene.scratch / "write.log").open("w") as out:
        child = box.start("54321", "54321", out, {"LOCKGATE_KEY": KEY, "MCP_PORT": str(free_port()), "LOCKGATE_AUDIT__OUTPUT": "file",
                                                  "LOCKGATE_AUDIT__FILE": "/etc/lockgate/audit.jsonl"})
        code = child.wait(60)
    said = (scene.scratch / "write.log").read_text()
    assert code == 1 and "/etc/lockgate/audit.jsonl" in said, (code, said)


def image_without_a_key(scene):
    """The image's own configuration accepts only this machine."""
    box = played(scene)
    with (scene.scratch / "key.log").open("w") as out:
        code = box.start("54321", "54321", out, {"MCP_HOST": "0.0.0.0", "MCP_PORT": str(free_port())}).wait(60)
    said = (scene.scratch / "key.log").read_text()
    assert code == 1 and "MCP_HOST" in said and "auth" in said, (code, said)


def installed_package(scene):
    """dpkg installs it on Debian 12, the service's command starts as its user, and a purge removes everything."""
    root = fresh_root(scene, "debian")
    package = scene.one("lockgate_*.deb")
    shutil.copy(package, root / "lockgate.deb")
    inside(root, "dpkg", "--install", "/lockgate.deb")
    user = inside(root, "getent", "passwd", "lockgate").strip().split(":")
    assert user[5] == "/var/lib/lockgate" and int(user[2]) < 1000, user
    unit = (root / "lib/systemd/system/lockgate.service").read_text()
    (check,) = re.findall(r"^ExecStartPre=(.+)$", unit, re.M)
    assert "ok: " in inside(root, *shlex.split(check))
    (start,) = re.findall(r"^ExecStart=(.+)$", unit, re.M)
    state = root / "var/lib/lockgate"
    state.mkdir(exist_ok=True)
    os.chown(state, int(user[2]), int(user[3]))
    box = Played(root)
    box.entry, box.cwd = shlex.split(start), "/var/lib/lockgate"
    port = free_port()
    log = scene.scratch / "deb.log"
    with log.open("w") as out:
        child = box.start(user[2], user[3], out, {"MCP_PORT": str(port), "HOME": "/var/lib/lockgate", "LOCKGATE_KEY": KEY})
    try:
        wait_until_ready(port, child, log)
        call_in_both_eras(port)
        (pid,) = programs_below(child.pid)
        os.kill(pid, 15)
        assert child.wait(60) == 0, log.read_text()[-1500:]
    finally:
        child.kill()
        child.wait()
    inside(root, "dpkg", "--install", "/lockgate.deb")
    edited = root / "etc/lockgate/lockgate.yaml"
    edited.write_text(edited.read_text() + "name: edited\n")
    inside(root, "dpkg", "--remove", "lockgate")
    assert "edited" in edited.read_text() and not (root / "usr/bin/lockgate").exists()
    inside(root, "dpkg", "--purge", "lockgate")
    left = [path for path in ("etc/lockgate", "var/lib/lockgate", "usr/share/doc/lockgate") if (root / path).exists()]
    assert not left, left


def image_with_tools(scene):
    """The variant starts servers with npx and uvx as an unknown user."""
    box = played(scene)
    box.play(scene.out / "image", "Containerfile.tools")
    for words in (["node", "--version"], ["npx", "--version"], ["uvx", "--version"], ["python3", "--version"]):
        told = inside(box.root, "/usr/bin/setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "env", "HOME=/cache", *words)
        print(f"     {words[0]}: {told.strip()}")
    assert box.env["HOME"] == "/cache" and (box.root / "cache").stat().st_mode & 0o1777 == 0o1777
    assert box.user == "65532:65532"


def clean(scene):
    """Removes the root file systems, which contain files of other users."""
    for name in ("root", "debian"):
        shutil.rmtree(scene.scratch / name, ignore_errors=True)


ALL = {"the image, as a random user on a read-only root": image, "the image says what it cannot write": image_refuses_to_write,
       "the image without a key": image_without_a_key, "deb, installed, started and purged": installed_package}
TOOLS = {"the image with Node and uv": image_with_tools}
