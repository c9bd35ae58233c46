// T2 to T6: every link of the real client, against the gateway.

import {
  TRPCClientError, createTRPCClient, httpBatchLink, httpBatchStreamLink, httpLink, httpSubscriptionLink,
  splitLink,
} from '@trpc/client';
import { EventSource } from 'eventsource';
import http from 'node:http';
import net from 'node:net';

import { Gateway, check, equal, holds, pause, send, until } from './check.mjs';

const POLICIES = `policies:
  - { name: all, effect: allow, what: { tools: ['*'] } }
  - { name: hidden, effect: deny, what: { tools: ['f/test_image_content'] } }
  - { name: short, effect: deny, what: { tools: ['example/echo'] }, when: 'has(arguments.text) && arguments.text == "refused"' }
  - { name: slowly, effect: deny, what: { tools: ['f/test_audio_content'] }, rate: { per_day: 1 } }
`;

const failureOf = async (promise) => {
  try {
    await promise;
  } catch (error) {
    holds(error instanceof TRPCClientError, `another error: ${error.stack}`);
    return error;
  }
  throw new Error('it did not fail');
};

const client = (gateway, link, key) => createTRPCClient({
  links: [link({ url: gateway.url, headers: key ? { authorization: `Bearer ${key}` } : {}, maxURLLength: 14000, maxItems: 32 })],
});

const echo = (api, text) => api.mcp.executeTool.mutate({ name: 'example__echo', arguments: { text } });
const textOf = (result) => result.structuredContent.text;

async function batches(gateway, key) {
  for (const [name, link] of [['httpLink', httpLink], ['httpBatchLink', httpBatchLink], ['httpBatchStreamLink', httpBatchStreamLink]]) {
    const api = client(gateway, link, key);
    await check(`T2 ${name}: queries and mutations`, async () => {
      const status = await api.mcp.status.query();
      equal(status.name, 'lockgate');
      const { tools } = await api.mcp.listTools.query({ category: 'example' });
      equal(tools.map((tool) => tool.name), ['example__add', 'example__count', 'example__echo']);
      equal((await api.mcp.listTools.query()).total, status.tools, 'input that is undefined');
      for (const text of ['hello', 'ä,%2C?&#+ \u2028😀', '"\\\n']) equal(textOf(await echo(api, text)), text);
    });
    for (const count of [2, 32, 33]) {
      await check(`T2 ${name}: ${count} calls at once`, async () => {
        const all = await Promise.all(Array.from({ length: count }, (_, at) => echo(api, `n${at}`)));
        equal(all.map(textOf), Array.from({ length: count }, (_, at) => `n${at}`));
      });
    }
    await check(`T2 ${name}: calls that fail, and calls of both kinds`, async () => {
      const unknown = (at) => api.mcp.executeTool.mutate({ name: `nothing__${at}` });
      const failed = await Promise.allSettled([unknown(1), unknown(2)]);
      equal(failed.map((one) => one.reason.data.code), ['NOT_FOUND', 'NOT_FOUND']);
      const mixed = await Promise.allSettled([echo(api, 'a'), unknown(3), echo(api, 'b')]);
      equal(mixed.map((one) => one.status), ['fulfilled', 'rejected', 'fulfilled']);
      equal(mixed[1].reason.message, 'unknown tool: nothing__3');
    });
    await check(`T2 ${name}: GET at maxURLLength`, async () => {
      const error = await failureOf(api.mcp.file.read.query({ path: 'x'.repeat(13000) }));
      equal([error.data.code, error.message], ['NOT_FOUND', 'unknown tool: file/read']);
    });
  }
  await check('T2 httpBatchStreamLink: what ends first resolves first', async () => {
    const api = client(gateway, httpBatchStreamLink, key);
    const order = [];
    const slow = api.mcp.executeTool.mutate({ name: 'example__count', arguments: { n: 3, pause_ms: 200 } });
    await Promise.all([slow.then(() => order.push('slow')), echo(api, 'fast').then(() => order.push('fast'))]);
    equal(order, ['fast', 'slow']);
  });
  await check('T2 httpBatchStreamLink: a client that leaves cancels its calls', async () => {
    const api = client(gateway, httpBatchStreamLink, key);
    const leaves = new AbortController();
    const slow = { name: 'example__count', arguments: { n: 20, pause_ms: 500 } };
    const left = failureOf(api.mcp.executeTool.mutate(slow, { signal: leaves.signal }));
    await until('the call runs', () => gateway.records().some((one) => one.name === 'example__count' && !ended(gateway, one)));
    leaves.abort();
    await left;
    await until('the call is cancelled', () => gateway.records().some((one) => one.outcome === 'cancelled'));
  });
  await check('T2 splitLink', async () => {
    const headers = { authorization: `Bearer ${key}` };
    const api = createTRPCClient({
      links: [splitLink({
        condition: (op) => op.type === 'query',
        true: httpLink({ url: gateway.url, headers }),
        false: httpBatchLink({ url: gateway.url, headers }),
      })],
    });
    equal((await api.mcp.status.query()).name, 'lockgate');
    equal(textOf(await echo(api, 'a')), 'a');
  });
}

const ended = (gateway, decision) => gateway.records().some((one) => one.kind === 'outcome' && one.call === decision.call);

async function failures(gateway, key) {
  const api = client(gateway, httpLink, key);
  const execute = (name, args) => api.mcp.executeTool.mutate({ name, arguments: args });
  const expected = [
    ['BAD_REQUEST', -32600, 400, () => api.mcp.executeTool.mutate({})],
    ['UNAUTHORIZED', -32001, 401, () => client(gateway, httpLink).mcp.status.query()],
    ['FORBIDDEN', -32003, 403, () => execute('example__echo', { text: 'refused' })],
    ['NOT_FOUND', -32004, 404, () => execute('f__test_image_content')],
    ['NOT_FOUND', -32004, 404, () => execute('f__nothing')],
    ['NOT_FOUND', -32004, 404, () => api.mcp.nothing.query()],
    ['METHOD_NOT_SUPPORTED', -32005, 405, () => api.mcp.status.mutate()],
    ['PAYLOAD_TOO_LARGE', -32013, 413, () => execute('example__echo', { text: 'x'.repeat(200000) })],
    ['PAYLOAD_TOO_LARGE', -32013, 414, () => api.mcp.file.read.query({ path: 'x'.repeat(17000) })],
    ['TOO_MANY_REQUESTS', -32029, 429, async () => {
      await execute('f__test_audio_content');
      await execute('f__test_audio_content');
    }],
    ['BAD_GATEWAY', -32603, 502, () => execute('gone__anything')],
    ['PRECONDITION_REQUIRED', -32028, 428, () => execute('f__test_input_required_result_elicitation')],
    ['GATEWAY_TIMEOUT', -32603, 504, () => execute('slow__slow_compute', { seconds: 5 })],
  ];
  for (const [code, number, status, call] of expected) {
    await check(`T3 ${code} ${status}`, async () => {
      const error = await failureOf(call());
      equal([error.data?.code, error.shape?.code, error.data?.httpStatus], [code, number, status], error.message);
      holds(error.data.stack === undefined, 'a stack');
    });
  }
  await check('T3 SERVICE_UNAVAILABLE 503: no room for a call', async () => {
    const slow = () => execute('busy__slow_compute', { seconds: 1 });
    const all = await Promise.allSettled([slow(), slow(), slow(), slow()]);
    const refused = all.filter((one) => one.status === 'rejected').map((one) => one.reason);
    equal(all.length - refused.length, 2, 'calls that are answered');
    for (const error of refused) {
      equal([error.data.code, error.shape.code, error.data.httpStatus], ['SERVICE_UNAVAILABLE', -32603, 503], error.message);
      equal(error.data.server, 'busy');
    }
  });
  await check('T3 a refusal names its policy, and a rate how long to wait', async () => {
    equal((await failureOf(execute('example__echo', { text: 'refused' }))).data.rule, 'short');
    holds((await failureOf(execute('f__test_audio_content'))).data.retryAfter > 0, 'retryAfter');
  });
  await check('T3 a tool that fails is an answer', async () => {
    equal((await execute('f__test_error_handling')).isError, true);
  });
  await check('T3 a media type of others', async () => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'multipart/form-data; boundary=x' };
    const answer = await send(gateway.origin, 'POST', '/trpc/mcp.executeTool', headers, '--x--');
    equal([answer.status, JSON.parse(answer.text).error.data.code], [415, 'UNSUPPORTED_MEDIA_TYPE']);
  });
}

/** Procedures that send requests, and their handling of input. */
async function web() {
  const page = http.createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      response.setHeader('content-type', 'text/html');
      response.end(`<html><body><h1>${request.method}</h1><p>${Buffer.concat(parts)}</p></body></html>`);
    });
  });
  await new Promise((resolve) => page.listen(0, '127.0.0.1', resolve));
  const { port } = page.address();
  const url = `http://127.0.0.1:${port}/`;
  const gateway = await Gateway.start({
    builtin: { web: { any_host: true, ports: [port], addresses: ['127.0.0.1'] } },
  });
  const api = client(gateway, httpBatchLink);
  const content = (result) => {
    holds(!result.isError, JSON.stringify(result.content));
    return result.structuredContent.content ?? result.structuredContent.body;
  };
  await check('mcp.web.fetch gives Markdown, text or the source', async () => {
    holds(content(await api.mcp.web.fetch.query({ url })).includes('# GET'), 'Markdown');
    const text = content(await api.mcp.web.fetch.query({ url, extractText: true, timeout: 5000 }));
    holds(text.includes('GET') && !text.includes('#') && !text.includes('<'), text);
    holds(content(await api.mcp.web.fetch.query({ url, extractText: false })).includes('<h1>GET</h1>'), 'the source');
  });
  await check('mcp.web.request sends what the tool takes', async () => {
    const result = await api.mcp.web.request.mutate({ url, method: 'POST', json: { a: [1] } });
    holds(JSON.stringify(content(result)).includes('POST'), JSON.stringify(result));
    holds(JSON.stringify(content(result)).includes('a'), JSON.stringify(result));
  });
  page.close();
  page.closeAllConnections();
}

/** Starts a proxy to the gateway whose connections can be cut. */
async function startProxy(gateway) {
  const sockets = new Set();
  const target = new URL(gateway.origin);
  let opened = 0;
  const server = net.createServer((socket) => {
    opened += 1;
    const other = net.connect(target.port, target.hostname);
    for (const one of [socket, other]) {
      sockets.add(one);
      one.on('error', () => {});
      one.on('close', () => { sockets.delete(one); socket.destroy(); other.destroy(); });
    }
    socket.pipe(other).pipe(socket);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/trpc`,
    cut: () => sockets.forEach((socket) => socket.destroy()),
    opened: () => opened,
    close: () => { server.close(); sockets.forEach((socket) => socket.destroy()); },
  };
}

const subscriber = (url, key, more = {}) => createTRPCClient({
  links: [httpSubscriptionLink({
    url,
    EventSource,
    eventSourceOptions: async () => ({
      fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...(key ? { authorization: `Bearer ${key}` } : {}) } }),
    }),
    ...more,
  })],
});

function follow(api, input) {
  const heard = { events: [], errors: [], complete: false };
  heard.stop = api.mcp.events.subscribe(input, {
    onStarted: () => { heard.started = true; },
    onData: (event) => heard.events.push(event),
    onError: (error) => heard.errors.push(error),
    onComplete: () => { heard.complete = true; },
  }).unsubscribe;
  return heard;
}

async function subscriptions(gateway, key, operator) {
  const headers = { authorization: `Bearer ${operator}` };
  const reconnect = async () => {
    const answer = await send(gateway.origin, 'POST', '/api/servers/f/reconnect', headers);
    equal(answer.status, 200, answer.text);
  };
  await check('T4 a connection that is cut goes on without loss and without repetition', async () => {
    const proxy = await startProxy(gateway);
    const states = { types: ['server'] };
    const whole = follow(subscriber(gateway.url, key), states);
    const cut = follow(subscriber(proxy.url, key), states);
    await until('both have started', () => whole.started && cut.started);
    const reconnected = async (least) => {
      await reconnect();
      await until(`${least} events`, () => whole.events.length >= least && whole.events.at(-1).data.server.state === 'connected');
    };
    await reconnected(1);
    await reconnected(3);
    await until('as many events', () => cut.events.length >= whole.events.length);
    proxy.cut();
    await reconnected(cut.events.length + 1);
    await until('the events meanwhile', () => cut.events.length >= whole.events.length);
    equal(cut.events.map((event) => event.id), whole.events.map((event) => event.id));
    equal(new Set(cut.events.map((event) => event.id)).size, cut.events.length);
    holds(cut.errors.length === 0, `errors: ${cut.errors}`);
    whole.stop();
    cut.stop();
    proxy.close();
  });
  await check('T4 kinds of events are chosen', async () => {
    const missed = follow(subscriber(gateway.url, key), { types: ['missed'] });
    const server = follow(subscriber(gateway.url, key), { types: ['server'] });
    await until('both have started', () => missed.started && server.started);
    await reconnect();
    await until('an event', () => server.events.length > 0);
    equal(missed.events.length, 0);
    missed.stop();
    server.stop();
  });
  for (const [name, input, own, code, more] of [
    ['bad input', { types: ['x'] }, key, 'BAD_REQUEST', {}],
    ['a stranger', undefined, undefined, 'UNAUTHORIZED', {}],
    ['a wrong key', undefined, 'wrong', 'UNAUTHORIZED', {}],
    ['a key in connectionParams', undefined, undefined, 'UNAUTHORIZED', { connectionParams: { token: 'canary-in-a-url' } }],
  ]) {
    await check(`T4 ${name}: an error, and no loop of connections`, async () => {
      const proxy = await startProxy(gateway);
      const heard = follow(subscriber(proxy.url, own, more), input);
      await until('an error', () => heard.errors.length > 0);
      await pause(1500);
      equal(proxy.opened(), 1, 'connections');
      equal(heard.errors.map((error) => error.data?.code), [code]);
      equal(heard.events, []);
      heard.stop();
      proxy.close();
    });
  }
  await check('T5 no key of a URL is in a log', () => {
    const texts = gateway.log() + JSON.stringify(gateway.records());
    holds(!texts.includes('canary-in-a-url'), 'the key was written');
  });
  await check('T5 a stream ends within 1 s with the key that is revoked, with an error', async () => {
    const doomed = await gateway.key('doomed');
    const proxy = await startProxy(gateway);
    const heard = follow(subscriber(proxy.url, doomed));
    await until('it has started', () => heard.started);
    const before = proxy.opened();
    gateway.keys('revoke', doomed);
    const own = { authorization: `Bearer ${doomed}` };
    await until('the key is revoked', async () => (await send(gateway.origin, 'GET', '/trpc/mcp.status', own)).status === 401);
    const began = Date.now();
    await until('an error', () => heard.errors.length > 0);
    const took = Date.now() - began;
    holds(took < 1000, `${took} ms`);
    equal(heard.errors[0].data?.code, 'UNAUTHORIZED');
    await pause(500);
    equal(proxy.opened(), before, 'connections');
    proxy.close();
  });
  await check('T5 an expired key', async () => {
    const soon = new Date(Date.now() + 3000).toISOString();
    const brief = await gateway.key('brief', '--expires', soon);
    const own = { authorization: `Bearer ${brief}` };
    const heard = follow(subscriber(gateway.url, brief));
    await until('an error', () => heard.errors.length > 0);
    equal(heard.errors[0].data?.code, 'UNAUTHORIZED');
    equal((await send(gateway.origin, 'GET', '/trpc/mcp.status', own)).status, 401);
  });
}

/** T6: calls denied over MCP are denied over tRPC, each with an equal audit record. */
async function verdicts(gateway, key) {
  const corpus = [];
  for (let at = 0; at < 40; at += 1) corpus.push([`f__unknown_${at}`, {}]);
  for (let at = 0; at < 30; at += 1) corpus.push(['f__test_image_content', { at }]);
  for (let at = 0; at < 30; at += 1) corpus.push(['example__echo', { text: 'refused', at }]);
  await check('T6 100 denied calls have the same verdicts and one record each, over MCP and tRPC', async () => {
    const api = client(gateway, httpBatchLink, key);
    const before = gateway.records().length;
    const overTrpc = [];
    for (const [name, args] of corpus) {
      const error = await failureOf(api.mcp.executeTool.mutate({ name, arguments: args }));
      overTrpc.push([error.data.code, error.message]);
    }
    const overMcp = [];
    for (const [name, args] of corpus) {
      const params = {
        name, arguments: args,
        _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} },
      };
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
      const headers = {
        authorization: `Bearer ${key}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': name, 'content-length': Buffer.byteLength(body),
      };
      const { result, error } = JSON.parse((await send(gateway.origin, 'POST', '/mcp', headers, body)).text);
      overMcp.push(error ? ['NOT_FOUND', error.message] : ['FORBIDDEN', result.content[0].text]);
    }
    equal(overTrpc, overMcp);
    const decisions = await until('200 records', () => {
      const found = gateway.records().slice(before).filter((one) => one.kind === 'decision');
      return found.length >= 200 && found;
    });
    equal(decisions.length, 200);
    const verdict = ({ decision, rule, reason, server, name }) => ({ decision, rule, reason, server, name });
    equal(decisions.slice(0, 100).map(verdict), decisions.slice(100).map(verdict));
    equal(decisions.map((one) => one.transport ?? 'mcp'), [...Array(100).fill('trpc'), ...Array(100).fill('mcp')]);
    holds(decisions.every((one) => one.decision === 'deny'), 'all are denials');
  });
}

export async function links() {
  const gone = http.createServer();
  await new Promise((resolve) => gone.listen(0, '127.0.0.1', resolve));
  const { port } = gone.address();
  gone.close();
  const fixture = { command: process.env.LOCKGATE_FIXTURE, args: ['--stdio'] };
  const gateway = await Gateway.start({
    servers: {
      f: fixture,
      slow: { ...fixture, tool_timeouts: { slow_compute: 1 } },
      busy: { ...fixture, concurrency: 1, queue: 1 },
      gone: { url: `http://127.0.0.1:${port}/mcp` },
    },
    builtin: { example: true, system: false },
    auth: { keys_file: 'keys.yaml' },
    audit: { output: 'file', file: 'audit.jsonl' },
    http: { body_bytes: 100000 },
  }, POLICIES);
  const key = await gateway.key('user');
  const operator = await gateway.key('operator', '--role', 'operator');
  await until('the tools are there', async () => (await client(gateway, httpLink, key).mcp.status.query()).tools > 10);
  await batches(gateway, key);
  await failures(gateway, key);
  await subscriptions(gateway, key, operator);
  await verdicts(gateway, key);
  await web();
}
