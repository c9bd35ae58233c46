"""A server on the Python SDK that requires a valid `Lockgate-Identity`: `knowing_server.py AUDIENCE ISSUER KEY_SET`.

It prints its port. PyJWT fetches the gateway's keys and verifies; `verify` is the example of docs/authentication.md.
"""

import socket
import sys

import jwt
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.responses import PlainTextResponse

AUDIENCE, ISSUER, KEY_SET = sys.argv[1:]
# No cooldown, so that the test of a new key does not wait for 30 s.
KEYS = jwt.PyJWKClient(KEY_SET, cooldown_duration=0)
server = MCPServer("knowing")


def verify(token: str) -> dict:
    key = KEYS.get_signing_key_from_jwt(token)
    return jwt.decode(token, key, algorithms=["ES256"], audience=AUDIENCE, issuer=ISSUER, leeway=5,
                      options={"require": ["exp", "iat", "sub"]})


@server.tool()
def whoami(context: Context) -> str:
    return verify(context.headers["lockgate-identity"])["sub"]


class Guard:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            verify(Request(scope).headers.get("lockgate-identity", ""))
        except jwt.PyJWTError as error:
            print(f"refused: {error}", file=sys.stderr, flush=True)
            return await PlainTextResponse("who are you?", 401)(scope, receive, send)
        return await self.app(scope, receive, send)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = Guard(server.streamable_http_app())
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
