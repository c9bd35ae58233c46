"""Properties of the chart's manifests: they are valid, hardened, consistent, and contain every value."""

import json
import re
from pathlib import Path

import jsonschema
import kubernetes_validate
import promql_parser
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "helm"
VERSIONS = ("1.29", "1.32", "1.35")


def hardened(deployment, values):
    """Checks the mandatory hardening of a pod."""
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    own, whole = container["securityContext"], pod["securityContext"]
    variables = {entry["name"]: entry.get("valueFrom", {}).get("secretKeyRef") for entry in container["env"]}
    probes = [container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    facts = {
        "non-root": whole["runAsNonRoot"] is True and whole.get("runAsUser", 1) > 0,
        "a user of its own, or the platform's": ("runAsUser" in whole) == ("runAsUser: null" not in values),
        "read-only root": own["readOnlyRootFilesystem"] is True,
        "no escalation": own["allowPrivilegeEscalation"] is False and own["capabilities"] == {"drop": ["ALL"]},
        "seccomp": whole["seccompProfile"]["type"] == "RuntimeDefault",
        "no token of a service account": pod["automountServiceAccountToken"] is False,
        "a service account of its own": pod["serviceAccountName"] != "default",
        "secrets by reference": all(variables[name] for name in variables if re.search("KEY|SECRET|URL", name)),
        "probes": [probe["path"] for probe in probes] == ["/healthz", "/healthz", "/readyz"],
        "probes on a port of their own": {probe["port"] for probe in probes} == {"admin"},
        "resources": {"requests", "limits"} <= set(container["resources"]),
        "files as folders": "subPath" not in str(container["volumeMounts"]),
        "a mount for each volume": {mount["name"] for mount in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]},
        "no gap": "\nstrategy: " in values or deployment["spec"]["strategy"] in ({"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {
            "maxUnavailable": 0, "maxSurge": 1}}),
    }
    return [f"lost: {fact}" for fact, holds in facts.items() if not holds]


def agrees(deployment, config):
    """The pod's grace period exceeds the gateway's shutdown time (draining, running calls, final responses), and the pod has the
    variables and files that the configuration refers to."""
    given = yaml.safe_load(config)
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    grace, needed = pod["terminationGracePeriodSeconds"], given["http"]["drain"] + 30 + 2
    reasons = [] if grace > needed else [f"terminationGracePeriodSeconds {grace} is not more than {needed}"]
    known = {entry["name"] for entry in container["env"]}
    unknown = set(re.findall(r"\$\{(\w+)\}", config)) - known
    if unknown and "envFrom" not in container:
        reasons.append(f"the configuration refers to {sorted(unknown)}, which the pod does not have")
    folders = {mount["mountPath"] for mount in container["volumeMounts"]}
    for path in re.findall(r"/(?:etc|var/lib)/lockgate/[\w/.*-]+", config):
        if not any(path.startswith(folder + "/") for folder in folders):
            reasons.append(f"no volume holds {path}")
    return reasons


def agree_on_labels(manifests):
    """Services, budgets, policies and monitors select their pods or Service, and not the test's pod."""
    def matches(selector, manifest):
        return selector.items() <= manifest["metadata"]["labels"].items()

    deployment = next(manifest for manifest in manifests if manifest["kind"] == "Deployment")
    template, services = deployment["spec"]["template"], [m for m in manifests if m["kind"] == "Service"]
    selectors = {f"Service {service['metadata']['name']}": service["spec"]["selector"] for service in services}
    selectors["Deployment"] = deployment["spec"]["selector"]["matchLabels"]
    for manifest in manifests:
        if manifest["kind"] in ("PodDisruptionBudget", "NetworkPolicy"):
            selector = manifest["spec"].get("selector") or manifest["spec"]["podSelector"]
            selectors[manifest["kind"]] = selector["matchLabels"]
    tests = [manifest for manifest in manifests if manifest["kind"] == "Pod"]
    reasons = [f"{name} does not select the pods" for name, selector in selectors.items() if not matches(selector, template)]
    reasons += [f"{name} selects the pod of the test" for name, selector in selectors.items() if any(matches(selector, t) for t in tests)]
    for monitor in (manifest for manifest in manifests if manifest["kind"] == "ServiceMonitor"):
        found = [service for service in services if matches(monitor["spec"]["selector"]["matchLabels"], service)]
        ports = [port["name"] for service in found for port in service["spec"]["ports"]]
        if ports != [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]]:
            reasons.append(f"the ServiceMonitor finds the ports {ports}")
    return reasons


def expressions(manifests):
    """Yields every Prometheus expression of the alerts and of the dashboard."""
    for manifest in manifests:
        if manifest["kind"] == "PrometheusRule":
            yield from (rule["expr"] for group in manifest["spec"]["groups"] for rule in group["rules"])
        if manifest["metadata"]["name"].endswith("-dashboard"):
            panels = json.loads(manifest["data"]["lockgate.json"])["panels"]
            yield from (target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"])


def known_metrics():
    """Returns the names in docs/observing.md, which tests/integration/metrics.rs compares with the program."""
    rows = re.findall(r"^\| (`(?:lockgate|process|mcp)_.*?) \|", (ROOT / "docs/observing.md").read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def asked_metrics(manifests):
    """Returns the metrics in the alerts, the dashboard and the autoscaling."""
    asked = [json.dumps(manifest) for manifest in manifests if manifest["kind"] == "HorizontalPodAutoscaler"]
    names = re.findall(r"\b(?:lockgate|process|mcp)_\w+", " ".join([*asked, *expressions(manifests)]))
    return {re.sub("(?<=_seconds)_(bucket|sum|count)$", "", name) for name in names}


def asks_well(manifests):
    """Checks that the expressions are valid PromQL, and that their metrics exist."""
    reasons = [f"docs/observing.md knows no metric {name}" for name in sorted(asked_metrics(manifests) - known_metrics())]
    for expression in expressions(manifests):
        try:
            promql_parser.parse(expression)
        except ValueError as error:
            reasons.append(f"{expression}: {error}")
    return reasons


def leaves(node, path=()):
    """Yields every scalar below a node with its keys; all items of a list share the list's keys."""
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(node, list) and node:
        for value in node:
            yield from leaves(value, path)
    else:
        yield path, node


def without_effect(text, manifests):
    """Returns the texts and numbers of these values that are missing in the manifests."""
    given = "\n".join(f"{'.'.join(path)}: {value}" for manifest in manifests for path, value in leaves(manifest))
    wanted = {str(value) for _, value in leaves(yaml.safe_load(text)) if value not in (None, "", True, False, [], {})}
    wanted |= {key for path, _ in leaves(yaml.safe_load(text)) for key in path[:-1] if "." in key}
    return [f"{value!r} has no effect" for value in sorted(wanted) if value not in given and json.dumps(value)[1:-1] not in given]


def untried(values):
    """Returns the values of the chart that no case sets."""
    default = yaml.safe_load((CHART / "values.yaml").read_text())
    set_somewhere = {path[:at] for text in values.values() for path, _ in leaves(yaml.safe_load(text)) for at in range(1, len(path) + 1)}
    # A list is a single value, independent of its contents.
    wanted = {next((path[:at] for at in range(1, len(path)) if isinstance(value_at(default, path[:at]), list)), path)
              for path, _ in leaves(default) if path[0] != "config"}
    return [f"no case sets {'.'.join(path)}" for path in sorted(wanted - set_somewhere)]


def value_at(node, path):
    for key in path:
        node = node[key] if isinstance(node, dict) else None
    return node


def validate(manifest, kinds):
    reasons = []
    other = kinds.get(f"{manifest['kind']} {manifest['apiVersion']}")
    if other:
        whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": manifest["metadata"]}
        reasons += [f"{manifest['kind']}: {error.json_path} {error.message}"
                    for error in jsonschema.Draft7Validator(other).iter_errors(manifest["spec"])]
        manifest = whole
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            reasons.append(f"{manifest['kind']} at {version}: {error.message}")
    return reasons


def config_of(manifests):
    return next(m["data"]["lockgate.yaml"] for m in manifests if m["kind"] == "ConfigMap" and "lockgate.yaml" in m["data"])
