"""A controllable legacy MCP server over HTTP: it responds, hangs, is slow, returns 500, or changes its list."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HANGS = 30  # seconds at most


class Troubled:
    """A server; `mode` is `well`, `hangs`, `slow` or `fails`, and `tools` are the listed tools."""

    def __init__(self):
        self.mode, self.tools = "well", ["ask"]
        self.released = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/mcp"

    def be(self, mode: str) -> None:
        self.mode = mode
        if mode == "hangs":
            self.released.clear()
        else:
            self.released.set()

    def close(self) -> None:
        self.released.set()
        self.http.shutdown()

    def result(self, message: dict) -> dict:
        method = message.get("method")
        if method == "initialize":
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "troubled", "version": "1"}}
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]}
        if method == "tools/call":
            return {"content": [{"type": "text", "text": message["params"]["name"]}]}
        return {}

    def handler(troubled):  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if troubled.mode == "hangs":
                    troubled.released.wait(HANGS)
                elif troubled.mode == "slow" and message.get("method") == "tools/call":
                    threading.Event().wait(0.7)
                if troubled.mode == "fails":
                    return self.say(500, b"the disk is on fire")
                if "id" not in message:
                    return self.say(202, b"")
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": troubled.result(message)}
                self.say(200, json.dumps(answer).encode())

            def do_GET(self):
                self.say(405, b"")

            do_DELETE = do_GET

            def say(self, status, body):
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # The caller has disconnected.

            def log_message(self, *_):
                pass

        return Handler
