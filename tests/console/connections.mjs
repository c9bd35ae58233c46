// Accounts at a server behind a real authorization server, npm's `oidc-provider`: registration, consent, refresh, step-up and
// revocation, in a browser without scripts on the gateway's pages.

import http from 'node:http';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import Provider from 'oidc-provider';

import { check, equal, Gateway, holds, send, until } from './check.mjs';
import { findViolations, openProfile } from './browser.mjs';
import { answerProvider } from './sign_in.mjs';
import { startTools, startWeb } from './world.mjs';

/** Seconds that an access token lives. */
const LIFETIME = 3;

/** An authorization server for one resource; counts its grants by type, and what it revoked. */
async function startAuthority(resource) {
  let answer;
  const server = http.createServer((request, response) => answer(request, response));
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const issuer = `http://localhost:${server.address().port}`;
  const provider = new Provider(issuer, {
    scopes: ['openid', 'offline_access', 'mcp', 'write'],
    cookies: { keys: ['what the cookies of the provider are signed with'] },
    rotateRefreshToken: true,
    issueRefreshToken: (_, client, code) => client.grantTypeAllowed('refresh_token') && code.scopes.has('offline_access'),
    features: {
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, indicator) => {
          equal(indicator, resource);
          return { scope: 'mcp write', accessTokenTTL: LIFETIME, accessTokenFormat: 'opaque' };
        },
      },
    },
  });
  const authority = { issuer, provider, refreshed: 0, revoked: 0, close: () => { server.closeAllConnections(); server.close(); } };
  provider.on('grant.success', ({ oidc }) => { authority.refreshed += Number(oidc.params.grant_type === 'refresh_token'); });
  provider.on('grant.revoked', () => { authority.revoked += 1; });
  answer = provider.callback();
  return authority;
}

/** A server whose calls need a token, and say whose it is. */
async function startServer() {
  const state = {};
  const tools = await startTools([{ name: 'whoami', inputSchema: { type: 'object' } }], () => ({ content: [] }));
  state.origin = await startWeb(async (request, response, body) => {
    const say = (status, content, headers) => response.writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(content));
    if (request.url.startsWith('/.well-known/oauth-protected-resource')) {
      return say(200, { resource: `${state.origin}/mcp`, authorization_servers: [state.authority.issuer], scopes_supported: ['mcp'] });
    }
    const message = body && JSON.parse(body);
    if (message.method !== 'tools/call') {
      const answer = await fetch(tools.url, { method: request.method, body: body || undefined });
      return response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
    }
    const token = await state.authority.provider.AccessToken.find(request.headers.authorization?.slice('Bearer '.length));
    const metadata = `resource_metadata="${state.origin}/.well-known/oauth-protected-resource/mcp"`;
    if (!token || token.isExpired) return say(401, {}, { 'www-authenticate': `Bearer ${metadata}` });
    if (message.params.arguments.write && !token.scope.includes('write')) {
      return say(403, {}, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="write"' });
    }
    return say(200, { jsonrpc: '2.0', id: message.id, result: { content: [{ type: 'text', text: token.accountId }] } });
  });
  state.authority = await startAuthority(`${state.origin}/mcp`);
  return state;
}

export async function checkConnections() {
  const server = await startServer();
  const { authority } = server;
  // The address is known once the gateway listens.
  const configure = (origin) => ({
    auth: { keys_file: 'keys.yaml' },
    audit: { file: 'audit.jsonl' },
    http: { public_url: origin },
    servers: { tickets: { url: `${server.origin}/mcp`, auth: { type: 'user', issuer: authority.issuer } } },
  });
  const gateway = await Gateway.start(configure('http://127.0.0.1:9'));
  writeFileSync(join(gateway.folder, 'lockgate.json'), JSON.stringify(configure(gateway.origin)));
  const key = await gateway.key('anna');
  const call = async (args = {}) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ arguments: args });
    const { text } = await send(gateway.origin, 'POST', '/api/tools/tickets__whoami/execute', headers, body);
    return { text, link: /http:[^ "\\]+\/connect\/tickets\?link=[^ "\\]+/.exec(text)?.[0] };
  };
  const profile = await openProfile(gateway, {}, [authority.issuer]);
  const page = await profile.context.newPage();
  const connect = async (link) => {
    await page.goto(link);
    equal(await findViolations(page), []);
    const text = await page.locator('body').innerText();
    holds(text, authority.issuer);
    await page.getByRole('button', { name: 'Connect' }).click();
  };
  await check('an account is connected at a real authorization server', async () => {
    const { link } = await until('the gateway names its address', async () => {
      const said = await call();
      return said.link?.startsWith(gateway.origin) && said;
    });
    await page.goto(link);
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('You sign in at').waitFor();
    await connect(link);
    await answerProvider(page, 'grace');
    await page.getByText('Your account is connected').waitFor();
    equal(await findViolations(page), []);
    holds((await call()).text, 'grace');
  });
  await check('a real authorization server renews the token', async () => {
    await until('the token is renewed twice', async () => {
      holds((await call()).text, 'grace');
      return authority.refreshed >= 2;
    });
  });
  await check('further permissions are granted at a real authorization server', async () => {
    await connect((await call({ write: true })).link);
    await page.waitForURL(/\/interaction\//);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByText('Your account is connected').waitFor();
    holds((await call({ write: true })).text, 'grace');
  });
  await check('an account is disconnected in the console, and revoked', async () => {
    await page.goto('/console/connections');
    equal(await findViolations(page), []);
    await page.getByRole('button', { name: 'Disconnect tickets' }).click();
    await page.getByText('Disconnected. Calls no longer use the account.').waitFor();
    await page.getByText('not connected').waitFor();
    await until('the grant is revoked', () => authority.revoked >= 1);
    holds((await call()).text, '/connect/tickets');
    equal(profile.faults, []);
  });
  await profile.context.close();
  authority.close();
}
