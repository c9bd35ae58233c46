"""Drives PyPI `mcp` 2.x with the script on standard input; drivers/README.md describes the interface.

It reports the client library's results without judging them. Every step and the whole run have a time limit.
"""

import argparse
import json
import os
import sys
import warnings
from contextlib import AsyncExitStack

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

PAGES = 50
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
LISTS = {
    "list_tools": "tools",
    "list_resources": "resources",
    "list_resource_templates": "resource_templates",
    "list_prompts": "prompts",
}


def plain(model) -> object:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class Driver:
    """A connected client, and the messages since the last report."""

    def __init__(self, options, script):
        self.options = options
        self.answers = script.get("answers") or {}
        self.notifications: list[dict] = []
        self.asked: list[dict] = []
        self.marked: list[str] = []  # methods received since the last mark
        self.arrived = anyio.Event()
        self.stack = AsyncExitStack()
        self.client: Client | None = None

    # messages from the server

    def note(self, method, params):
        self.notifications.append({"method": method, "params": params})
        self.marked.append(method)
        self.arrived.set()
        self.arrived = anyio.Event()

    async def on_message(self, message):
        if isinstance(message, Exception):
            self.note("error", {"message": f"{type(message).__name__}: {message}"})
        elif message.method != "notifications/progress":
            self.note(message.method, plain(message.params) if message.params else {})

    async def on_elicitation(self, _context, params):
        self.asked.append({"method": "elicitation/create", "params": plain(params)})
        return types.ElicitResult.model_validate(self.answers["elicitation"])

    async def on_sampling(self, _context, params):
        self.asked.append({"method": "sampling/createMessage", "params": plain(params)})
        return types.CreateMessageResult.model_validate(self.answers["sampling"])

    async def on_roots(self, _context):
        self.asked.append({"method": "roots/list", "params": {}})
        return types.ListRootsResult(roots=self.answers["roots"])

    # connecting

    def target(self):
        o = self.options
        if o.stdio:
            return StdioServerParameters(command=o.stdio[0], args=o.stdio[1:], env=dict(os.environ))
        headers = {"Authorization": f"Bearer {o.token}"} if o.token else {}
        if o.transport == "sse":
            return sse_client(o.url, headers=headers)
        http = httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300), trust_env=False)
        return streamable_http_client(o.url, http_client=http)

    async def connect(self, _step):
        mode = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}[self.options.era]
        self.client = await self.stack.enter_async_context(Client(
            self.target(),
            mode=mode,
            read_timeout_seconds=self.options.timeout,
            message_handler=self.on_message,
            elicitation_callback=self.on_elicitation if "elicitation" in self.answers else None,
            sampling_callback=self.on_sampling if "sampling" in self.answers else None,
            list_roots_callback=self.on_roots if "roots" in self.answers else None,
            client_info=types.Implementation(name="e2e-py", version="1"),
        ))
        c = self.client
        return {
            "protocolVersion": c.protocol_version,
            "serverInfo": plain(c.server_info) if c.server_info else None,
            "capabilities": plain(c.server_capabilities),
            "instructions": c.instructions,
        }

    # the steps

    async def list_all(self, verb, step):
        items, cursor, key = [], None, LISTS[verb]
        for page in range(1, PAGES + 1):
            got = await getattr(self.client, verb)(cursor=cursor, cache_mode="bypass")
            items += [plain(i) for i in getattr(got, key)]
            cursor = got.next_cursor
            if cursor is None:
                break
        name = "resourceTemplates" if key == "resource_templates" else key
        return {name: items, "pages": page}

    async def call_tool(self, step):
        async def progress(done, total, message):
            params = {"progress": done, "total": total, "message": message}
            self.note("notifications/progress", {k: v for k, v in params.items() if v is not None})

        meta = {LOG_LEVEL: step["log_level"]} if "log_level" in step else None
        after = step.get("cancel_after")
        with anyio.move_on_after(after) if after else anyio.CancelScope() as scope:
            got = await self.client.call_tool(
                step["name"], step.get("arguments"),
                progress_callback=progress if step.get("progress") else None, meta=meta)
            return plain(got)
        assert scope.cancelled_caught
        raise Cancelled

    async def read_resource(self, step):
        return plain(await self.client.read_resource(step["uri"], cache_mode="bypass"))

    async def get_prompt(self, step):
        return plain(await self.client.get_prompt(step["name"], step.get("arguments")))

    async def complete(self, step):
        kind = types.PromptReference if step["ref"]["type"] == "ref/prompt" else types.ResourceTemplateReference
        return plain(await self.client.complete(
            kind.model_validate(step["ref"]), step["argument"], step.get("context")))

    async def set_log_level(self, step):
        return plain(await self.client.set_logging_level(step["level"]))

    async def ping(self, _step):
        return plain(await self.client.send_ping())

    async def subscribe(self, step):
        return plain(await self.client.subscribe_resource(step["uri"]))

    async def unsubscribe(self, step):
        return plain(await self.client.unsubscribe_resource(step["uri"]))

    async def listen(self, step):
        """Modern only. The stream stays open until the run ends; events arrive as notifications."""
        kinds = {f"{kind}_list_changed": True for kind in step.get("lists", [])}
        sub = await self.stack.enter_async_context(
            self.client.listen(resource_subscriptions=step.get("uris", []), **kinds))
        return {"honored": plain(sub.honored)}

    async def wait_for(self, step):
        """Waits until a notification of `method` has arrived since the last mark."""
        with anyio.fail_after(step.get("timeout", 10)):
            while step["method"] not in self.marked:
                await self.arrived.wait()
        return {}

    async def mark(self, _step):
        self.marked.clear()
        return {}

    async def wait(self, step):
        await anyio.sleep(step["seconds"])
        return {}

    async def parallel(self, step):
        outcomes: list = [None] * len(step["steps"])

        async def one(index, inner):
            outcomes[index] = await self.outcome(inner)

        async with anyio.create_task_group() as group:
            for index, inner in enumerate(step["steps"]):
                group.start_soon(one, index, inner)
        return {"outcomes": outcomes}

    async def outcome(self, step):
        verb = step["do"]
        try:
            if verb in LASTING:
                result = await getattr(self, verb)(step)
            elif verb in LISTS or verb in STEPS:
                with anyio.fail_after(step.get("timeout", self.options.timeout)):
                    result = await (self.list_all(verb, step) if verb in LISTS else getattr(self, verb)(step))
            else:
                return {"step": verb, "ok": False, "error": {"code": "unsupported", "message": verb}}
            return {"step": verb, "ok": True, "result": result}
        except Exception as error:
            return {"step": verb, "ok": False, "error": described(error)}

    async def report(self, step):
        line = await self.outcome(step)
        line["notifications"], self.notifications = self.notifications, []
        line["asked"], self.asked = self.asked, []
        print(json.dumps(line, ensure_ascii=False), flush=True)
        return line["ok"]


STEPS = ("call_tool", "read_resource", "get_prompt", "complete", "set_log_level", "ping", "subscribe",
         "unsubscribe", "mark", "wait_for", "wait", "parallel")
# These open scopes that outlive the step and cannot be nested in ours: the run's deadline limits them.
LASTING = ("connect", "listen")


class Cancelled(Exception):
    pass


def described(error):
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, Cancelled):
        return {"code": "cancelled", "message": "cancelled by the client"}
    if isinstance(error, TimeoutError):
        return {"code": "timeout", "message": str(error) or "the step took too long"}
    code = getattr(error, "code", None)
    if isinstance(code, int):
        got = {"code": code, "message": error.message}
        if error.data is not None:
            got["data"] = error.data
        return got
    return {"code": type(error).__name__, "message": str(error)}


def read_options():
    flags = argparse.ArgumentParser()
    flags.add_argument("--url")
    flags.add_argument("--era", choices=("legacy", "auto", "modern"), default="auto")
    flags.add_argument("--transport", choices=("http", "sse"), default="http")
    flags.add_argument("--timeout", type=float, default=20)
    flags.add_argument("--run-timeout", type=float, default=90)
    flags.add_argument("--stdio", nargs=argparse.REMAINDER)
    options = flags.parse_args()
    options.token = os.environ.pop("E2E_TOKEN", None)
    return options


async def main():
    warnings.simplefilter("ignore")
    options = read_options()
    script = json.load(sys.stdin)
    driver = Driver(options, script)
    with anyio.move_on_after(options.timeout) as limit:
        async with driver.stack:
            if await driver.report({"do": "connect"}):
                limit.deadline = anyio.current_time() + options.run_timeout
                for step in script["steps"]:
                    await driver.report(step)
    if limit.cancelled_caught:
        print(json.dumps({"step": "run", "ok": False, "error": {"code": "timeout", "message": "the run took too long"},
                          "notifications": driver.notifications, "asked": driver.asked}), flush=True)


anyio.run(main)
