// Plays the client of a client scenario with the official TypeScript SDK, against the given URL: the gateway's endpoint, or the
// suite's mock server itself. The mock server judges the result.
//
//   node driver.mjs CACHE-FOLDER URL

import { createRequire } from 'node:module';
import { join } from 'node:path';

const [cache, url] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = createRequire(join(cache, 'driver.cjs'))(
  '@modelcontextprotocol/client',
);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const revision = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const TIMEOUT_MS = 30_000;

// The invalid tools of `http-invalid-tool-headers`, which a gateway must hide.
const HIDDEN = [
  'invalid_empty_header',
  'invalid_object_header',
  'invalid_array_header',
  'invalid_null_header',
  'invalid_duplicate_same_case',
  'invalid_duplicate_diff_case',
  'invalid_space_in_name',
  'invalid_colon_in_name',
  'invalid_non_ascii_name',
  'invalid_control_char_name',
];
const BEHIND_GATEWAY = url.includes('/servers/mock/');

/** Connects in the era of the scenario's revision. `answer` returns the content of an accepted form. */
async function connected(answer, work) {
  const modern = revision >= '2026-07-28';
  const client = new Client(
    { name: 'conformance-driver', version: '1.0.0' },
    {
      capabilities: answer ? { elicitation: { form: {} } } : {},
      versionNegotiation: { mode: modern ? { pin: revision } : 'legacy' },
    },
  );
  if (answer) {
    client.setRequestHandler('elicitation/create', async ({ params }) => ({
      action: 'accept',
      content: await answer(params, client),
    }));
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(url)), { timeout: TIMEOUT_MS });
  try {
    await work(client);
  } finally {
    await client.close();
  }
}

const call = (client, name, args = {}) =>
  client.callTool({ name, arguments: args }, { timeout: TIMEOUT_MS });

/** Runs a step that the server may reject without failing the scenario. */
async function attempt(what, step) {
  try {
    return await step();
  } catch (error) {
    console.error(`${what}: ${error.message}`);
  }
}

const defaultsOf = (params) =>
  Object.fromEntries(
    Object.entries(params.requestedSchema.properties)
      .filter(([, property]) => property.default !== undefined)
      .map(([name, property]) => [name, property.default]),
  );

const listAndCallFirst = () =>
  connected(undefined, async (client) => {
    const { tools } = await client.listTools();
    if (tools.length > 0) await call(client, tools[0].name, { a: 2, b: 3 });
  });

const scenarios = {
  initialize: listAndCallFirst,
  tools_call: listAndCallFirst,

  'elicitation-sep1034-client-defaults': () =>
    connected(defaultsOf, async (client) => {
            // The mock server asks on the GET stream, and drops the question unless that is open.
      await client.listTools();
      await call(client, 'test_client_elicitation_defaults');
    }),

  'sse-retry': () => connected(undefined, (client) => call(client, 'test_reconnection')),

  'json-schema-2020-12-preservation': () =>
    connected(undefined, async (client) => {
      const { tools } = await client.listTools();
      const focal = tools.find((tool) => tool.name === 'json_schema_2020_12_tool');
      await call(client, 'json_schema_echo', { schema: focal.inputSchema });
    }),

  'request-metadata': () =>
    connected(undefined, (client) =>
            // The mock server declares no capabilities, so a gateway may reject lists.
      attempt('tools/list', () => client.listTools()),
    ),

  'sep-2322-client-request-state': () => {
    let unrelated = false;
    const confirm = async (_params, client) => {
      if (!unrelated) {
        unrelated = true;
        await call(client, 'test_mrtr_unrelated');
      }
      return { confirmed: true };
    };
    return connected(confirm, async (client) => {
      await client.listTools();
      await call(client, 'test_mrtr_echo_state');
      await call(client, 'test_mrtr_no_state');
      await call(client, 'test_mrtr_no_result_type');
    });
  },

  'http-standard-headers': () =>
    connected(undefined, async (client) => {
      for (const { name } of (await client.listTools()).tools) await call(client, name);
      for (const { uri } of (await client.listResources()).resources) {
        await attempt(uri, () => client.readResource({ uri }));
      }
      for (const { name } of (await client.listPrompts()).prompts) {
        await attempt(name, () => client.getPrompt({ name }));
      }
    }),

  'http-custom-headers': () =>
    connected(undefined, async (client) => {
      await client.listTools();
      for (const { name, arguments: args } of context.toolCalls) await call(client, name, args);
    }),

  'http-invalid-tool-headers': () =>
    connected(undefined, async (client) => {
      const { tools } = await client.listTools();
      const names = tools.map((tool) => tool.name);
            // A hidden tool must not be callable either, which only a gateway can ensure.
      if (BEHIND_GATEWAY) names.push(...HIDDEN);
      for (const name of names) {
        await attempt(name, () => call(client, name, { region: 'eu', value: 'x' }));
      }
    }),

  'json-schema-ref-no-deref': () => connected(undefined, (client) => client.listTools()),
};

/** Connects an account as a user's browser does: confirms, and follows the authorization server back. */
async function authorize(link) {
  const page = await fetch(link);
  const text = await page.text();
  if (!page.ok) throw new Error(`${link}: ${page.status} ${text}`);
  const [, token] = /name="token" value="([^"]+)"/.exec(text);
  const started = await fetch(link, {
    method: 'POST',
    redirect: 'manual',
    headers: { Origin: new URL(link).origin, 'Content-Type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token }),
  });
  if (started.status !== 303) throw new Error(`${link}: ${started.status} ${await started.text()}`);
  const cookie = started.headers.get('set-cookie').split(';')[0];
  const away = await fetch(started.headers.get('location'), { redirect: 'manual' });
  const back = await fetch(away.headers.get('location'), { headers: { cookie } });
  if (!back.ok) throw new Error(`callback: ${back.status} ${await back.text()}`);
}

/** Calls each tool, and grants what the server requires, at most three times. */
const callWithAccount = () =>
  connected(undefined, async (client) => {
    let tools = [];
    for (const end = Date.now() + TIMEOUT_MS; tools.length === 0 && Date.now() < end; ) {
      const list = await attempt('tools/list', () => client.listTools());
      // Until the lists are read, a tool of the gateway stands for the server.
      tools = (list?.tools ?? []).filter((tool) => tool.name !== 'connect');
      await new Promise((done) => setTimeout(done, 100));
    }
    for (const { name } of tools) {
      for (let round = 0; round < 3; round += 1) {
        const result = await call(client, name);
        const prompt = result._meta?.['io.github.lockgate/connect'];
        if (!prompt) break;
        await authorize(prompt.url);
      }
    }
  });

async function playAuth() {
  if (!/^auth\/(client-credentials|wif)/.test(scenario)) {
    await authorize(new URL('/connect/mock', url));
  }
  await callWithAccount();
}

const play = scenario.startsWith('auth/') ? playAuth : scenarios[scenario];
if (!play) throw new Error(`no such scenario: ${scenario}`);
await play();
process.exit(0);
