"""A server on the Python SDK with the SDK's own authorization server: `account_server.py`.

It prints its port. Each authorization is of another user: `user-1`, `user-2`, and so on. Lists require no account, calls do.
"""

import secrets
import socket
import time

import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken

# So short that tokens are renewed between calls.
LIFETIME = 2


class Authority:
    """Keeps clients, codes and tokens in memory; the SDK checks requests, clients and PKCE."""

    def __init__(self):
        self.clients, self.codes, self.access, self.refresh = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client):
        self.clients[client.client_id] = client

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_hex(20), scopes=params.scopes or ["mcp"], expires_at=time.time() + 60, client_id=client.client_id,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, subject=f"user-{len(self.codes) + 1}")
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state, iss=ISSUER)

    async def load_authorization_code(self, client, code):
        return self.codes.get(code)

    async def exchange_authorization_code(self, client, code):
        # The code stays counted, and is of no use a second time.
        self.codes[code.code] = code.model_copy(update={"expires_at": 0})
        return self.issue(code)

    async def load_refresh_token(self, client, token):
        return self.refresh.get(token)

    async def exchange_refresh_token(self, client, token, scopes):
        del self.refresh[token.token]
        return self.issue(token)

    async def load_access_token(self, token):
        return self.access.get(token)

    async def revoke_token(self, token):
        for tokens in (self.access, self.refresh):
            for key in [key for key, known in tokens.items() if known.subject == token.subject]:
                del tokens[key]

    def issue(self, of):
        shared = {"client_id": of.client_id, "scopes": of.scopes, "resource": of.resource, "subject": of.subject}
        access = AccessToken(token=secrets.token_hex(20), expires_at=int(time.time()) + LIFETIME, **shared)
        refresh = RefreshToken(token=secrets.token_hex(20), **shared)
        self.access[access.token], self.refresh[refresh.token] = access, refresh
        return OAuthToken(access_token=access.token, token_type="Bearer", expires_in=LIFETIME, refresh_token=refresh.token,
                          scope=" ".join(of.scopes))


listener = socket.create_server(("127.0.0.1", 0))
ISSUER = f"http://127.0.0.1:{listener.getsockname()[1]}"
server = MCPServer(
    "accounts", auth_server_provider=Authority(),
    auth=AuthSettings(issuer_url=ISSUER, resource_server_url=f"{ISSUER}/mcp", required_scopes=["mcp"], validate_token_resource=True,
                      client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["mcp"]),
                      revocation_options=RevocationOptions(enabled=True)))


@server.tool()
def whoami() -> str:
    return get_access_token().subject


print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run([listener])
