"""Tests the rendered configuration with a real gateway: `lockgate check` accepts it, `helm test` passes, each port responds as
specified, and changes in volumes are applied."""

import contextlib
import ctypes
import errno
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from manifests import ROOT, config_of
from programs import call, must

SECRETS = {"REPLICA_ADDRESS": "10.0.0.7", "LOCKGATE_KEY": "0123456789abcdef" * 2, "LOCKGATE_SECRET": "fedcba9876543210" * 2, "SEARCH_TOKEN": "t" * 20,
           "STORE_URL": "postgres://gate:word@database.example.com/gate", **{f"STORE_KEY_{at}": f"{at}3456789abcdef" * 3 for at in (0, 1)},
           "REDIS_URL": "rediss://gate:word@redis.example.com:6379/0", **{f"OLD_SECRET_{at}": f"{at}edcba9876543210" * 3 for at in (0, 1)}}


def make_files(folder, binary):
    """Creates the files of ConfigMaps and Secrets, with a certificate for this machine."""
    etc = folder / "etc"
    for name in ("policies", "pins", "keys", "ca", "tls", "client-ca"):
        (etc / name).mkdir(parents=True)
    shutil.copy(ROOT / "policies/read-only.yaml", etc / "policies")
    (etc / "pins/pins.json").write_text('{"version": 1, "tools": {}}\n')
    made = must([binary, "keys", "create", "team", "--role", "platform", "--role", "team-lead", "--json", "--file",
                 etc / "keys/keys.yaml"], cwd=folder)
    (folder / "team").write_text(json.loads(made)["key"])
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    must([*request, "-subj", "/CN=company", "-keyout", folder / "ca.key", "-out", etc / "ca/ca.crt"])
    must([*request, "-subj", "/CN=gate", "-CA", etc / "ca/ca.crt", "-CAkey", folder / "ca.key", "-addext", "basicConstraints=CA:FALSE",
          "-addext", "subjectAltName=DNS:localhost", "-keyout", etc / "tls/tls.key", "-out", etc / "tls/tls.crt"])
    shutil.copy(etc / "ca/ca.crt", etc / "client-ca")
    return etc


def local(config, etc, folder):
    """Returns the rendered configuration with paths of this machine."""
    return config.replace("/etc/lockgate/", f"{etc}/").replace("/var/lib/lockgate/", f"{folder}/var/").replace("/var/log/", f"{folder}/")


def variables(manifests):
    """Returns the environment of the pod."""
    deployment = next(manifest for manifest in manifests if manifest["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    names = {entry["name"] for entry in container["env"]} & set(SECRETS)
    names |= {"SEARCH_TOKEN"} if container.get("envFrom") else set()
    return {"PATH": os.environ["PATH"], **{name: SECRETS[name] for name in names}}


def check_config(binary, manifests, etc, folder):
    """Runs `lockgate check` on the rendered configuration, in the pod's environment."""
    path = folder / "lockgate.yaml"
    path.write_text(local(config_of(manifests), etc, folder))
    (folder / "lockgate").mkdir(exist_ok=True)
    done = call([binary, "check", "--config", path], env=variables(manifests), cwd=folder)
    return [] if done.returncode == 0 else [f"lockgate check: {done.stdout}"]


def project(folder, files):
    """Writes files like Kubernetes does in a volume: each as a link, and all replaced atomically."""
    folder.mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    for name, text in files.items():
        (data / name).write_text(text)
    (folder / "..data_tmp").symlink_to(data.name)
    (folder / "..data_tmp").rename(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            # In place of a file at once: the gateway must not read the folder without it.
            (folder / "..link").symlink_to(f"..data/{name}")
            (folder / "..link").rename(folder / name)
    for path in folder.iterdir():
        if not path.name.startswith("..") and path.name not in files:
            path.unlink()
        elif path.is_dir() and path.name.startswith("..") and path != data and not path.is_symlink():
            shutil.rmtree(path)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_ready(process, port, host):
    for _ in range(200):
        if process.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(f"http://{host}:{port}/readyz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            time.sleep(0.1)
    return False


@contextlib.contextmanager
def served(binary, manifests, etc, folder, prepare=None, only=None):
    """Runs a gateway with the rendered configuration on local ports; yields the port for clients and the admin port. `prepare` runs in
    its process before the start. `only` is the address to bind instead of all addresses."""
    ports, bound = (free_port(), free_port()), only or "[::]"
    config = local(config_of(manifests), etc, folder)
    for rendered, port in zip(("3001", "3002"), ports):
        if f"[::]:{rendered}" not in config:
            sys.exit(f"run: the rendered configuration does not listen on [::]:{rendered}")
        config = config.replace(f"[::]:{rendered}", f"{bound}:{port}")
    project(etc / "config", {"lockgate.yaml": config})
    with open(folder / "serve.log", "w") as log:
        process = subprocess.Popen([str(binary), "serve", "--config", str(etc / "config/lockgate.yaml")], env=variables(manifests),
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=prepare)
    try:
        if not wait_ready(process, ports[1], only or "127.0.0.1"):
            sys.exit(f"run: the gateway does not start: {(folder / 'serve.log').read_text()[-2000:]}")
        yield ports
    finally:
        process.kill()
        process.wait()


def without_ipv6():
    """Simulates a kernel without IPv6: a seccomp filter answers socket(AF_INET6, …) with EAFNOSUPPORT."""
    number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
    steps = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, socket.AF_INET6),
             (0x06, 0, 0, 0x50000 | errno.EAFNOSUPPORT), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_char_p(program)):  # no new privileges; the filter
        raise OSError(ctypes.get_errno(), "prctl")


def families(binary, manifests, etc, folder):
    """Probes are answered over IPv6 and IPv4, and over IPv4 if the kernel has no IPv6. A gateway that binds a single address is reached
    only there."""
    hosts = ["127.0.0.1"] + ["[::1]"] * Path("/proc/net/if_inet6").exists()
    reasons = []
    for prepare, only, reached in ((None, None, hosts), (without_ipv6, None, ["127.0.0.1"]), *((None, host, [host]) for host in hosts)):
        with served(binary, manifests, etc, folder, prepare, only) as (clients, admin):
            asked_for = [(host, *probe) for host in hosts for probe in ((admin, "readyz", 200), (clients, "mcp", 401))]
            for host, port, path, status in asked_for:
                url, wanted = f"http://{host}:{port}/{path}", status if host in reached else 0
                found = call(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url]).stdout
                reasons += [] if int(found) == wanted else [f"{url}, bound to {only or '[::]'}: {found}, not {wanted}"]
    return reasons


def play(binary, manifests, port, etc, key=SECRETS["LOCKGATE_KEY"]):
    """Runs the containers of `helm test` against this gateway; returns their exit codes and output by name."""
    pod = next(manifest for manifest in manifests if manifest["kind"] == "Pod")
    ended = {}
    for container in pod["spec"]["containers"]:
        given = {"PATH": os.environ["PATH"]}
        for entry in container["env"]:
            value = entry.get("value", key).replace("gate-lockgate.tools.svc:3001", f"localhost:{port}")
            given[entry["name"]] = value.replace("$(KEY)", key).replace("/etc/lockgate/", f"{etc}/")
        done = call([binary, *container["args"]], env=given, cwd=etc / "pins")
        ended[given["LOCKGATE_SERVERS__GATE__ERA"]] = (done.returncode, done.stdout)
    return ended


def tested(binary, manifests, etc, folder):
    """`helm test` passes in both eras, and fails with an invalid key."""
    with served(binary, manifests, etc, folder) as (port, _):
        good, bad = play(binary, manifests, port, etc), play(binary, manifests, port, etc, "x" * 32)
    reasons = [] if sorted(good) == ["legacy", "modern"] else [f"played {sorted(good)}"]
    reasons += [f"{name}: exit code {code}: {text}" for name, (code, text) in good.items() if code]
    return reasons + [f"{name} passed with a wrong key" for name, (code, _) in bad.items() if not code]


def asked(port, path, key=None, body=None):
    """Returns the status of a request to the operators' Service, by its cluster name."""
    headers = {"Host": "gate-lockgate-admin.tools.svc", "Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers, data=json.dumps(body).encode() if body else None)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def doors(binary, manifests, etc, folder):
    """Checks the endpoints and permissions of each port, and that an administrator's changes are stored in the volume."""
    key = (folder / "team").read_text()
    (folder / "var").mkdir(exist_ok=True)
    add = {"name": "search", "serverUrl": "http://127.0.0.1:9/mcp"}
    with served(binary, manifests, etc, folder) as (clients, admin):
        given = {
            "metrics of the admin port, without a key": (asked(admin, "/metrics"), 200),
            "metrics of the clients' port": (asked(clients, "/metrics", key), 404),
            "API of the admin port": (asked(admin, "/api/servers", key), 200),
            "API of the admin port, without a key": (asked(admin, "/api/servers"), 401),
            "API of the clients' port": (asked(clients, "/api/servers", key), 404),
            "an integration of an administrator": (asked(admin, "/api/mcp-integrations/custom", key, add), 201),
            "one of the shared key's holder": (asked(admin, "/api/mcp-integrations/custom", SECRETS["LOCKGATE_KEY"], add), 403),
        }
    with served(binary, manifests, etc, folder) as (clients, admin):
        given["the same after a restart"] = (asked(admin, "/api/mcp-integrations/custom", key, add), 409)
    return [f"{name}: {status}, not {wanted}" for name, (status, wanted) in given.items() if status != wanted]


def taken_over(binary, manifests, etc, folder):
    """Changes of policies, API keys and the configuration in their volumes apply without a restart."""
    def comes(passes, key):
        for _ in range(20):
            if all((code == 0) == passes for code, _ in play(binary, manifests, port, etc, key).values()):
                return True
            time.sleep(0.3)
        return False

    policies = {"read.yaml": (ROOT / "policies/read-only.yaml").read_text()}
    deny = {"deny.yaml": (ROOT / "policies/deny-all.yaml").read_text()}
    keys = (etc / "keys/keys.yaml").read_text()
    project(etc / "policies", policies)
    with served(binary, manifests, etc, folder) as (port, _):
        config, shared = (etc / "config/lockgate.yaml").read_text(), SECRETS["LOCKGATE_KEY"]
        made = must([binary, "keys", "create", "late", "--file", folder / "late.yaml", "--json"], cwd=folder)
        late = json.loads(made)["key"]
        steps = [(lambda: None, True, shared, "it does not pass at first"),
                 (lambda: project(etc / "policies", policies | deny), False, shared, "a new policy does not hold"),
                 (lambda: project(etc / "policies", policies), True, shared, "a policy that is gone holds"),
                 (lambda: None, False, late, "a key passes that is not there yet"),
                 (lambda: project(etc / "keys", {"keys.yaml": (folder / "late.yaml").read_text()}), True, late, "a new key is not good"),
                 (lambda: project(etc / "config", {"lockgate.yaml": config + "names: { separator: '-' }\n"}), False, shared,
                  "a new configuration does not hold")]
        wrong = []
        for change, passes, key, words in steps:
            change()
            wrong += [] if comes(passes, key) else [words]
    project(etc / "keys", {"keys.yaml": keys})
    return wrong
