// All suites; a line for each case, and at the end how many passed.

import { check, counts, endAll, send, until } from './check.mjs';
import { closeBrowser, openBrowser } from './browser.mjs';
import { checkFaults } from './faults.mjs';
import { checkNewcomer } from './newcomer.mjs';
import { checkPages } from './pages.mjs';
import { takePictures } from './pictures.mjs';
import { checkSignIn } from './sign_in.mjs';
import { callTool, checkTasks } from './tasks.mjs';
import { endWorld, startWorld } from './world.mjs';

const began = Date.now();
if (process.argv[2] === '--pictures') {
  await openBrowser();
  await takePictures(process.argv[3]);
  await closeBrowser();
  endAll();
  endWorld();
  process.exit(0);
}
try {
  await openBrowser();
  await checkNewcomer();
  await checkSignIn();
  const world = await startWorld();
  await checkTasks(world);
  await checkFaults(world);
  // A call that waits, for the page that decides on it.
  const caller = await world.gateway.key('caller');
  callTool(`${world.gateway.origin}/mcp`, caller, 'tracker__reopen_issue', { id: 9 }).catch(() => {});
  world.approvalPath = await until('the call waits', async () => {
    const headers = { authorization: `Bearer ${world.key}` };
    const { items } = JSON.parse((await send(world.gateway.origin, 'GET', '/api/approvals', headers)).text);
    return items.length && `/console/approvals/${items[0].id}`;
  });
  await checkPages(world);
} catch (error) {
  await check('the suites run', () => { throw error; });
} finally {
  await closeBrowser();
  endAll();
  endWorld();
}
console.log(`${Math.round((Date.now() - began) / 1000)} s; pictures in ${process.env.LOCKGATE_PICTURES}`);
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed || !counts.passed ? 1 : 0);
