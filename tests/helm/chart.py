"""Tests the chart with every set of values: its output, and the messages of its refusals."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import yaml

from live import check_config, doors, families, make_files, taken_over, tested
from manifests import (CHART, ROOT, VERSIONS, agree_on_labels, agrees, asked_metrics, asks_well, config_of, expressions, hardened, untried, validate,
                       without_effect)
from programs import call, must

HERE = Path(__file__).resolve().parent
CASES = 12  # at least
PAGES = {"helm/README.md": 1, "docs/kubernetes.md": 13}  # blocks of values in them, at least
MINIMAL = ("image.repository=a", "auth.existingSecret=a")

# Invalid values, and the hints in their error messages.
REFUSED = {
    "no image": (["auth.existingSecret=a"], "write the image that has `lockgate` in it, such as"),
    "no secret": (["image.repository=a"], "kubectl create secret generic lockgate-auth --from-literal=key="),
    "an unknown value": ([*MINIMAL, "replica=2"], "additional properties 'replica' not allowed"),
    "an unknown key of config": ([*MINIMAL, "config.polcy.files=a"], "at '/config': additional properties 'polcy' not allowed"),
    "an unknown key deep in config": ([*MINIMAL, "config.servers.a.url=http://a", "config.servers.a.breaker.x=1"],
                                      "at '/config/servers/a/breaker': additional properties 'x' not allowed"),
    "a wrong type in config": ([*MINIMAL, "config.limits.sessions=many"], "at '/config/limits/sessions'"),
    "production without a policy": ([*MINIMAL, "config.policy=null"], "config.policy.tools.allow: `config.profile: production` requires it"),
    "production without a list of tools": ([*MINIMAL, "config.policy.tools=null"], "config.policy.tools.allow: `config.profile: production`"),
    "listen": ([*MINIMAL, "config.listen=0.0.0.0:1"], "config.listen: the chart sets this; take it out: pods listen on port 3001"),
    "auth.key": ([*MINIMAL, "config.auth.key=x"], "config.auth.key: the chart sets this; write `auth.existingSecret`"),
    "secret": ([*MINIMAL, "config.secret=x"], "config.secret: the chart sets this; write `auth.existingSecret`"),
    "http.tls": ([*MINIMAL, "config.http.tls.cert=x"], "write `tls.existingSecret` or `tls.certManager.issuer`"),
    "http.drain": ([*MINIMAL, "config.http.drain=1"], "write `drainSeconds`"),
    "admin.listen": ([*MINIMAL, "config.admin.listen=x"], "`admin.service.enabled: true` gives it a Service"),
    "config.store": ([*MINIMAL, "config.store.file=x"], "write `store` beside `config`"),
    "two places for pins": ([*MINIMAL, "config.pins.file=x", "files.pins.configMap=a"], "take one of it and `files.pins` out"),
    "nobody could call": ([*MINIMAL, "auth.key="], "write `files.apiKeys.secret`, `config.auth.issuers` or `tls.clientCa`"),
    "issuers without an address": ([*MINIMAL, "config.auth.issuers.a.issuer=https://a"], "config.http.public_url: write where"),
    "two sources of a file": ([*MINIMAL, "files.ca.configMap=a", "files.ca.secret=b"], "files.ca: names a ConfigMap and a Secret"),
    "two certificates": ([*MINIMAL, "tls.existingSecret=a", "tls.certManager.issuer=b"], "take one of them out"),
    "client certificates without TLS": ([*MINIMAL, "tls.clientCa.secret=a"], "client certificates need TLS in the pod"),
    "SQLite for several": ([*MINIMAL, "store.sqlite.enabled=true", "replicas=3"], "a file of SQLite belongs to one pod, and there can be "
                           "3: write `replicas: 1` and `autoscaling.enabled: false`, or keep the store in PostgreSQL"),
    "SQLite that scales": ([*MINIMAL, "store.sqlite.enabled=true", "autoscaling.enabled=true"], "there can be 10: write `replicas: 1`"),
    "two stores": ([*MINIMAL, "store.sqlite.enabled=true", "store.url=u", "store.existingSecret=s"], "take one of them out"),
    "a store without its Secret": ([*MINIMAL, "store.url=u"], "store.existingSecret: write the name of the Secret"),
    "config.redis": ([*MINIMAL, "config.redis.url=x"], "config.redis: the chart sets this; write `redis` beside `config`"),
    "config.replicas": ([*MINIMAL, "config.replicas.address=x"], "config.replicas: the chart sets this; take it out"),
    "a Redis without its Secret": ([*MINIMAL, "redis.url=u"], "redis.existingSecret: write the name of the Secret"),
    "a Secret without the address of Redis": ([*MINIMAL, "redis.existingSecret=s"], "redis.url: write the entry of the Secret"),
    "a prefix with blanks": ([*MINIMAL, "redis.url=u", "redis.existingSecret=s", "redis.prefix=a b"], "at '/redis/prefix'"),
    "nothing to scale by": ([*MINIMAL, "autoscaling.enabled=true", "autoscaling.cpu=null"], "write `cpu`, `requestsInFlight` or"),
    "per cent of nothing": ([*MINIMAL, "autoscaling.enabled=true", "resources.requests.cpu=null"], "resources.requests.cpu: write it"),
    "more than most": ([*MINIMAL, "autoscaling.enabled=true", "autoscaling.minReplicas=11"], "autoscaling.maxReplicas: 10 is less"),
    "an Ingress without names": ([*MINIMAL, "ingress.enabled=true"], "ingress.hosts: write the names that clients use"),
    "a route without a Gateway": ([*MINIMAL, "httpRoute.enabled=true", "httpRoute.hostnames={a}"], "httpRoute.parentRefs: write"),
    "a route to TLS": ([*MINIMAL, "httpRoute.enabled=true", "httpRoute.hostnames={a}", "httpRoute.parentRefs[0].name=a",
                        "tls.existingSecret=a"], "httpRoute.backendCa: the pods speak TLS, so write the name of a ConfigMap"),
    "a short digest": ([*MINIMAL, "image.digest=sha256:12"], "at '/image/digest'"),
    "root": ([*MINIMAL, "runAsUser=0"], "at '/runAsUser'"),
}


def values_of_page(page, at_least):
    """Returns the YAML blocks of a page: each contains values, merged over those of the minimal case."""
    blocks = [block.split("```")[0] for block in (ROOT / page).read_text().split("```yaml\n")[1:]]
    if len(blocks) < at_least:
        sys.exit(f"run: {page} has {len(blocks)} blocks of values, not {at_least}")
    return {f"{Path(page).name} {at + 1}": block for at, block in enumerate(blocks)}


def bare(node, names=False):
    """Returns a schema without annotations for humans; with `names`, keys are names rather than keywords."""
    if isinstance(node, list):
        return [bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    left_out = () if names else ("description", "title", "default", "$schema", "$defs")
    return {key: bare(value, key == "properties" and not names) for key, value in node.items() if key not in left_out}


def schema_with(text, printed):
    """Returns values.schema.json with the program's schema of `config` as its last definitions, a line for each property."""
    head = text[:text.index('    "Configuration": {')]
    lines = []
    for name, definition in {"Configuration": printed, **printed["$defs"]}.items():
        own = bare(definition)
        properties = own.pop("properties", None)
        rest = json.dumps(own)
        if properties is None:
            lines.append(f'    "{name}": {rest}')
            continue
        inner = ",\n".join(f'        "{key}": {json.dumps(value)}' for key, value in properties.items())
        lines.append(f'    "{name}": {{\n      "properties": {{\n{inner}\n      }},\n      {rest[1:]}')
    return head + ",\n".join(lines) + "\n  }\n}\n"


def write_schemas():
    """Writes the schemas that the program contains, which its tests generate from its types, and builds the program anew."""
    command = ["cargo", "test", "--workspace", "--exclude", "lockgate-tests-integration", "--locked", "--quiet", "schema"]
    must(command, env={**os.environ, "LOCKGATE_WRITE_SCHEMA": "1"})
    must(["cargo", "build", "--workspace", "--bins", "--locked"])


def schema_is_ours(binary):
    if "--write-schema" in sys.argv[1:]:
        write_schemas()
    printed = json.loads(must([binary, "schema"]))
    path = CHART / "values.schema.json"
    now = schema_with(path.read_text(), printed)
    json.loads(now)
    if "--write-schema" in sys.argv[1:]:
        path.write_text(now)
    return [] if now == path.read_text() else ["helm/values.schema.json has another `config` than `lockgate schema`: use --write-schema"]


def names_its_origin():
    """Checks that the chart has the version, the licence and the addresses of Cargo.toml."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    about = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    wanted = {"version": about["version"], "appVersion": about["version"], "home": about["homepage"],
              "sources": [about["repository"]], "annotations": {"artifacthub.io/license": about["license"]}}
    return [f"Chart.yaml: {key} is {chart.get(key)}, not {value}" for key, value in wanted.items() if chart.get(key) != value]


def render(text, helm, file, page):
    file.write_text(text)
    base = ["-f", HERE / "cases/minimal.yaml"] if page else []
    lint = call([helm, "lint", "--strict", CHART, *base, "-f", file])
    if lint.returncode:
        return None, f"lint: {lint.stdout}"
    done = subprocess.run([str(word) for word in (helm, "template", "gate", CHART, "-n", "tools", *base, "-f", file)], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return (done.stdout, None) if done.returncode == 0 else (None, f"template: {done.stderr}")


def expected(text):
    first = text.splitlines()[0]
    return first.removeprefix("# gives: ").split(", ") if first.startswith("# gives: ") else None


def reach_each_other(manifests, config):
    """Returns whether several pods can reach each other as configured, and a single pod has no such configuration."""
    deployment = next(manifest for manifest in manifests if manifest["kind"] == "Deployment")
    names = {entry["name"] for entry in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
    found = [f"{m['metadata']['name']}.{m['metadata']['namespace']}.svc" for m in manifests
             if m["kind"] == "Service" and m["spec"].get("clusterIP") == "None" and m["spec"]["publishNotReadyAddresses"]]
    config = yaml.safe_load(config)
    replicas = config.get("replicas", {})
    wrong = [] if found == replicas.get("peers", []) else [f"replicas look for {replicas}, and there is {found}"]
    if ("REPLICA_ADDRESS" in names) != bool(replicas) or deployment["spec"].get("replicas", 2) > 1 and not replicas:
        wrong.append("replicas are reached where there is one, or not where there are several")
    name, has_tls = replicas.get("tls_name", ""), bool(replicas and config["http"].get("tls"))
    if name not in ["", *config["http"]["hosts"]] or bool(name) != has_tls:
        wrong.append(f"replicas trust {name!r}")
    return wrong


def judge(name, text, helm, binary, places, kinds):
    """Returns the errors in the manifests of these values, and the manifests."""
    folder, etc, page = places["folder"], places["etc"], ".md " in name
    rendered, failed = render(text, helm, folder / "values.yaml", page)
    if failed:
        return [failed], []
    manifests = [manifest for manifest in yaml.safe_load_all(rendered) if manifest]
    found, wanted = sorted(manifest["kind"] for manifest in manifests), expected(text)
    reasons = [] if page or found == wanted else [f"rendered {', '.join(found)}, not {wanted}"]
    for manifest in manifests:
        reasons += validate(manifest, kinds)
    twice = [(m["kind"], m["metadata"]["name"]) for m in manifests]
    if len(set(twice)) < len(twice) or any(m["metadata"]["namespace"] != "tools" for m in manifests):
        reasons.append(f"names or namespaces: {twice}")
    deployment = next(manifest for manifest in manifests if manifest["kind"] == "Deployment")
    config = config_of(manifests)
    reasons += hardened(deployment, text) + agrees(deployment, config) + agree_on_labels(manifests) + asks_well(manifests)
    reasons += without_effect(text, manifests) + reach_each_other(manifests, config)
    if ("restartOnChange: true" in text) != ("checksum/configuration" in rendered):
        reasons.append("restartOnChange has no effect")
    if binary:
        reasons += check_config(binary, manifests, etc, folder)
    return reasons, manifests


def refused(settings, words, helm):
    done = call([helm, "template", "gate", CHART, *(part for setting in settings for part in ("--set", setting))])
    if done.returncode == 0:
        return ["was accepted"]
    return [] if words in done.stdout else [f"refused without {words!r}: {done.stdout}"]


def report(found, manifests):
    for name, reasons in found.items():
        print(f"{'FAIL' if reasons else 'ok  '} {name}")
        for reason in reasons:
            print("       " + reason.strip().replace("\n", "\n       "))
    failed = sum(bool(reasons) for reasons in found.values())
    print(f"{len(VERSIONS)} versions of Kubernetes, {len(manifests)} sets of values, {sum(map(len, manifests.values()))} manifests")
    print(f"{len(found) - failed} passed, {failed} failed")
    return 1 if failed else 0


def outside_kubernetes(folder):
    """Returns the errors in the alerts and the dashboard that the block in docs/observing.md creates for a Prometheus job."""
    [block] = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/observing.md").read_text(), re.MULTILINE | re.DOTALL)
    place = folder / "outside"
    shutil.copytree(CHART, place / "helm")
    must(["sh", "-ec", block], cwd=place)
    rules = yaml.safe_load((place / "lockgate-alerts.yaml").read_text())
    dashboard = (place / "lockgate-dashboard.json").read_text()
    made = [{"kind": "PrometheusRule", "metadata": {"name": "alerts"}, "spec": rules},
            {"kind": "ConfigMap", "metadata": {"name": "a-dashboard"}, "data": {"lockgate.json": dashboard}}]
    asked = list(expressions(made))
    bare = [text for text in asked if 'job="lockgate"' not in text or "$" in text or "@" in text]
    return asks_well(made) + bare + ([] if len(asked) > 30 else [f"only {len(asked)} expressions"])


def judge_all(binary, helm):
    """Prints every check with its errors; returns the exit code."""
    found = {"schema of config": schema_is_ours(binary)} if binary else {}
    kinds = json.loads((HERE / "kinds.json").read_text())
    values = {file.stem: file.read_text() for file in sorted((HERE / "cases").glob("*.yaml"))}
    if len(values) < CASES:
        sys.exit(f"run: {len(values)} cases, not {CASES}")
    for page, at_least in PAGES.items():
        values |= values_of_page(page, at_least)
    manifests = {}
    with tempfile.TemporaryDirectory(prefix="lockgate-helm-") as scratch:
        folder = Path(scratch)
        places = {"folder": folder, "etc": make_files(folder, binary) if binary else None}
        for name, text in values.items():
            found[f"values {name}"], manifests[name] = judge(name, text, helm, binary, places, kinds)
        found["alerts and dashboard outside Kubernetes"] = outside_kubernetes(folder)
        found["origin of the chart"] = names_its_origin()
        found["every value is in a case"] = untried(values)
        others = {f"{m['kind']} {m['apiVersion']}" for all_of in manifests.values() for m in all_of} & set(kinds)
        found["kinds of others are all used"] = sorted(set(kinds) - others)
        asked = sorted(asked_metrics(manifests["monitoring"]))
        found["metrics are asked for"] = [] if len(asked) > 20 else [f"only {asked}"]
        for name in ("minimal", "tls-cert-manager") if binary else ():
            found[f"helm test {name}"] = tested(binary, manifests[name], places["etc"], folder)
        if binary:
            found["doors and store"] = doors(binary, manifests["platform"], places["etc"], folder)
            found["probes over both families"] = families(binary, manifests["minimal"], places["etc"], folder)
            found["changed volumes are taken over"] = taken_over(binary, manifests["files"], places["etc"], folder)
    for name, (settings, words) in REFUSED.items():
        found[f"refuses {name}"] = refused(settings, words, helm)
    return report(found, manifests)
