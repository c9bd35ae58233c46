// The pictures of README.md and of the docs: a gateway as an operator sees it on a day when two things are wrong.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { openProfile } from './browser.mjs';
import { Gateway, until } from './check.mjs';
import { signIn } from './pages.mjs';
import { callTool } from './tasks.mjs';
import { closedAddress, startTools, startWeb, tool } from './world.mjs';

/** Where the pictures are kept, by their names: what is shown, in which scheme and width. */
const PICTURES = {
  'console-overview': { path: '/console', width: 1200, height: 760 },
  'console-server': { path: '/console/servers/ledger', width: 1200, height: 640 },
  'console-activity': { path: '/console/activity', width: 1200, height: 640, colorScheme: 'dark' },
  'console-phone': { path: '/console/servers', width: 390, height: 760 },
};

/** A small web server with these tools, each of which answers at once. */
const serve = (...tools) => startTools(
  tools.map(([name, description]) => tool(name, description)),
  ({ name }) => ({ isError: name === 'merge_branch', content: [{ type: 'text', text: name }] }),
);

async function startDay() {
  const issues = await serve(['find_issue', 'Finds issues by their words.'], ['close_issue', 'Closes an issue.'], ['merge_branch', 'Merges a branch.']);
  const library = await serve(['search_books', 'Finds books by title and author.'], ['who_has', 'Says who has a book.']);
  const weather = await serve(['forecast', 'The weather of the next days.']);
  const refused = await startWeb((_, response) => response.writeHead(401).end());
  const policies = 'policies:\n  - { name: everybody, effect: allow }\n  - { name: no-closing, effect: deny, what: { tools: [issues/close_issue] } }\n';
  const gateway = await Gateway.start({
    auth: { keys_file: 'keys.yaml' },
    audit: { file: 'audit.jsonl' },
    servers: {
      issues: { url: issues.url },
      library: { url: library.url },
      weather: { url: weather.url },
      ledger: { url: `${await closedAddress()}/mcp` },
      vault: { url: `${refused}/mcp` },
    },
  }, policies);
  const key = await gateway.key('ada', '--role', 'operator');
  const caller = await gateway.key('agent of the desk');
  for (const name of ['issues__find_issue', 'library__search_books', 'library__who_has', 'issues__close_issue', 'weather__forecast', 'issues__merge_branch', 'issues__find_issue']) {
    await callTool(`${gateway.origin}/mcp`, caller, name);
  }
  return { gateway, key };
}

/** A picture as small as it can be read: what the browser makes of it as WebP. */
async function takeSmallPicture(page, width, height) {
  const png = await page.screenshot();
  const blank = await page.context().newPage();
  const url = await blank.evaluate(async ({ text, size }) => {
    const image = new Image();
    image.src = `data:image/png;base64,${text}`;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), size);
    canvas.getContext('2d').drawImage(image, 0, 0);
    return canvas.toDataURL('image/webp', 0.8);
  }, { text: png.toString('base64'), size: { width, height } });
  await blank.close();
  return Buffer.from(url.split(',')[1], 'base64');
}

export async function takePictures(folder) {
  const { gateway, key } = await startDay();
  for (const [name, { path, width, height, colorScheme = 'light' }] of Object.entries(PICTURES)) {
    const profile = await openProfile(gateway, { colorScheme, timezoneId: 'UTC', viewport: { width, height } });
    const page = await profile.context.newPage();
    await signIn(page, key, path);
    await page.goto(path);
    await until('both that are wrong are known', async () => {
      await page.reload();
      return path !== '/console' || (await page.locator('.matters li').count()) >= 2;
    });
    await page.locator('main h1').waitFor();
    const picture = await takeSmallPicture(page, width, height);
    writeFileSync(join(folder, `${name}.webp`), picture);
    console.log(`${name}.webp: ${Math.round(picture.length / 1024)} KiB`);
    await profile.context.close();
  }
}
