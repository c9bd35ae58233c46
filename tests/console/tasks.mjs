// What people come for, from its beginning to its end: once with the mouse, once by keyboard alone.

import { check, equal, holds, until } from './check.mjs';
import { KeyboardHands, MouseHands, openProfile } from './browser.mjs';
import { tool } from './world.mjs';

/** Each is done by somebody who has signed in. `mark` tells the two runs apart. */
const TASKS = {
  async 'sign in with a key, and out'(hands, world) {
    await hands.press('button', 'Sign out');
    await hands.see('The browser does not keep the key');
    await hands.type('API key', `${world.key}x`);
    await hands.press('button', 'Sign in');
    await hands.see('key is unknown, expired or revoked');
    await hands.type('API key', world.key);
    await hands.press('button', 'Sign in');
    await hands.see('Needs somebody');
  },

  async 'add a server, assign it to an agent, and follow it'(hands, world, mark) {
    await hands.go('/console/servers');
    await hands.press('link', 'Add a server');
    await hands.type('Name', `Notes ${mark}`);
    await hands.type('Address', world.fixture);
    await hands.press('button', 'Try it, store nothing');
    await hands.see('It works, and would be accepted.');
    await hands.press('button', 'Add the server');
    await hands.see(`notes-${mark} is connected.`);
    await hands.press('link', 'Agents');
    await hands.type('Name', `Desk ${mark}`);
    await hands.press('button', 'Create the agent');
    await hands.press('switch', `Notes ${mark}`);
    await hands.page.locator(`[role=switch][aria-checked=true][aria-label="Notes ${mark}"]`).waitFor();
    const endpoint = await hands.page.locator('.code pre').first().textContent();
    const tools = await listTools(endpoint, world.key);
    holds(tools.some((name) => name.startsWith(`notes-${mark}__`)), `${endpoint} lists ${tools}`);
    world.agentPath = new URL(hands.page.url()).pathname;
  },

  async 'repair a wrong address'(hands, world, mark) {
    await hands.go('/console/integrations/new');
    await hands.type('Name', `Ledger ${mark}`);
    await hands.type('Address', world.closed);
    await hands.press('button', 'Add the server');
    await hands.see('connect failed. Nothing is stored.');
    await hands.press('button', 'Add it as it is');
    await hands.press('link', 'Mend its address');
    await hands.type('Address', world.fixture);
    await hands.press('button', 'Save the changes');
    await hands.press('button', 'Try it now');
    await hands.see('It works.');
    world.integrationPath = new URL(hands.page.url()).pathname.replace(/\/try$/, '');
    await hands.press('link', `ledger-${mark}`);
    await hands.see(`ledger-${mark} is connected.`);
  },

  async 'rotate a credential'(hands, world, mark) {
    world.accepted = 'opens-until-noon';
    await hands.go('/console/integrations/new');
    await hands.type('Name', `Vault ${mark}`);
    await hands.type('Address', world.locked);
    await hands.choose('How Lockgate shows it who it is', 'A bearer token');
    await hands.type('Key or token', 'opens-until-noon');
    await hands.press('button', 'Add the server');
    await hands.see(`vault-${mark} is connected.`);
    world.accepted = 'opens-from-noon';
    await hands.press('link', 'Change it');
    await hands.press('button', 'Try it now');
    await hands.see('It does not work.');
    await hands.see('auth');
    await hands.type('New key or token', 'opens-from-noon');
    await hands.press('button', 'Save the changes');
    await hands.press('button', 'Try it now');
    await hands.see('It works.');
    holds(!(await hands.page.content()).includes('opens-from-noon'), 'the credential is on the page');
  },

  async 'add a server from the catalogue'(hands, world, mark) {
    await hands.go('/console/servers');
    await hands.press('link', 'Add a server');
    await hands.press('link', /^Strongroom/);
    await hands.type('Name', `Strongroom ${mark}`);
    await hands.type('Key or token', 'opens-nothing');
    await hands.press('button', 'Try it, store nothing');
    await hands.see('It does not work yet.');
    await hands.page.locator('#trial .stage', { hasText: 'auth' }).waitFor();
    await hands.type('Key or token', 'opens-from-noon');
    await hands.press('button', 'Try it, store nothing');
    await hands.see('It works, and would be accepted.');
    equal(await hands.page.getByLabel('Key or token').inputValue(), 'opens-from-noon', 'what was typed stays');
    await hands.press('button', 'Add the server');
    await hands.see(/strongroom\S* is connected\./);
    holds(!(await hands.page.content()).includes('opens-from-noon'), 'the credential is on the page');
    await hands.press('link', 'Change it');
    await hands.press('link', 'Take it away …');
    await hands.press('button', 'Take it away');
    await hands.page.getByRole('heading', { name: 'Servers' }).waitFor();
  },

  async 'two administrators at once are told'(hands, world, mark) {
    const other = await hands.page.context().newPage();
    await hands.go(world.integrationPath);
    await other.goto(world.integrationPath);
    await other.getByLabel('Name', { exact: true }).fill(`Theirs ${mark}`);
    await other.getByRole('button', { name: 'Save the changes' }).click();
    await other.waitForLoadState();
    await other.close();
    await hands.type('Name', `Mine ${mark}`);
    await hands.press('button', 'Save the changes');
    await hands.see('Somebody else has changed this server');
    equal(await hands.page.getByLabel('Name', { exact: true }).inputValue(), `Mine ${mark}`);
    await hands.press('button', 'Save the changes');
    await hands.page.getByRole('heading', { name: `Mine ${mark}` }).waitFor();
  },

  async 'explain a decision'(hands) {
    await hands.press('link', 'Access');
    await hands.type('Tool', 'tracker/find_issue');
    await hands.type('Arguments', '{"words": ');
    await hands.press('button', 'Explain');
    await hands.see('This must be JSON');
    await hands.type('Arguments', '{"words": "lost"}');
    await hands.press('button', 'Explain');
    await hands.see('Allowed');
  },

  async 'try a tool'(hands) {
    await hands.press('link', 'Tools');
    await hands.type('Search by name', 'find_issue');
    await hands.press('link', 'tracker__find_issue');
    await hands.type('words required', 'lost boats');
    await hands.choose('state', 'closed');
    await hands.press('button', 'Call tracker__find_issue');
    await hands.see('find_issue: {"words":"lost boats","limit":10,"state":"closed"}');
  },

  async 'try policy cases'(hands) {
    await hands.go('/console/access?call=tracker/close_issue&arguments=%7B%22id%22%3A13%7D');
    await hands.see('thirteen');
    await hands.press('link', 'Make a test case of it');
    await hands.press('button', 'Try the cases');
    await hands.see('All came out as expected.');
    await hands.type('Cases', '[{"name": "twelve", "call": "tracker/close_issue", "arguments": {"id": 12}, "expect": "deny"}]');
    await hands.press('button', 'Try the cases');
    await hands.see('Some came out otherwise.');
  },

  async 'approve a call'(hands, world, mark) {
    const caller = await world.gateway.key(`caller ${mark}`);
    const id = mark === 'mouse' ? 7 : 8;
    const call = callTool(`${world.gateway.origin}/mcp`, caller, 'tracker__reopen_issue', { id });
    await until('the call waits', async () => {
      await hands.go('/console/approvals');
      return hands.page.getByRole('link', { name: 'Look and decide' }).count();
    });
    await hands.press('link', 'Look and decide');
    await hands.see(`"id":${id}`);
    world.approvalPath = new URL(hands.page.url()).pathname;
    await hands.press('button', 'Approve this call, once');
    const { result } = await call;
    await hands.page.getByRole('heading', { name: 'Approvals' }).waitFor();
    equal(result.content[0].text, `reopen_issue: {"id":${id}}`);
  },

  async 'approve a changed tool'(hands, world, mark) {
    const cross = () => callTool(`${world.gateway.origin}/mcp`, world.key, 'ferry__cross');
    world.ferry.tools = [tool('cross', `Crosses the lake, and tells ${mark} of it.`)];
    await hands.go('/console/servers/ferry');
    await hands.press('button', 'Reconnect');
    await hands.press('link', 'Compare and approve');
    await hands.see('Nobody sees or calls it until it is approved.');
    const change = hands.page.locator('tr.changed');
    equal(await change.count(), 1, 'lines that differ');
    holds((await change.locator('ins').textContent()).includes(mark), 'what is new of it is marked');
    holds((await cross()).error, 'the changed tool is hidden');
    // It changes once more while somebody reads.
    world.ferry.tools = [tool('cross', `Crosses the lake, for ${mark}.`)];
    const other = await hands.page.context().newPage();
    await other.goto('/console/servers/ferry');
    await other.getByRole('button', { name: 'Reconnect' }).click();
    await other.getByText('ferry is connected.').waitFor();
    await other.close();
    await hands.press('button', 'Approve ferry/cross');
    await hands.see('A tool has changed once more since you looked.');
    holds((await change.locator('.after').textContent()).includes(`for ${mark}`), 'the newest definition is shown');
    await hands.press('button', 'Approve ferry/cross');
    await hands.see('1 tool is offered as you saw it.');
    const { result } = await cross();
    equal(result.content[0].text, 'crossed');
  },

  async 'find a call in the audit'(hands, world) {
    await hands.press('link', 'Audit');
    await hands.type('Tool or name', 'tracker__find_issue');
    await hands.choose('Decision', 'Allowed');
    await hands.press('button', 'Search');
    await hands.see('Nothing is missing in what was looked at.');
    const row = hands.page.locator('tbody tr').first();
    await row.getByText('tracker__find_issue').waitFor();
    await hands.follow(row.getByRole('link'));
    await hands.see('The record');
    world.recordPath = new URL(hands.page.url()).pathname;
    await hands.press('link', 'Explain this decision as policies are now');
    await hands.see('Allowed');
  },

  async 'follow live activity'(hands, world, mark) {
    await hands.press('link', 'Activity');
    await hands.page.locator('#calls').waitFor();
    await hands.page.getByText(`missing_${mark}`).waitFor({ state: 'detached' });
    await hands.see('New ones come by themselves.');
    const asked = [];
    const note = (request) => asked.push(request.url());
    hands.page.on('request', note);
    await callTool(`${world.gateway.origin}/mcp`, world.key, `missing_${mark}`);
    await hands.see(`missing_${mark}`);
    // Another tab takes nothing away from what it follows, and each change is asked for once.
    await callTool(`${world.gateway.origin}/mcp`, world.key, 'tracker__find_issue', { words: `live ${mark}` });
    await hands.page.locator('#calls tbody tr').filter({ hasText: 'tracker__find_issue' }).filter({ hasText: 'ok' }).first().waitFor();
    hands.page.off('request', note);
    holds(asked.length <= 4, `it was asked ${asked.length} times for two calls: ${asked}`);
    // A stream that breaks is opened again, and what happened meanwhile is shown.
    await hands.page.context().setOffline(true);
    await hands.page.evaluate(() => document.querySelector('#live')._htmx.sse.reader.cancel());
    await hands.see('Not followed just now');
    await callTool(`${world.gateway.origin}/mcp`, world.key, `away_${mark}`);
    await hands.page.context().setOffline(false);
    await hands.see(`away_${mark}`);
    await hands.press('link', 'Hold it here');
    await hands.page.getByRole('link', { name: 'Follow again' }).waitFor();
  },

  async 'end the sessions of somebody'(hands, world, mark) {
    const key = await world.gateway.key(`guest ${mark}`);
    const guests = [];
    for (const next of ['/console/servers', '/console/tools']) {
      const profile = await openProfile(world.gateway);
      const page = await profile.context.newPage();
      await page.goto(`/console/sign-in?next=${next}`);
      await page.getByLabel('API key').fill(key);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.waitForURL(`**${next}`);
      guests.push({ page, profile, next });
    }
    const who = (await guests[0].page.locator('.who strong').textContent()).replace('key ', '');
    await hands.press('link', 'Sessions');
    await hands.type('Search by person', who);
    await hands.press('button', 'Search');
    await hands.press('button', `End all 2 of ${who}`);
    await hands.see('Nobody is signed in.');
    for (const { page, profile, next } of guests) {
      // By itself, and back to where it was after signing in.
      await page.waitForURL(`**/console/sign-in?next=${encodeURIComponent(next)}`);
      equal(profile.faults, []);
      await profile.context.close();
    }
  },

  async 'make a key and revoke it'(hands, world, mark) {
    await hands.press('link', 'Keys');
    await hands.press('link', 'Make a key');
    await hands.type('Name', `robot ${mark}`);
    await hands.type('Good until', '2020-01-01');
    await hands.press('button', 'Make the key');
    await hands.see('Is in the past.');
    await hands.type('Good until', '');
    await hands.press('button', 'Make the key');
    await hands.see('Copy it now.');
    const key = await hands.page.locator('.code pre').textContent();
    const ask = async () => (await fetch(`${world.gateway.origin}/api/servers`, { headers: { authorization: `Bearer ${key}` } })).status;
    equal(await ask(), 200, 'the key is good');
    await hands.press('link', 'I have copied it');
    await hands.press('link', `Revoke robot ${mark}`);
    await hands.press('button', 'Revoke the key');
    await hands.page.getByRole('link', { name: `Revoke robot ${mark}` }).waitFor({ state: 'detached' });
    equal(await ask(), 401, 'the key is good no more');
  },

  async 'change organisation'(hands, world, mark) {
    await hands.go('/console/organisations/acme');
    await hands.press('link', 'Add a server for it');
    await hands.type('Name', `Acme ${mark}`);
    await hands.type('Address', world.fixture);
    await hands.press('button', 'Add the server');
    await hands.see(`acme-${mark}`);
    await hands.press('link', 'Organisations');
    await hands.press('link', 'acme');
    await hands.press('link', `Acme ${mark}`);
    await hands.press('link', 'Take it away …');
    await hands.press('button', 'Take it away');
    await hands.page.getByRole('link', { name: `Acme ${mark}` }).waitFor({ state: 'detached' });
  },
};

/** Asks as a client of the newest revision does. */
async function ask(endpoint, key, method, params, headers = {}) {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const answer = await fetch(endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization: `Bearer ${key}`,
      'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }),
  });
  return answer.json();
}

/** The names of what an endpoint lists. */
async function listTools(endpoint, key) {
  const { result } = await ask(endpoint, key, 'tools/list', {});
  return result.tools.map(({ name }) => name);
}

export const callTool = (endpoint, key, name, given = {}) => (
  ask(endpoint, key, 'tools/call', { name, arguments: given }, { 'mcp-name': name })
);

export async function checkTasks(world, mark) {
  const Hands = { mouse: MouseHands, keyboard: KeyboardHands }[mark];
  const profile = await openProfile(world.gateway);
  const page = await profile.context.newPage();
  const hands = new Hands(page);
  await page.goto('/console/sign-in');
  await hands.type('API key', world.key);
  await hands.press('button', 'Sign in');
  await hands.see('Overview');
  for (const [name, perform] of Object.entries(TASKS)) {
    const began = Date.now();
    await check(`${name}, by ${mark}`, async () => {
      try {
        await perform(hands, world, mark);
      } catch (error) {
        const text = await page.locator('body').innerText().catch(() => '');
        error.stack += `\n     at ${page.url()}:\n${text.slice(0, 2000)}`;
        throw error;
      }
    });
    console.log(`     ${((Date.now() - began) / 1000).toFixed(1)} s`);
  }
  await check(`by ${mark}: no error of a script, and no request off the origin`, () => equal(profile.faults, []));
  await profile.context.close();
}
