// Somebody who has never seen Lockgate: from a gateway that runs to a call of a server of their own, through the browser alone.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { Gateway, check, equal, holds } from './check.mjs';
import { KeyboardHands, MouseHands, openProfile, takePicture } from './browser.mjs';
import { startTools, tool } from './world.mjs';

/** Longest way from the first page to the first call, in seconds, on a machine that does other things besides. */
const PATIENCE = 120;

export async function checkNewcomer() {
  for (const [mark, Hands] of Object.entries({ mouse: MouseHands, keyboard: KeyboardHands })) {
    const own = await startTools(
      [tool('greet', 'Greets somebody.', { name: { type: 'string' } }, ['name'])],
      ({ arguments: { name } }) => ({ content: [{ type: 'text', text: `Good evening, ${name}.` }] }),
    );
    // As `cargo run` starts it: with no configuration of its own.
    const gateway = await Gateway.start({});
    const profile = await openProfile(gateway);
    const page = await profile.context.newPage();
    const hands = new Hands(page);
    await check(`a newcomer calls a server of their own from a real client within two minutes, by ${mark}`, async () => {
      const began = Date.now();
      let number = 0;
      const step = async (words) => {
        number += 1;
        console.log(`     ${((Date.now() - began) / 1000).toFixed(1)} s: ${words}`);
        await takePicture(page, `newcomer-${mark}-${number}`);
      };
      await hands.go('/');
      await hands.see('Overview');
      const steps = hands.page.locator('.steps li');
      equal(await steps.count(), 3, 'steps');
      equal(await hands.page.locator('.steps li.done').count(), 0, 'steps that are done');
      for (const client of ['Claude Code', 'Cursor', 'VS Code']) await steps.nth(1).getByText(client, { exact: true }).waitFor();
      await step('the address of the gateway shows the overview, with three steps');
      await hands.press('link', 'Add a server');
      await hands.type('Name', 'Greeter');
      await hands.type('Address', own.url);
      await step('name and address of the server are typed');
      await hands.press('button', 'Add server');
      await hands.see('greeter is connected.');
      await step('it was tried, is stored and connected');
      await hands.press('link', 'greeter__greet');
      await hands.type('name required', 'Ada');
      await hands.press('button', 'Call greeter__greet');
      await hands.see('Good evening, Ada.');
      await step('its tool was tried with a form');
      await hands.press('link', 'Agents');
      await hands.type('Name', 'Desk');
      await hands.press('button', 'Create agent');
      await hands.press('switch', 'Greeter');
      await page.locator('[role=switch][aria-checked=true][aria-label="Greeter"]').waitFor();
      await step('an agent may use it');
      const address = await page.locator('.code pre').first().textContent();
      const client = new Client({ name: 'newcomer', version: '1' });
      await client.connect(new StreamableHTTPClientTransport(new URL(address)));
      const { tools } = await client.listTools();
      equal(tools.map(({ name }) => name), ['greeter__greet'], 'tools of the agent');
      const { content } = await client.callTool({ name: 'greeter__greet', arguments: { name: 'Grace' } });
      equal(content[0].text, 'Good evening, Grace.');
      await client.close();
      await step('a real client (npm @modelcontextprotocol/client) called it at the address of the agent');
      await hands.press('link', 'Overview');
      await hands.see('in the last minute');
      equal(await hands.page.locator('.steps').count(), 0, 'all three steps are done');
      await step('the overview counts the calls');
      equal(await hands.page.getByRole('link', { name: 'Create a key' }).count(), 0, 'keys cannot be created');
      await hands.go('/console/keys');
      await hands.see('keys_file: keys.yaml');
      const taken = (Date.now() - began) / 1000;
      holds(taken < PATIENCE, `it took ${taken} s`);
      equal(profile.faults, []);
    });
    await profile.context.close();
  }
}
