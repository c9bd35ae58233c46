"""Drives the command line of npm `@modelcontextprotocol/inspector`, with a process and therefore a connection per step.

drivers/README.md describes the interface. Steps beyond its command line are reported as unsupported. It runs with an empty
home folder, without the user's stored credentials and servers.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ENTRY = "npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
METHODS = {
    "connect": ("initialize", {}),
    "list_tools": ("tools/list", {}),
    "list_resources": ("resources/list", {}),
    "list_resource_templates": ("resources/templates/list", {}),
    "list_prompts": ("prompts/list", {}),
    "call_tool": ("tools/call", {"name": "--tool-name"}),
    "read_resource": ("resources/read", {"uri": "--uri"}),
    "get_prompt": ("prompts/get", {"name": "--prompt-name"}),
    "set_log_level": ("logging/setLevel", {"level": "--log-level"}),
}
# Features that one-shot commands lack.
BEYOND = {"progress", "cancel_after", "log_level"}


def command_for(options, step, node, cache):
    method, flags = METHODS[step["do"]]
    got = [node, str(cache / ENTRY), "--cli"]
    # The inspector would parse options of the server's command, so a shell wraps them.
    got += ["sh", "-c", "exec " + shlex.join(options.stdio)] if options.stdio else ["--server-url", options.url, "--transport", options.transport]
    if options.token:
        got += ["--header", f"Authorization: Bearer {options.token}"]
    got += ["--method", method, "--protocol-era", options.era]
    for key, flag in flags.items():
        got += [flag, step[key]]
    if step["do"] == "call_tool":
        got += ["--tool-args-json", json.dumps(step.get("arguments") or {})]
    if step["do"] == "get_prompt" and step.get("arguments"):
        got += ["--prompt-args", *[f"{k}={v}" for k, v in step["arguments"].items()]]
    # The inspector would pass options that it does not support on to a stdio server, so these are omitted there.
    return got if options.stdio else got + ["--format", "json", "--stored-auth-only"]


def outcome(options, step, node, cache, home):
    verb = step["do"]
    if verb not in METHODS or BEYOND & step.keys():
        return {"step": verb, "ok": False, "error": {"code": "unsupported", "message": verb}}
    try:
        got = subprocess.run(command_for(options, step, node, cache), capture_output=True, text=True,
                             timeout=step.get("timeout", options.timeout), stdin=subprocess.DEVNULL,
                             env={**os.environ, "HOME": home, "NO_COLOR": "1"})
    except subprocess.TimeoutExpired:
        return {"step": verb, "ok": False, "error": {"code": "timeout", "message": "the step took too long"}}
    # Exit code 5 with a result on standard output is a tool result with isError.
    if got.stdout.strip() and got.returncode in (0, 5):
        result = json.loads(got.stdout)
        return {"step": verb, "ok": True, "result": result.get("result", result), "exit": got.returncode}
    return {"step": verb, "ok": False, "error": described(got.stderr), "exit": got.returncode}


def described(stderr):
    for line in reversed(stderr.strip().splitlines()):
        try:
            error = json.loads(line)["error"]
        except (ValueError, KeyError, TypeError):
            continue
        said = re.match(r"MCP error (-?\d+): (.*)", error["message"], re.S)
        return {"code": int(said[1]), "message": said[2]} if said else error
    return {"code": "error", "message": stderr.strip()[-800:]}


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--url")
    flags.add_argument("--era", choices=("legacy", "auto", "modern"), default="legacy")
    flags.add_argument("--transport", choices=("http", "sse"), default="http")
    flags.add_argument("--timeout", type=float, default=20)
    flags.add_argument("--run-timeout", type=float, default=90)
    flags.add_argument("--stdio", nargs=argparse.REMAINDER)
    options = flags.parse_args()
    options.token = os.environ.pop("E2E_TOKEN", None)
    cache = Path(os.environ["LOCKGATE_CACHE"])
    node = os.environ["E2E_NODE"]
    script = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="lockgate-inspector-") as home:
        for step in [{"do": "connect"}, *script["steps"]]:
            line = outcome(options, step, node, cache, home)
            print(json.dumps({**line, "notifications": [], "asked": []}, ensure_ascii=False), flush=True)
            if step["do"] == "connect" and not line["ok"]:
                return


main()
