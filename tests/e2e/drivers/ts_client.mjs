// Drives npm `@modelcontextprotocol/client` 2.x: era legacy, auto, or pinned to 2026-07-28.
// drivers/README.md describes the interface.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { capabilitiesFor, Inbox, play, readOptions, readScript } from './script.mjs';

const MODES = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };

function transportFor(options) {
  if (options.stdio) {
    const [command, ...args] = options.stdio;
    return new StdioClientTransport({ command, args, env: { ...process.env } });
  }
  const Transport = options.transport === 'sse' ? SSEClientTransport : StreamableHTTPClientTransport;
  return new Transport(new URL(options.url), { requestInit: { headers: options.headers } });
}

const options = readOptions();
const script = await readScript();
const answers = script.answers ?? {};
const inbox = new Inbox();
const client = new Client({ name: 'e2e-ts', version: '1' }, {
  capabilities: capabilitiesFor(answers),
  versionNegotiation: { mode: MODES[options.era] },
});
const ANSWERS = {
  'elicitation/create': answers.elicitation,
  'sampling/createMessage': answers.sampling,
  'roots/list': answers.roots && { roots: answers.roots },
};
for (const [method, answer] of Object.entries(ANSWERS)) {
  if (answer) client.setRequestHandler(method, request => inbox.ask(method, request.params ?? {}, answer));
}
client.fallbackNotificationHandler = async n => inbox.note(n.method, n.params ?? {});
client.onerror = error => inbox.note('error', { message: String(error.message ?? error) });
const transport = transportFor(options);

await play({
  client,
  async connect() {
    await client.connect(transport, { timeout: options.timeout });
    return {
      protocolVersion: client.getNegotiatedProtocolVersion(),
      serverInfo: client.getServerVersion() ?? null,
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions() ?? null,
    };
  },
  list: (method, params) => client[method](params, { timeout: options.timeout, cacheMode: 'bypass' }),
  call: (params, request) => client.callTool(params, request),
  async listen(step, request) {
    const filter = Object.fromEntries((step.lists ?? []).map(kind => [`${kind}ListChanged`, true]));
    if (step.uris) filter.resourceSubscriptions = step.uris;
    const subscription = await client.listen(filter, request);
    return { honored: subscription.honoredFilter };
  },
  close: () => client.close(),
}, inbox, script, options);
