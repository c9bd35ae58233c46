// Checks beyond the official suite: concurrent questions to two clients, subscriptions and announced changes that reach only
// their client, and messages without a level. Two clients on the official TypeScript SDK, in the era of the given revision;
// writes its checks in the suite's format.
//
//   node notices.mjs CACHE-FOLDER REVISION --url URL --output-dir FOLDER [--slug SLUG]

import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: 'string' },
    'output-dir': { type: 'string' },
    slug: { type: 'string' },
  },
});
const [cache, revision] = positionals;
const { Client, StreamableHTTPClientTransport } = createRequire(join(cache, 'notices.cjs'))(
  '@modelcontextprotocol/client',
);
const MODERN = revision >= '2026-07-28';
// A gateway may combine several changes; no notification takes longer.
const SOON_MS = 4000;
// Silence after which no notification is expected.
const SILENCE_MS = 1000;
const CALL_MS = 15_000;
const NOTES = [
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
  'notifications/message',
];

const named = name => (options.slug ? `${options.slug}__${name}` : name);
const located = uri => (options.slug ? `${options.slug}+${uri}` : uri);
const WATCHED = located('test://watched-resource');

/** A client that answers everything with its name and records its notifications. */
async function connect(name) {
  const client = new Client(
    { name, version: '1.0.0' },
    {
      capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
      versionNegotiation: { mode: MODERN ? { pin: revision } : 'legacy' },
    },
  );
  const filled = ({ type }) => (type === 'boolean' ? true : name);
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    if (params.message.includes('decline')) return { action: 'decline' };
    const fields = Object.entries(params.requestedSchema.properties);
    const content = Object.fromEntries(fields.map(([key, field]) => [key, filled(field)]));
    return { action: 'accept', content };
  });
  client.setRequestHandler('sampling/createMessage', async () => ({
    role: 'assistant',
    model: 'none',
    content: { type: 'text', text: `said ${name}` },
  }));
  client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: `file:///${name}` }] }));
  const heard = [];
  let wake = () => {};
  for (const method of NOTES) {
    client.setNotificationHandler(method, note => {
      heard.push({ method, uri: note.params?.uri });
      wake();
    });
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(options.url)), {
    timeout: CALL_MS,
  });

  const call = async (tool, args = {}, more = {}) => {
    const settings = { timeout: CALL_MS, ...more };
    const { content, isError } = await client.callTool(
      { name: named(tool), arguments: args },
      settings,
    );
    const text = content.map(part => part.text).join(' ');
    if (isError) throw new Error(`${tool}: ${text}`);
    return text;
  };
    /** Returns whether the notification arrives in time. */
  const hears = async (method, uri, ms = SOON_MS) => {
    const end = Date.now() + ms;
    const is = note => note.method === method && note.uri === uri;
    while (!heard.some(is) && Date.now() < end) {
      await new Promise(resolve => {
        wake = resolve;
        setTimeout(resolve, end - Date.now());
      });
    }
    return heard.some(is);
  };
  return { client, call, hears, forget: () => heard.splice(0) };
}

const checks = [];

async function check(id, description, work) {
  const timestamp = new Date().toISOString();
  const entry = { id, name: id, description, timestamp };
  try {
    await work();
    checks.push({ ...entry, status: 'SUCCESS' });
  } catch (error) {
    checks.push({ ...entry, status: 'FAILURE', errorMessage: error.message });
  }
}

function expect(holds, words) {
  if (!holds) throw new Error(words);
}

const [ada, bob] = [await connect('ada'), await connect('bob')];

async function asksBoth(tool, args, words) {
  const [first, second] = await Promise.all([ada.call(tool, args), bob.call(tool, args)]);
  const isOwn = first.includes(words('ada')) && second.includes(words('bob'));
  expect(isOwn, `answered ${first} and ${second}`);
}

await check('form-to-each', 'A question reaches the client whose call it is', () =>
  asksBoth('test_elicitation', { message: 'Who?' }, name => name),
);
await check('model-of-each', 'A completion is asked of the client whose call it is', () =>
  asksBoth('test_sampling', { prompt: 'Who?' }, name => `said ${name}`),
);
await check('roots-of-each', 'Roots are those of the client whose call it is', () =>
  asksBoth('test_input_required_result_list_roots', {}, name => `file:///${name}`),
);
await check('three-questions', 'Three questions of one call are answered', () =>
  asksBoth('test_input_required_result_multiple_inputs', {}, name => name),
);
await check('two-rounds', 'Questions one after the other are answered', () =>
  asksBoth('test_input_required_result_multi_round', {}, name => `${name} likes ${name}`),
);
await check('declined', 'A user who declines is told of as one', async () => {
  const text = await ada.call('test_elicitation', { message: 'Please decline' });
  expect(text.includes('action=decline'), text);
});
await check('progress', 'Progress arrives in order', async () => {
  const seen = [];
  await ada.call('test_tool_with_progress', {}, { onprogress: ({ progress }) => seen.push(progress) });
  // A step that a slow client has not read is replaced by the next one.
  expect(/^0,(50,)?100$/.test(seen.join()), `progress ${seen}`);
});
await check('completion', 'An argument of a prompt is completed', async () => {
  const { completion } = await ada.client.complete({
    ref: { type: 'ref/prompt', name: named('test_prompt_with_arguments') },
    argument: { name: 'arg1', value: 'par' },
  });
  expect(completion.values.includes('paris'), `values ${completion.values}`);
});
if (!MODERN) {
  await check('log-without-level', 'A client that set no level hears what it hears directly', async () => {
    await ada.call('test_tool_with_logging');
    expect(await ada.hears('notifications/message'), 'no message');
  });
}

let subscription;
await check('subscribes', 'What can be read can be subscribed to', async () => {
  if (!MODERN) return ada.client.subscribeResource({ uri: WATCHED }, { timeout: CALL_MS });
  subscription = await ada.client.listen({
    toolsListChanged: true,
    promptsListChanged: true,
    resourcesListChanged: true,
    resourceSubscriptions: [WATCHED],
  });
  const { resourceSubscriptions } = subscription.honoredFilter;
  expect(resourceSubscriptions?.includes(WATCHED), JSON.stringify(subscription.honoredFilter));
});
const update = () => ada.call('test_trigger_resource_update', { uri: 'test://watched-resource' });
const UPDATED = 'notifications/resources/updated';
await check('updated', 'An update arrives, under the name that the client knows', async () => {
  await update();
  expect(await ada.hears(UPDATED, WATCHED), 'no update');
});
await check('updated-again', 'So does the next one', async () => {
  ada.forget();
  await update();
  expect(await ada.hears(UPDATED, WATCHED), 'no second update');
});
await check('not-subscribed', 'Who has not subscribed hears nothing', async () => {
  expect(!(await bob.hears(UPDATED, WATCHED, SILENCE_MS)), 'another client heard of it');
});
for (const kind of ['tool', 'prompt', 'resource']) {
  await check(`${kind}s-changed`, 'A changed list is announced', async () => {
    await ada.call(`test_trigger_${kind}_change`);
    expect(await ada.hears(`notifications/${kind}s/list_changed`), 'not announced');
  });
}
await check('unsubscribed', 'Who has unsubscribed hears nothing', async () => {
  await (MODERN ? subscription.close() : ada.client.unsubscribeResource({ uri: WATCHED }));
  ada.forget();
  await update();
  expect(!(await ada.hears(UPDATED, WATCHED, SILENCE_MS)), 'still told');
});

const folder = join(options['output-dir'], 'server-notices');
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, 'checks.json'), JSON.stringify(checks, null, 2));
process.exit(0);
