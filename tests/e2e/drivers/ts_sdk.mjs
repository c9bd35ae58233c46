// Drives npm `@modelcontextprotocol/sdk` 1.x: legacy only, over Streamable HTTP, HTTP+SSE or stdio.
// It ends its session with DELETE, as a well-behaved client does. drivers/README.md describes the interface.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { capabilitiesFor, Inbox, play, readOptions, readScript } from './script.mjs';

function transportFor(options) {
  if (options.stdio) {
    const [command, ...args] = options.stdio;
    return new StdioClientTransport({ command, args, env: { ...process.env } });
  }
  const Transport = options.transport === 'sse' ? SSEClientTransport : StreamableHTTPClientTransport;
  return new Transport(new URL(options.url), { requestInit: { headers: options.headers } });
}

const options = readOptions();
if (options.era !== 'legacy') throw new Error('sdk 1.x speaks the legacy era only');
const script = await readScript();
const answers = script.answers ?? {};
const inbox = new Inbox();
const client = new Client({ name: 'e2e-sdk', version: '1' }, { capabilities: capabilitiesFor(answers) });
const ANSWERS = [
  [ElicitRequestSchema, 'elicitation/create', answers.elicitation],
  [CreateMessageRequestSchema, 'sampling/createMessage', answers.sampling],
  [ListRootsRequestSchema, 'roots/list', answers.roots && { roots: answers.roots }],
];
for (const [schema, method, answer] of ANSWERS) {
  if (answer) client.setRequestHandler(schema, request => inbox.ask(method, request.params ?? {}, answer));
}
client.fallbackNotificationHandler = async n => inbox.note(n.method, n.params ?? {});
client.onerror = error => inbox.note('error', { message: String(error.message ?? error) });
const transport = transportFor(options);

await play({
  client,
  async connect() {
    await client.connect(transport, { timeout: options.timeout });
    return {
      protocolVersion: transport.protocolVersion ?? null,
      serverInfo: client.getServerVersion() ?? null,
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions() ?? null,
      session: Boolean(transport.sessionId),
    };
  },
  list: (method, params) => client[method](params, { timeout: options.timeout }),
  call: (params, request) => client.callTool(params, undefined, request),
  listen: () => Promise.reject(Object.assign(new Error('listen'), { code: 'unsupported' })),
  async close() {
    if (transport.sessionId && transport.terminateSession) await transport.terminateSession();
    await client.close();
  },
}, inbox, script, options);
