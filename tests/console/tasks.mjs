// What people come for, from its beginning to its end: once with the mouse, once by keyboard alone.

import { check, equal, holds, send, until } from './check.mjs';
import { KeyboardHands, MouseHands, findViolations, openProfile } from './browser.mjs';
import { isWanted } from './filter.mjs';
import { tool } from './world.mjs';

/** Each is done by somebody who has signed in. `mark` tells the two runs apart. */
const TASKS = {
  async 'sign in with a key, and out'(hands, world) {
    await hands.press('button', 'Sign out');
    await hands.see('The browser does not store the key');
    await hands.type('API key', `${world.key}x`);
    await hands.press('button', 'Sign in');
    await hands.see('key is unknown, expired or revoked');
    await hands.type('API key', world.key);
    await hands.press('button', 'Sign in');
    await hands.see('Needs attention');
  },

  async 'add a server, assign it to an agent, and follow it'(hands, world, mark) {
    await hands.go('/console/servers');
    await hands.press('link', 'Add a server');
    await hands.type('Name', `Notes ${mark}`);
    await hands.type('Address', world.fixture);
    await hands.press('button', 'Test connection');
    await hands.see('Connection works.');
    await hands.press('button', 'Add server');
    await hands.see(`notes-${mark} is connected.`);
    await hands.press('link', 'Agents');
    await hands.type('Name', `Desk ${mark}`);
    await hands.press('button', 'Create agent');
    await hands.press('switch', `Notes ${mark}`);
    await hands.page.locator(`[role=switch][aria-checked=true][aria-label="Notes ${mark}"]`).waitFor();
    await expectFocus(hands, `switch-notes-${mark}`);
    const endpoint = await hands.page.locator('.code pre').first().textContent();
    const tools = await listTools(endpoint, world.key);
    holds(tools.some((name) => name.startsWith(`notes-${mark}__`)), `${endpoint} lists ${tools}`);
    // A server of the operator, without one of its tools.
    await hands.press('switch', 'tracker');
    await hands.page.locator('[role=switch][aria-checked=true][aria-label="tracker"]').waitFor();
    await hands.press('link', 'Tools of tracker');
    await hands.press('switch', 'close_issue');
    await hands.page.locator('[role=switch][aria-checked=false][aria-label="close_issue"]').waitFor();
    const fewer = await listTools(endpoint, world.key);
    holds(fewer.includes('tracker__find_issue') && !fewer.includes('tracker__close_issue'), `${endpoint} lists ${fewer}`);
    world.agentPath = new URL(hands.page.url()).pathname;
    // Access answers for the endpoint of the agent.
    await hands.press('link', 'Access');
    await hands.type('Endpoint', `/agents/${world.agentPath.split('/').at(-1)}/mcp`);
    for (const [called, words] of [
      ['tracker/close_issue', 'Switched off for the agent'], ['ferry/cross', 'Not assigned: this endpoint does not offer the server'],
      ['tracker/find_issue', /^Allowed$/],
    ]) {
      await hands.type('Tool', called);
      await hands.press('button', 'Check access');
      await hands.see(words);
      await hands.see(`the endpoint of Desk ${mark}`);
    }
  },

  async 'create a key for an agent, rename it and delete it'(hands, world, mark) {
    await hands.press('link', 'Agents');
    await hands.type('Name', `Helper ${mark}`);
    await hands.press('button', 'Create agent');
    await hands.see(`Helper ${mark} was created.`);
    await hands.press('link', 'Create a key for this agent');
    equal(await hands.page.getByLabel('Name', { exact: true }).inputValue(), `Helper ${mark}`);
    await hands.press('button', 'Create key');
    await hands.see('Copy the key now.');
    const cursor = JSON.parse(await hands.page.locator('details', { hasText: 'Cursor' }).locator('pre').textContent());
    const { url, headers } = cursor.mcpServers[`helper-${mark}`];
    const answer = await fetch(url, {
      method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } }),
    });
    equal(answer.status, 200, 'the snippet connects');
    await hands.press('link', `Back to Helper ${mark}`);
    await hands.type('Name', `Aide ${mark}`);
    await hands.press('button', 'Rename');
    await hands.page.getByRole('heading', { name: `Aide ${mark}` }).waitFor();
    await hands.press('link', 'Delete …');
    await hands.press('button', 'Delete agent');
    await hands.see('The agent was deleted.');
    await expectFocus(hands, 'said');
    equal(await hands.page.getByRole('link', { name: `Aide ${mark}` }).count(), 0);
    await hands.type('Search by name', `Aide ${mark}`);
    await hands.press('button', 'Search');
    await hands.see('No agents match.');
  },

  async 'choose and rename the items of an agent'(hands, world, mark) {
    await hands.press('link', 'Agents');
    await hands.type('Name', `Reader ${mark}`);
    await hands.press('button', 'Create agent');
    await hands.see('It has all items of its servers.');
    await hands.press('link', 'Choose items …');
    await hands.type('Tools', 'tracker/find_*');
    await hands.type('Other names', 'tracker/find_issue = call_tool');
    await hands.press('button', 'Set items');
    await hands.see('not the name of a tool of the gateway');
    equal(await hands.page.getByLabel('Tools', { exact: true }).inputValue(), 'tracker/find_*', 'what was typed stays');
    await hands.type('Other names', 'tracker/find_issue = look_up');
    await hands.press('button', 'Set items');
    await hands.see('The items were changed.');
    await hands.see('Its items are chosen.');
    await hands.press('link', 'Choose items …');
    await hands.press('button', 'Give it all items');
    await hands.see('It has all items of its servers.');
  },

  async 'repair a wrong address'(hands, world, mark) {
    await hands.go('/console/integrations/new');
    await hands.type('Name', `Ledger ${mark}`);
    await hands.type('Address', world.closed);
    await hands.press('button', 'Add server');
    await hands.see('refused the connection.');
    await hands.press('button', 'Add anyway');
    await hands.page.locator('h1 + .mark', { hasText: /^failed$/ }).waitFor();
    await hands.press('link', 'Edit address');
    await hands.type('Address', world.fixture);
    await hands.press('button', 'Save');
    await hands.press('button', 'Test connection');
    await hands.see('Connection works:');
    world.integrationPath = new URL(hands.page.url()).pathname;
    await hands.press('link', `ledger-${mark}`);
    await hands.see(`ledger-${mark} is connected.`);
  },

  async 'rotate a credential'(hands, world, mark) {
    world.accepted = 'opens-until-noon';
    await hands.go('/console/integrations/new');
    await hands.type('Name', `Vault ${mark}`);
    await hands.type('Address', world.locked);
    await hands.choose('Authentication', 'Bearer token');
    await hands.type('Key or token', 'opens-until-noon');
    await hands.press('button', 'Add server');
    await hands.see(`vault-${mark} is connected.`);
    world.accepted = 'opens-from-noon';
    await hands.press('link', 'Edit');
    await hands.press('button', 'Test connection');
    await hands.see('Connection failed at auth.');
    await hands.type('New key or token', 'opens-from-noon');
    await hands.press('button', 'Save');
    await hands.press('button', 'Test connection');
    await hands.see('Connection works:');
    holds(!(await hands.page.content()).includes('opens-from-noon'), 'the credential is on the page');
  },

  async 'add a server from the catalogue'(hands, world, mark) {
    await hands.go('/console/servers');
    await hands.press('link', 'Add a server');
    await hands.press('link', /^Strongroom/);
    await hands.type('Name', `Strongroom ${mark}`);
    await hands.type('Key or token', 'opens-nothing');
    await hands.press('button', 'Test connection');
    await hands.see('Connection failed.');
    await hands.page.locator('#trial .stage', { hasText: 'auth' }).waitFor();
    await hands.type('Key or token', 'opens-from-noon');
    await hands.press('button', 'Test connection');
    await hands.see('Connection works.');
    equal(await hands.page.getByLabel('Key or token').inputValue(), 'opens-from-noon', 'what was typed stays');
    await hands.press('button', 'Add server');
    await hands.see(/strongroom\S* is connected\./);
    holds(!(await hands.page.content()).includes('opens-from-noon'), 'the credential is on the page');
    await hands.press('link', 'Edit');
    await hands.press('link', 'Remove …');
    await hands.press('button', 'Remove server');
    await hands.page.getByRole('heading', { name: 'Servers' }).waitFor();
  },

  async 'two administrators at once are told'(hands, world, mark) {
    const other = await hands.page.context().newPage();
    await hands.go(world.integrationPath);
    await other.goto(world.integrationPath);
    await other.getByLabel('Name', { exact: true }).fill(`Theirs ${mark}`);
    await other.getByRole('button', { name: 'Save' }).click();
    await other.waitForLoadState();
    await other.close();
    await hands.type('Name', `Mine ${mark}`);
    await hands.press('button', 'Save');
    await hands.see('It was changed elsewhere');
    equal(await hands.page.getByLabel('Name', { exact: true }).inputValue(), `Mine ${mark}`);
    await hands.press('button', 'Save');
    await hands.page.getByRole('heading', { name: `Mine ${mark}` }).waitFor();
  },

  async 'check access by the name of a caller'(hands, world, mark) {
    await world.gateway.key(`reader ${mark}`, '--role', 'reader');
    await hands.press('link', 'Access');
    await hands.type('Tool', 'tracker/find_issue');
    await hands.type('Arguments', '{"words": ');
    await hands.press('button', 'Check access');
    await hands.see('This must be JSON');
    await expectFocus(hands, 'arguments');
    await hands.type('Arguments', '{"words": "lost"}');
    await hands.press('button', 'Check access');
    await hands.see('Allowed');
    await expectFocus(hands, 'answer');
    // A caller has the roles of its key, unless somebody has typed others.
    await hands.type('Tool', 'tracker/audit_issues');
    await hands.type('Caller', `reader ${mark}`);
    await hands.press('button', 'Check access');
    await hands.see('Hidden: not listed and not callable');
    await hands.see('roles: reader');
    await hands.type('Caller', 'nobody of this name');
    await hands.press('button', 'Check access');
    await hands.see('No key and no console session has this name');
    await expectFocus(hands, 'caller');
    await hands.type('Caller', '');
    await hands.type('Tool', 'tracker/no_such_tool');
    await hands.press('button', 'Check access');
    await hands.see('Unknown tool: the call is refused');
    await hands.type('Tool', 'no-such-server/tool');
    await hands.press('button', 'Check access');
    await hands.see('Unknown server');
    await hands.type('Tool', 'no_such_name');
    await hands.press('button', 'Check access');
    await hands.see('Unknown tool: the call is refused');
    await hands.go('/console/access?call=tracker/find_issue&issuer=key&subject=0123456789abcdef&organisation=default');
    await hands.see('Unknown caller');
    // The caller of a record that has no key or session any more.
    for (const [issuer, words] of [['key', 'This key is revoked, expired or gone'], ['https://id.example', 'No session is open for this identity']]) {
      const who = new URLSearchParams({ caller: `${issuer}|0123`, issuer, subject: '0123', organisation: 'default' });
      await hands.go(`/console/access?call=tracker/find_issue&${who}`);
      await hands.see(words);
    }
  },

  async 'try a tool'(hands) {
    await hands.press('link', 'Tools');
    const total = () => hands.page.locator('#total').innerText();
    const all = await total();
    await hands.type('Search by name', 'find_issue');
    await until('the count follows the search', async () => (await total()) !== all);
    equal(await total(), String(await hands.page.locator('#list tbody tr').count()), 'the count of tools');
    await hands.press('link', 'tracker__find_issue');
    await hands.type('words required', 'lost boats');
    await hands.choose('state', 'closed');
    await hands.press('button', 'Call tracker__find_issue');
    await hands.see('find_issue: {"words":"lost boats","limit":10,"state":"closed"}');
    await expectFocus(hands, 'outcome');
    await expectInView(hands.page.locator('#outcome'));
    holds((await hands.page.title()).startsWith('Answered'), 'the title says that it answered');
    // Reloading sends nothing, and what was typed is still there to call again.
    const calls = world => world.gateway.records().filter(({ name }) => name === 'tracker__find_issue').length;
    const before = calls(hands.world);
    await hands.page.reload();
    await hands.see('find_issue: {"words":"lost boats"');
    equal(calls(hands.world), before, 'calls after reloading');
    equal(await hands.page.getByLabel('words required').inputValue(), 'lost boats');
    const first = new URL(hands.page.url()).searchParams.get('call');
    await hands.press('button', 'Call again');
    await hands.page.waitForURL((url) => ![null, first].includes(url.searchParams.get('call')));
    await until('it was called again', () => calls(hands.world) > before);
  },

  async 'follow a long call, and cancel another'(hands, world) {
    await hands.go('/console/tools/kiln__fire');
    await hands.press('button', 'Call kiln__fire');
    await hands.see('Running');
    await hands.see('1 of 4: heating');
    await expectFocus(hands, 'outcome');
    holds((await hands.page.title()).startsWith('Running'), 'the title says that it runs');
    world.kiln.progress(3, 'cooling');
    await hands.see('3 of 4: cooling');
    equal(await hands.page.getByRole('progressbar').getAttribute('value'), '75');
    world.kiln.finish();
    await hands.see('The pot is fired.');
    await hands.page.locator('#outcome.good').waitFor();
    // Messages of a call that has ended.
    await hands.go('/console/tools/everything__test_tool_with_logging');
    await hands.press('button', /^Call everything__/);
    await hands.see('Tool with logging executed');
    await hands.page.locator('#outcome summary', { hasText: 'Log messages' }).click();
    await hands.see('Tool processing data');
    const count = async () => {
      const { result } = await callTool(`${world.gateway.origin}/mcp`, world.key, 'everything__test_cancelled_count');
      return Number(result.content[0].text);
    };
    const before = await count();
    await hands.go('/console/tools/everything__test_cancellation');
    await hands.press('button', /^Call everything__/);
    await hands.see('Running');
    await hands.press('button', 'Cancel the call');
    await hands.see('The call was cancelled.');
    await expectFocus(hands, 'outcome');
    await until('the server was told', async () => (await count()) > before);
  },

  async 'follow a long call without scripts'(hands, world) {
    const profile = await openProfile(world.gateway, { javaScriptEnabled: false });
    const page = await profile.context.newPage();
    await page.goto('/console/sign-in?next=/console/tools/kiln__fire');
    await page.getByLabel('API key').fill(world.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: 'Call kiln__fire' }).click();
    await page.getByText('1 of 4: heating').waitFor();
    world.kiln.finish();
    await page.getByText('The pot is fired.').waitFor();
    await profile.context.close();
  },

  async 'fill a form made from a schema'(hands) {
    await hands.go('/console/tools/tracker__file_issue');
    await hands.type('title required', 'Leak');
    await hands.type('code required', 'abc');
    await hands.type('votes', '12');
    await hands.page.locator('form.card').evaluate((form) => { form.noValidate = true; });
    await hands.press('button', 'Call tracker__file_issue');
    await hands.see('This must match the pattern ^[A-Z]{3}$.');
    await expectFocus(hands, 'arg.code');
    const code = hands.page.locator('[id="arg.code"]');
    equal(await code.getAttribute('aria-invalid'), 'true');
    const described = (await code.getAttribute('aria-describedby')).split(' ');
    const texts = await Promise.all(described.map((id) => hands.page.locator(`[id="${id}"]`).textContent()));
    holds(texts.some((text) => text.includes('This must match')), `the field is described by ${texts}`);
    await hands.see('This must be at most 10.');
    await hands.type('code required', 'ABC');
    await hands.type('votes', '7');
    await hands.type('due', '2027-01-31');
    await hands.press('button', /^Add a row.* labels/);
    await expectFocus(hands, 'arg.labels.0');
    await hands.page.reload();
    await expectFocus(hands, 'arg.labels.0');
    await hands.type('labels 1', 'urgent');
    await hands.press('button', /^Add a row.* labels/);
    await expectFocus(hands, 'arg.labels.1');
    await hands.type('labels 2', 'wet');
    await hands.press('button', /^Add a row.* people/);
    await hands.type('name required', 'Ada');
    await hands.press('button', /^Remove.*labels 1/);
    await until('the other row stays', async () => (
      (await hands.page.getByLabel('labels 2').count()) === 0 && (await hands.page.getByLabel('labels 1').inputValue()) === 'wet'
    ));
    await hands.press('button', 'Call tracker__file_issue');
    await hands.see('file_issue: {"title":"Leak","code":"ABC","votes":7,"due":"2027-01-31","labels":["wet"],"people":[{"name":"Ada"}]}');
    const image = hands.page.locator('#outcome img');
    await until('the image is shown', () => image.evaluate((one) => one.complete && one.naturalWidth > 0));
    await hands.press('link', 'Issue 1');
    await hands.page.waitForURL('**/console/resources/**');
  },

  async 'render a prompt and read a resource'(hands, world) {
    await hands.go('/console/servers/everything');
    await hands.follow(hands.page.locator('a[href^="/console/prompts/"]', { hasText: 'simple' }).first());
    const needed = hands.page.locator('form.card textarea[required], form.card input[required]');
    for (const field of await needed.all()) await field.fill('a word');
    world.promptPath = new URL(hands.page.url()).pathname;
    await hands.press('button', /^Render /);
    await expectFocus(hands, 'outcome');
    await hands.page.locator('#outcome .code').first().waitFor();
    await hands.go('/console/servers/everything');
    await hands.follow(hands.page.locator('a[href^="/console/resources/"]').first());
    await hands.press('button', /^Read /);
    await expectFocus(hands, 'outcome');
    await hands.page.locator('#outcome.good .code').first().waitFor();
  },

  async 'try policy cases'(hands) {
    await hands.go('/console/access?call=tracker/close_issue&arguments=%7B%22id%22%3A13%7D');
    await hands.see('thirteen');
    await hands.press('link', 'Create a test case');
    await hands.press('button', 'Run cases');
    await hands.see('All cases passed.');
    await hands.type('Cases', '[{"name": "twelve", "call": "tracker/close_issue", "arguments": {"id": 12}, "expect": "deny"}]');
    await hands.press('button', 'Run cases');
    await hands.see('Some cases failed.');
  },

  async 'approve a call that appears by itself'(hands, world, mark) {
    const name = `caller ${mark}`;
    const caller = await world.gateway.key(name);
    const id = mark === 'mouse' ? 7 : 8;
    await hands.go('/console/approvals');
    await hands.page.locator('#live').evaluate((live) => live._htmx?.sse ?? new Promise((resolve) => {
      document.addEventListener('htmx:sse:after:connection', resolve, { once: true });
    }));
    const call = callTool(`${world.gateway.origin}/mcp`, caller, 'tracker__reopen_issue', { id });
    await hands.see(`Called by ${name}.`);
    await until('the title counts it', async () => /^\(\d+\) Approvals/.test(await hands.page.title()));
    await hands.page.locator('nav .badge').waitFor();
    await hands.go('/console');
    const first = hands.page.locator('.matters li').first();
    await first.getByText('for your approval').first().waitFor();
    await hands.follow(first.getByRole('link'));
    await hands.press('link', new RegExp(`^Review .*${name}`));
    await hands.see(`"id":${id}`);
    await hands.press('button', 'Approve once');
    const { result } = await call;
    await hands.see('Approved. The call is being made.');
    await expectFocus(hands, 'said');
    equal(result.content[0].text, `reopen_issue: {"id":${id}}`);
  },

  async 'a call of a page that waits for approval says so'(hands, world, mark) {
    await hands.go('/console/tools/tracker__reopen_issue');
    await hands.type('id required', '31');
    await hands.press('button', 'Call tracker__reopen_issue');
    await hands.see('until another person approves it');
    holds((await hands.page.title()).startsWith('Waiting for approval'), 'the title says that it waits');
    await decide(world, `boss ${mark}`, '31', 'approve');
    await hands.see('reopen_issue: {"id":31}');
  },

  async 'a call of a page that a person denied names the person'(hands, world, mark) {
    await hands.go('/console/tools/tracker__reopen_issue');
    await hands.type('id required', '32');
    await hands.press('button', 'Call tracker__reopen_issue');
    await hands.see('until another person approves it');
    await decide(world, `judge ${mark}`, '32', 'deny');
    await hands.see('A person denied this call of tracker__reopen_issue.');
    await hands.see(`Policy reopening: it was denied by judge ${mark}.`);
    await hands.page.locator('.verdict.denied .stage', { hasText: /^approval$/ }).waitFor();
  },

  async 'a call whose client left is marked'(hands, world, mark) {
    const name = `leaver ${mark}`;
    const caller = await world.gateway.key(name);
    const leaving = new AbortController();
    const call = callTool(`${world.gateway.origin}/mcp`, caller, 'tracker__reopen_issue', { id: 21 }, leaving.signal);
    await hands.go('/console/approvals');
    await hands.see(`Called by ${name}.`);
    await hands.press('link', new RegExp(`^Review .*${name}`));
    await hands.page.getByRole('button', { name: 'Approve once' }).waitFor();
    leaving.abort();
    await call.catch(() => {});
    await hands.see('The client left before a decision.');
    await hands.go('/console/approvals');
    const ended = hands.page.getByRole('region', { name: /Ended/ }).locator('li', { hasText: name });
    await ended.getByText('The client left').waitFor();
  },

  async 'approve a changed tool'(hands, world, mark) {
    const cross = () => callTool(`${world.gateway.origin}/mcp`, world.key, 'ferry__cross');
    world.ferry.tools = [tool('cross', `Crosses the lake, and tells ${mark} of it.`)];
    await hands.go('/console/servers/ferry');
    await hands.press('button', 'Reconnect');
    await hands.press('link', 'Review');
    await hands.see('It is hidden until it is approved.');
    const change = hands.page.locator('tr.changed');
    equal(await change.count(), 1, 'lines that differ');
    holds((await change.locator('ins').textContent()).includes(mark), 'what is new of it is marked');
    holds((await cross()).error, 'the changed tool is hidden');
    await hands.press('button', /^Keep hidden/);
    await hands.see('Kept hidden: 1 tool, until the definition changes again.');
    holds((await cross()).error, 'the changed tool is hidden still');
    await hands.see('These tools need a review again when their definition changes.');
    // It changes once more while somebody reads.
    world.ferry.tools = [tool('cross', `Crosses the lake, for ${mark}.`)];
    const other = await hands.page.context().newPage();
    await other.goto('/console/servers/ferry');
    await other.getByRole('button', { name: 'Reconnect' }).click();
    await other.getByText('ferry is connected.').waitFor();
    await other.close();
    await hands.press('button', 'Approve ferry/cross');
    await hands.see('A tool changed again while you were reading.');
    holds((await change.locator('.after').textContent()).includes(`for ${mark}`), 'the newest definition is shown');
    await hands.press('button', 'Approve ferry/cross');
    await hands.see('Approved: 1 tool as shown.');
    const { result } = await cross();
    equal(result.content[0].text, 'crossed');
  },

  async 'find a call in the audit'(hands, world) {
    await hands.press('link', 'Audit');
    await hands.press('button', 'Verify');
    await hands.see(/The trail is intact: \d+ records verified/);
    await hands.type('Caller', 'ada');
    await hands.type('Tool, prompt or resource', 'tracker__find_issue');
    await hands.choose('Decision', 'Allowed');
    await hands.press('button', 'Search');
    await hands.see('No gaps in these records.');
    const row = hands.page.locator('tbody tr').first();
    await row.getByText('tracker__find_issue').waitFor();
    await row.getByText('ada', { exact: true }).waitFor();
    await hands.follow(row.getByRole('link'));
    await hands.see('The record');
    world.recordPath = new URL(hands.page.url()).pathname;
    await hands.press('link', 'Explain with current policies');
    await hands.see('Allowed');
    await hands.see('The arguments were not kept.');
    await hands.type('Arguments', '{"words": "lost"}');
    await hands.press('button', 'Check access');
    await expectFocus(hands, 'answer');
    equal(await hands.page.getByText('The arguments were not kept.').count(), 0, 'parts that are unknown');
  },

  async 'read the usage of a server, a tool and a caller'(hands, world) {
    await callTool(`${world.gateway.origin}/mcp`, world.key, 'tracker__find_issue', { words: 'usage' });
    await hands.press('link', 'Usage');
    await hands.page.waitForURL(/console\/usage/);
    const cell = hands.page.getByRole('link', { name: 'tracker', exact: true });
    await until('the call is counted', async () => {
      await hands.page.reload();
      return (await cell.count()) > 0;
    });
    equal(await hands.page.locator('main svg[role=img]').first().getAttribute('aria-label').then((label) => label.includes('highest')), true, 'a plot says its figures');
    holds(await hands.page.getByRole('img', { name: /^tracker in the last 24 hours: .*ok/ }).count() === 1, 'the strip has words');
    // The overview has the figures and the days of the worst servers.
    await hands.go('/console');
    const day = hands.page.getByRole('region', { name: 'Last 24 hours' });
    await day.getByRole('img', { name: / in the last 24 hours: \d+ h / }).first().waitFor();
    await day.getByText('Latency, p95').waitFor();
    equal(await findViolations(hands.page), [], 'what axe finds on the overview');
    await hands.follow(day.getByRole('link', { name: 'Open usage' }));
    await hands.press('link', 'tracker');
    await hands.page.getByRole('cell', { name: 'find_issue', exact: true }).waitFor();
    await hands.press('link', 'Callers');
    await hands.page.waitForURL(isFiltered({ by: 'caller', server: 'tracker' }));
    await hands.page.locator('table th[scope=row]').first().waitFor();
    await hands.press('link', '7 days');
    await hands.page.waitForURL(isFiltered({ by: 'caller', server: 'tracker', window: '7d' }));
    await expectFocus(hands, 'usage');
    await hands.press('link', 'Show all calls');
    await hands.page.waitForURL(isFiltered({ by: 'caller', window: '7d' }));
  },

  async 'follow live activity'(hands, world, mark) {
    let loads = 0;
    const count = (request) => { loads += request.url().includes('/console/activity') ? 1 : 0; };
    hands.page.on('request', count);
    await hands.press('link', 'Activity');
    await hands.page.locator('#calls').waitFor();
    await hands.page.getByText(`missing_${mark}`).waitFor({ state: 'detached' });
    await hands.see('Live.');
    equal(loads, 1, 'a page that was just loaded is not loaded again');
    hands.page.off('request', count);
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
    await hands.see('Disconnected: reload');
    await callTool(`${world.gateway.origin}/mcp`, world.key, `away_${mark}`);
    await hands.page.context().setOffline(false);
    await hands.see(`away_${mark}`);
    await hands.press('link', 'Pause');
    await hands.page.getByRole('link', { name: 'Resume' }).waitFor();
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
    const who = (await guests[0].page.locator('.who strong').textContent());
    await hands.press('link', 'Sessions');
    await hands.type('Search by person', who);
    await hands.press('button', 'Search');
    await expectFocus(hands, 'list');
    await hands.press('button', `End all 2 of ${who}`);
    await hands.see('No sessions.');
    for (const { page, profile, next } of guests) {
      // By itself, and back to where it was after signing in.
      await page.waitForURL(`**/console/sign-in?next=${encodeURIComponent(next)}`);
      equal(profile.faults, []);
      await profile.context.close();
    }
  },

  async 'make a key and revoke it'(hands, world, mark) {
    await hands.press('link', 'Keys');
    await hands.press('link', 'Create a key');
    await hands.type('Name', `robot ${mark}`);
    const suggested = await hands.page.getByLabel('Expires').inputValue();
    const days = (Date.parse(suggested) - Date.now()) / 86_400_000;
    holds(days > 88 && days < 91, `${suggested} is suggested`);
    await hands.page.locator('form.card').evaluate((form) => { form.noValidate = true; });
    await hands.page.getByLabel('Expires').fill('2020-01-01');
    await hands.press('button', 'Create key');
    await hands.see('Is in the past.');
    await expectFocus(hands, 'expiresAt');
    await hands.page.getByLabel('Expires').fill('');
    // A second click sends nothing, and does not hide the key.
    let sent = 0;
    await hands.page.route('**/console/keys/new', async (route) => {
      sent += route.request().method() === 'POST' ? 1 : 0;
      await new Promise((resolve) => { setTimeout(resolve, 500); });
      await route.continue().catch(() => {});
    });
    const create = hands.page.getByRole('button', { name: 'Create key' });
    await create.evaluate((button) => { button.click(); setTimeout(() => button.click(), 200); });
    await hands.see('Copy the key now.');
    equal(sent, 1, 'forms that are sent');
    await hands.page.unroute('**/console/keys/new');
    const key = await hands.page.locator('.code pre').first().textContent();
    const ask = async () => (await fetch(`${world.gateway.origin}/api/servers`, { headers: { authorization: `Bearer ${key}` } })).status;
    equal(await ask(), 200, 'the key is good');
    await hands.press('link', 'Done');
    await hands.press('link', 'Create a key');
    await hands.type('Name', `robot ${mark}`);
    await hands.press('button', 'Create key');
    await hands.see('An active key has this name.');
    await expectFocus(hands, 'name');
    await hands.press('link', 'Keys');
    await hands.press('link', `Revoke robot ${mark}`);
    await hands.press('button', 'Revoke key');
    await hands.page.getByRole('link', { name: `Revoke robot ${mark}` }).waitFor({ state: 'detached' });
    equal(await ask(), 401, 'the key is good no more');
  },

  async 'change organisation'(hands, world, mark) {
    await hands.go('/console/organisations/acme');
    await hands.press('link', 'Add a server');
    await hands.type('Name', `Acme ${mark}`);
    await hands.type('Address', world.fixture);
    await hands.press('button', 'Add server');
    await hands.see(`acme-${mark}`);
    await hands.press('link', 'Organisations');
    await hands.press('link', 'acme');
    await hands.press('link', `Acme ${mark}`);
    await hands.press('link', 'Remove …');
    await hands.press('button', 'Remove server');
    await hands.page.getByRole('link', { name: `Acme ${mark}` }).waitFor({ state: 'detached' });
  },
};

/** Decides on the call with this text among its arguments, as somebody else. */
async function decide(world, name, text, decision) {
  const other = { authorization: `Bearer ${await world.gateway.key(name, '--role', 'operator')}` };
  const { items } = JSON.parse((await send(world.gateway.origin, 'GET', '/api/approvals', other)).text);
  const { id } = items.find(({ arguments: given }) => JSON.stringify(given).includes(text));
  await send(world.gateway.origin, 'POST', `/api/approvals/${id}/${decision}`, other);
}

/** Asks as a client of the newest revision does. */
async function ask(endpoint, key, method, params, headers = {}, signal = undefined) {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const answer = await fetch(endpoint, {
    method: 'POST',
    signal,
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

export const callTool = (endpoint, key, name, given = {}, signal = undefined) => (
  ask(endpoint, key, 'tools/call', { name, arguments: given }, { 'mcp-name': name }, signal)
);

// Returns whether a URL has exactly these filters, in any order.
const isFiltered = (filters) => (url) => (
  JSON.stringify([...url.searchParams].sort()) === JSON.stringify(Object.entries(filters).sort())
);

/** The element that has the focus, by its id; waits, because a page may still be loading. */
async function expectFocus(hands, id) {
  let found;
  await until(`the focus is on ${id}`, async () => {
    found = await hands.page.evaluate(() => document.activeElement?.id).catch(() => undefined);
    return found === id;
  }).catch((error) => { throw new Error(`${error.message}, not on ${found}`); });
}

async function expectInView(locator) {
  const box = await locator.boundingBox();
  const { height } = locator.page().viewportSize();
  holds(box.y >= -1 && box.y < height, `it begins at ${box.y} of ${height} px`);
}

export async function checkTasks(world, mark) {
  const Hands = { mouse: MouseHands, keyboard: KeyboardHands }[mark];
  const profile = await openProfile(world.gateway);
  const page = await profile.context.newPage();
  const hands = new Hands(page);
  hands.world = world;
  await page.goto('/console/sign-in');
  await hands.type('API key', world.key);
  await hands.press('button', 'Sign in');
  await hands.see('Overview');
  for (const [name, perform] of Object.entries(TASKS)) {
    if (!isWanted(`${name}, by ${mark}`)) continue;
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
