// What the gateway of the tests has before it and behind it: servers that work, and one for each stage that fails.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Gateway, send, until } from './check.mjs';

const POLICIES = `
policies:
  - { name: everybody, effect: allow }
  - { name: thirteen, effect: deny, what: { tools: [tracker/close_issue] }, when: "arguments.id == 13" }
  - { name: seldom, effect: deny, what: { tools: [tracker/count_issues] }, rate: { per_hour: 2 } }
  - { name: no-readers, effect: deny, who: { roles: [reader] }, what: { tools: [tracker/audit_issues] } }
  - name: reopening
    effect: ask
    what: { tools: [tracker/reopen_issue] }
    approval: { by: { roles: [operator] } }
`;

const children = new Set();
const listeners = new Set();
const folders = new Set();

/** The fixture server over HTTP; gives its address. */
export async function startFixture() {
  const child = spawn(process.env.LOCKGATE_FIXTURE, ['--http', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'ignore'] });
  children.add(child);
  let text = '';
  child.stdout.on('data', (part) => { text += part; });
  return until('the fixture server listens', () => /listening (\S+)/.exec(text)?.[1]);
}

/** A server that answers as `answer(request, response, body)` says. */
export async function startWeb(answer) {
  const server = http.createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => answer(request, response, Buffer.concat(parts).toString()));
  });
  return listen(server);
}

/** Something that is no web server. */
export const startSocket = async (handle) => listen(net.createServer(handle));

async function listen(server) {
  listeners.add(server);
  server.on('error', () => {});
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return `http://127.0.0.1:${server.address().port}`;
}

/** An address of this machine that nothing listens at. */
export async function closedAddress() {
  const server = net.createServer();
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const { port } = server.address();
  await new Promise((resolve) => { server.close(resolve); });
  return `http://127.0.0.1:${port}`;
}

/** A server that answers every request with this status. */
export const startStatus = async (status) => `${await startWeb((_, response) => response.writeHead(status).end())}/mcp`;

/** A server that answers as a web site does. */
export const startSite = async () => `${await startWeb((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>wiki</h1>'))}/mcp`;

/** An MCP server of 2025-06-18 with these tools, whose list can be replaced while it runs. */
export async function startTools(tools, answerCall) {
  const state = { tools };
  state.url = `${await startWeb((request, response, body) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    if (state.hangs) return undefined;
    const message = JSON.parse(body);
    if (message.id === undefined) return response.writeHead(202).end();
    if (message.method === 'tools/list' && !state.tools) return response.writeHead(500).end();
    const results = {
      initialize: () => ({
        protocolVersion: '2025-06-18', serverInfo: { name: 'tools', version: '1' }, capabilities: { tools: { listChanged: true } },
      }),
      ping: () => ({}),
      'tools/list': state.tools && (() => ({ tools: state.tools })),
      'tools/call': () => answerCall(message.params),
    };
    if (message.method === 'tools/call' && state.stream) return state.stream(response, message);
    if (state.refusal && message.method === state.refusal.method) {
      const error = JSON.stringify({ jsonrpc: '2.0', id: message.id, error: { code: -32603, message: state.refusal.words } });
      return response.writeHead(200, { 'content-type': 'application/json' }).end(error);
    }
    const isKnown = typeof results[message.method] === 'function';
    const answer = isKnown
      ? { jsonrpc: '2.0', id: message.id, result: results[message.method]() }
      : { jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'unknown' } };
    return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  })}/mcp`;
  return state;
}

export const tool = (name, description, properties = {}, required = []) => ({
  name, description, inputSchema: { type: 'object', properties, required },
});

/** What no page may break at: a name as long as they get, words from right to left, and signs beyond the usual ones. */
export const STRANGE = {
  name: `translate_everything_there_is_${'x'.repeat(20)}`,
  description: 'מתרגם הכול לעברית 🛶🏞️ — ويكتب من اليمين إلى اليسار، مع كلمة طويلةجداًجداًجداًجداًجداًجداًجداًجداًجداًجداًجداًجداً.',
};

/** Arguments of every kind that a form has fields for. */
const FILED = {
  title: { type: 'string', maxLength: 80 },
  code: { type: 'string', pattern: '^[A-Z]{3}$', description: 'The project' },
  votes: { type: 'integer', minimum: 1, maximum: 10 },
  due: { type: 'string', format: 'date' },
  labels: { type: 'array', items: { type: 'string', maxLength: 20 }, maxItems: 3 },
  people: { type: 'array', items: { type: 'object', properties: { name: { type: 'string', maxLength: 40 } }, required: ['name'] } },
};

/** What a tool answers beside text: a picture of one pixel, and a resource. */
const PICTURE = [
  { type: 'image', mimeType: 'image/png', data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==' },
  { type: 'resource_link', uri: 'issue://1', name: 'Issue 1' },
];

/** A gateway with keys, servers that work and servers that do not. */
export async function startWorld(config = {}) {
  const world = { fixture: await startFixture() };
  world.tracker = await startTools(
    [
      tool('find_issue', 'Finds issues by their words.', {
        words: { type: 'string', description: 'What to look for' },
        limit: { type: 'integer', description: 'Most issues', default: 10 },
        state: { enum: ['open', 'closed'] },
      }, ['words']),
      tool('close_issue', 'Closes an issue.', { id: { type: 'integer' } }, ['id']),
      tool('count_issues', 'Counts issues.'),
      tool('reopen_issue', 'Opens a closed issue again.', { id: { type: 'integer' } }, ['id']),
      tool('break_issue', 'Always fails.'),
      tool('audit_issues', 'Lists all issues.'),
      tool('file_issue', 'Files an issue.', FILED, ['title', 'code']),
      tool(STRANGE.name, STRANGE.description, { טקסט: { type: 'string', description: 'מה לתרגם' } }, ['טקסט']),
    ],
    ({ name, arguments: given }) => ({
      isError: name === 'break_issue',
      content: [{ type: 'text', text: `${name}: ${JSON.stringify(given)}` }, ...(name === 'file_issue' ? PICTURE : [])],
    }),
  );
  world.closed = `${await closedAddress()}/mcp`;
  const open = await startTools([tool('open', 'Opens the vault.')], () => ({ content: [] }));
  world.locked = `${await startWeb(async (request, response, body) => {
    if (request.headers.authorization !== `Bearer ${world.accepted}`) return response.writeHead(401).end();
    const answer = await fetch(open.url, { method: request.method, body: body || undefined });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
    return response.end(await answer.text());
  })}/mcp`;
  world.ferry = await startTools([tool('cross', 'Crosses the lake.')], () => ({ content: [{ type: 'text', text: 'crossed' }] }));
  world.barge = await startTools([tool('load', 'Loads the barge.')], () => ({ content: [] }));
  const pins = mkdtempSync(join(tmpdir(), 'lockgate-pins-'));
  folders.add(pins);
  world.kiln = await startTools([tool('fire', 'Fires a pot.')], () => ({}));
  // It reports a step at once, and the next ones and its result when the test says so.
  world.kiln.stream = (response, { id, params }) => {
    const send = (message) => response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    world.kiln.progress = (progress, message) => send({
      method: 'notifications/progress', params: { progressToken: params._meta.progressToken, progress, total: 4, message },
    });
    world.kiln.finish = () => {
      send({ id, result: { content: [{ type: 'text', text: 'The pot is fired.' }] } });
      response.end();
    };
    world.kiln.progress(1, 'heating');
  };
  world.choir = (await startTools(null, () => ({}))).url;
  world.gateway = await Gateway.start({
    auth: { keys_file: 'keys.yaml' },
    audit: { file: 'audit.jsonl' },
    egress: { organisations: 'local' },
    pins: { file: join(pins, 'lockgate.pins.json'), new: 'allow' },
    catalogue: {
      library: { url: world.tracker.url, title: 'Library', description: 'Books and who has them.' },
      strongroom: { url: world.locked, title: 'Strongroom', description: 'What is kept under lock.', auth: 'bearer_token' },
    },
    store: { keys: ['a ring of keys that seals what tests store'] },
    servers: {
      tracker: { url: world.tracker.url },
      everything: { command: process.env.LOCKGATE_FIXTURE, args: ['--stdio'] },
      ferry: { url: world.ferry.url },
      barge: { url: world.barge.url },
      kiln: { url: world.kiln.url },
      ledger: { url: `${await closedAddress()}/mcp` },
      archive: { url: 'http://archive.invalid/mcp' },
      wiki: { url: await startSite() },
      harbour: { url: await startStatus(503) },
      mint: { url: `${(await startSocket((socket) => socket.end('no TLS\r\n'))).replace('http:', 'https:')}/mcp` },
      choir: { url: world.choir },
      vault: { url: await startStatus(401) },
      retired: { url: world.tracker.url, enabled: false },
      ...config.servers,
    },
  }, POLICIES);
  world.key = await world.gateway.key('ada', '--role', 'operator');
  await world.gateway.key('מפתח 🔑 with a name that goes on and on until there is hardly any room for another word of it');
  await approveAll(world);
  await createOrganisation(world, 'acme');
  return world;
}

/** Approves every tool as it is, as somebody does who begins to pin. */
async function approveAll(world) {
  const headers = { authorization: `Bearer ${world.key}`, 'content-type': 'application/json' };
  const { items } = JSON.parse((await send(world.gateway.origin, 'GET', '/api/pins/diff?limit=200', headers)).text);
  const tools = items.map(({ name, fingerprint }) => ({ name, fingerprint }));
  const { status, text } = await send(world.gateway.origin, 'POST', '/api/pins/approve', headers, JSON.stringify({ tools }));
  if (status !== 200) throw new Error(text);
}

async function createOrganisation(world, id) {
  const headers = { authorization: `Bearer ${world.key}`, 'content-type': 'application/json' };
  const { status, text } = await send(world.gateway.origin, 'POST', '/api/organisations', headers, JSON.stringify({ id }));
  if (status !== 201) throw new Error(text);
}

export function endWorld() {
  for (const child of children) child.kill('SIGKILL');
  for (const server of listeners) server.close();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
