// A real identity provider: npm's `oidc-provider`, with its own pages to sign in. It is called `localhost` and the gateway
// 127.0.0.1, so that a browser takes them for two sites.

import http from 'node:http';

import Provider from 'oidc-provider';

export const CLIENT = { client_id: 'lockgate', client_secret: 'shown-to-the-token-endpoint-alone' };

/** Accounts by their names: what their ID tokens say. */
const ACCOUNTS = {
  grace: { org_id: 'acme', groups: ['operator'] },
  stray: { groups: ['operator'] },
};

/** A provider; `serve(redirect)` lets its client in, `close()` ends it. */
export async function startProvider() {
  let answer = (_, response) => response.writeHead(503).end();
  const server = http.createServer((request, response) => answer(request, response));
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const issuer = `http://localhost:${server.address().port}`;
  const state = {
    issuer,
    codes: [],
    /** An answer is kept in `answer`, and its browser stays. */
    keepsAnswers: false,
    serve(redirect) {
      const provider = new Provider(issuer, {
        clients: [{ ...CLIENT, redirect_uris: [redirect] }],
        claims: { openid: ['sub', 'org_id', 'groups'] },
        conformIdTokenClaims: false,
        cookies: { keys: ['what the cookies of the provider are signed with'] },
        findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...ACCOUNTS[id] }) }),
      });
      provider.on('authorization_code.saved', ({ jti }) => state.codes.push(jti));
      provider.use(async (context, next) => {
        await next();
        const address = context.response.get('location') ?? '';
        if (!state.keepsAnswers || !address.startsWith(`${redirect}?`)) return;
        context.remove('location');
        context.status = 200;
        context.body = 'kept';
        state.answer = address;
      });
      answer = provider.callback();
    },
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => { server.close(resolve); });
    },
  };
  return state;
}
