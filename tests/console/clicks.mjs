// Twelve tasks from the overview to their end, with the number of clicks that each may take. Typing is not counted.

import { check, equal, holds, until } from './check.mjs';
import { MouseHands, openProfile } from './browser.mjs';
import { isWanted } from './filter.mjs';
import { signIn } from './pages.mjs';
import { callTool } from './tasks.mjs';
import { tool } from './world.mjs';

/** A mouse that counts. */
class CountingHands extends MouseHands {
  clicks = 0;

  async press(role, name) {
    this.clicks += 1;
    await super.press(role, name);
  }

  async follow(link) {
    this.clicks += 1;
    await super.follow(link);
  }

  /** The input is reached by Tab, so that only clicks count that a task cannot do without. */
  async type(label, text) {
    await this.page.getByLabel(label, { exact: true }).fill(text);
  }
}

const api = (world) => `${world.gateway.origin}/mcp`;

/** By the task: the most clicks, what happens before it, and its steps. docs/console.md lists the counts. */
const TASKS = {
  'add a server by its address': [2, async () => {}, async (hands, world) => {
    await hands.press('link', 'Add a server');
    await hands.type('Name', 'Clicks');
    await hands.type('Address', world.fixture);
    await hands.press('button', 'Add server');
    await hands.see('clicks is connected.');
  }],
  'connect a client': [3, async () => {}, async (hands) => {
    await hands.press('link', 'Keys');
    await hands.press('link', 'Create a key');
    await hands.type('Name', 'laptop');
    await hands.press('button', 'Create key');
    await hands.page.locator('details', { hasText: 'Cursor' }).locator('pre').waitFor({ state: 'attached' });
  }],
  'make an agent': [2, async () => {}, async (hands) => {
    await hands.press('link', 'Agents');
    await hands.type('Name', 'Clerk');
    await hands.press('button', 'Create agent');
    await hands.see('Clerk was created.');
  }],
  "assign an operator's server to an agent": [3, async () => {}, async (hands) => {
    await hands.press('link', 'Agents');
    await hands.press('link', 'Clerk');
    await hands.press('switch', 'tracker');
    await hands.page.locator('[role=switch][aria-checked=true][aria-label="tracker"]').waitFor();
  }],
  'switch off one tool': [4, async () => {}, async (hands) => {
    await hands.press('link', 'Agents');
    await hands.press('link', 'Clerk');
    await hands.press('link', 'Tools of tracker');
    await hands.press('switch', 'close_issue');
    await hands.page.locator('[role=switch][aria-checked=false][aria-label="close_issue"]').waitFor();
  }],
  'approve a waiting call': [3, async (world) => {
    const caller = await world.gateway.key('clicker');
    world.waiting = callTool(api(world), caller, 'tracker__reopen_issue', { id: 41 });
    world.waiting.catch(() => {});
  }, async (hands, world) => {
    const first = hands.page.locator('.matters li', { hasText: 'for your approval' });
    await hands.follow(first.getByRole('link'));
    await hands.press('link', /^Review .*clicker/);
    await hands.press('button', 'Approve once');
    await hands.see('Approved. The call is being made.');
    equal((await world.waiting).result.content[0].text, 'reopen_issue: {"id":41}');
  }],
  'keep a changed tool hidden': [2, async (world) => {
    world.barge.tools = [tool('load', 'Loads the barge, and tells everybody.')];
    const headers = { authorization: `Bearer ${world.key}`, 'content-type': 'application/json' };
    await fetch(`${world.gateway.origin}/api/servers/barge/reconnect`, { method: 'POST', headers, body: '{}' });
    await until('the tool is hidden', async () => (await callTool(api(world), world.key, 'barge__load')).error);
  }, async (hands) => {
    await hands.follow(hands.page.locator('.matters li', { hasText: 'changed or not approved' }).getByRole('link'));
    await hands.press('button', /^Keep hidden/);
    await hands.see(/^Kept hidden/);
  }],
  'find out why a call was denied': [3, async (world) => {
    await callTool(api(world), world.key, 'tracker__close_issue', { id: 13 });
  }, async (hands) => {
    await hands.press('link', 'Activity');
    const row = hands.page.locator('#calls tbody tr', { hasText: 'tracker__close_issue' }).first();
    await row.getByText('thirteen').waitFor();
    await hands.follow(row.getByRole('link').first());
    await hands.press('link', 'Explain with current policies');
    await hands.see('thirteen');
  }],
  'create a key that expires': [3, async () => {}, async (hands) => {
    await hands.press('link', 'Keys');
    await hands.press('link', 'Create a key');
    await hands.type('Name', 'visitor');
    await hands.type('Expires', new Date(Date.now() + 7 * 86_400_000).toISOString().slice(0, 10));
    await hands.press('button', 'Create key');
    await hands.see('Copy the key now.');
  }],
  'call a tool with a list': [4, async () => {}, async (hands) => {
    await hands.press('link', 'Tools');
    await hands.type('Search by name', 'file_issue');
    await hands.press('link', 'tracker__file_issue');
    await hands.type('title required', 'Leak');
    await hands.type('code required', 'ABC');
    await hands.press('button', /^Add a row.* labels/);
    await hands.type('labels 1', 'urgent');
    await hands.press('button', 'Call tracker__file_issue');
    await hands.see('file_issue: {"title":"Leak","code":"ABC","labels":["urgent"]}');
  }],
  'verify the audit trail': [2, async () => {}, async (hands) => {
    await hands.press('link', 'Audit');
    await hands.press('button', 'Verify');
    await hands.see(/The trail is intact: \d+ records verified/);
  }],
  'read the usage of a server over 24 hours': [2, async (world) => {
    const headers = { authorization: `Bearer ${world.key}` };
    await until('its calls are counted', async () => {
      const answer = await fetch(`${world.gateway.origin}/api/usage?window=24h&server=tracker`, { headers });
      return (await answer.json()).total.calls > 0;
    });
  }, async (hands) => {
    await hands.press('link', 'Usage');
    await hands.press('link', 'tracker');
    await hands.page.getByRole('heading', { name: 'By tool' }).waitFor();
    await hands.page.getByText('Latency, p95').first().waitFor();
  }],
};

export async function checkClicks(world) {
  if (!isWanted('clicks')) return;
  const profile = await openProfile(world.gateway);
  const page = await profile.context.newPage();
  await signIn(page, world.key);
  for (const [name, [most, prepare, perform]] of Object.entries(TASKS)) {
    await check(`clicks: ${name} takes at most ${most}`, async () => {
      await prepare(world);
      await page.goto('/console');
      const hands = new CountingHands(page);
      await perform(hands, world);
      console.log(`     ${hands.clicks} clicks`);
      holds(hands.clicks <= most, `${hands.clicks} clicks`);
    });
  }
  await check('clicks: no error of a script, and no request off the origin', () => equal(profile.faults, []));
  await profile.context.close();
}
