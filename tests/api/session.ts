// A complete session with a client generated from the OpenAPI document: an integration is added, validated, assigned to an agent,
// called and removed. The compiler checks every path, parameter and member against the document.

import createClient from 'openapi-fetch';
import type { paths } from './schema.js';

declare const process: { argv: string[]; exit(code: number): never };

const [, , gateway, key, server] = process.argv as [string, string, string, string, string];
const bearer = { authorization: `Bearer ${key}` };
const api = createClient<paths>({ baseUrl: `${gateway}/api`, headers: bearer });

function holds(given: unknown, what: string): asserts given {
  if (!given) throw new Error(what);
}

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  const end = Date.now() + 15_000;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    holds(Date.now() < end, `waited too long: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

// Validation returns a result without storing the integration.
const name = `Session ${Date.now()}`;
const body = { name, serverUrl: server, authMethod: 'none' as const };
const tried = await api.POST('/mcp-integrations/custom', { params: { query: { dryRun: true } }, body });
holds(tried.response.status === 200 && tried.data?.dryRun, 'a trial');
const made = await api.POST('/mcp-integrations/custom', { body: { ...body, validate: true } });
holds(made.response.status === 201 && made.data, `created: ${JSON.stringify(made.error)}`);
const { id, slug } = made.data;
const taken = await api.POST('/mcp-integrations/custom', { body });
const problem = taken.error as { code: string; status: number } | undefined;
holds(taken.response.status === 409 && problem?.code === 'NAME_TAKEN', 'a name is there once');

const valid = await api.POST('/mcp-integrations/{id}/validate', { params: { path: { id } } });
holds(valid.data?.valid && valid.data.capabilities.tools > 0, 'it is tried and works');

const agent = await api.POST('/agents', { body: { name } });
holds(agent.response.status === 201 && agent.data, 'an agent');
const ids = { id: agent.data.id, integrationId: id };
const available = await api.GET('/agents/{id}/mcp-integrations/available', { params: { path: { id: ids.id } } });
holds(available.data?.items.some((one) => one.id === id), 'it can be assigned');
const assigned = await api.POST('/agents/{id}/mcp-integrations/{integrationId}', { params: { path: ids } });
holds(assigned.data?.integration.id === id, 'it is assigned');

const tool = await until('its tools are listed', async () => {
  const tools = await api.GET('/tools', { params: { query: { server: slug, limit: 200 } } });
  return tools.data?.items.find((one) => one.name.endsWith('test_simple_text'));
});
const called = await api.POST('/tools/{name}/execute', { params: { path: { name: tool.name } }, body: { arguments: {} } });
holds(called.response.status === 200, `it is called: ${JSON.stringify(called.error)}`);

// The document leaves the arguments open: the tool describes them.
const add = { params: { path: { name: 'example__add' } }, body: { arguments: { a: 1, b: 2 } } };
const added = await api.POST('/tools/{name}/execute', add);
holds(added.data?.structuredContent?.['sum'] === 3, `its arguments arrive: ${JSON.stringify(added.data ?? added.error)}`);
const parameters = { name: 'example__add', arguments: { a: 20, b: 3 } };
const over = await api.POST('/mcp/{method}', { params: { path: { method: 'tools/call' } }, body: parameters });
holds((over.data as { structuredContent?: { sum?: number } } | undefined)?.structuredContent?.sum === 23, 'so do bare ones');

// The agent's MCP endpoint offers the tool under the same name.
const asked = await fetch(agent.data.endpoint.startsWith('http') ? agent.data.endpoint : gateway + agent.data.endpoint, {
  method: 'POST',
  headers: { ...bearer, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
  body: JSON.stringify({
    jsonrpc: '2.0', id: 1, method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'session', version: '1' } },
  }),
});
holds(asked.status === 200 && asked.headers.get('mcp-session-id'), 'the agent has an endpoint');

const renamed = await api.PATCH('/mcp-integrations/{id}', {
  params: { path: { id }, header: { 'If-Match': '"7"' } }, body: { name: `${name} anew` },
});
holds(renamed.response.status === 412, 'a change of another version');
const unassigned = await api.DELETE('/agents/{id}/mcp-integrations/{integrationId}', { params: { path: ids } });
holds(unassigned.response.status === 204, 'it is taken from the agent');
const gone = await api.DELETE('/mcp-integrations/{id}', { params: { path: { id } } });
holds(gone.response.status === 204, 'it is deleted');
const left = await api.GET('/mcp-integrations/{id}', { params: { path: { id } } });
holds(left.response.status === 404, 'it is gone');
holds((await api.DELETE('/agents/{id}', { params: { path: { id: ids.id } } })).response.status === 204, 'so is the agent');
console.log('a whole session');
