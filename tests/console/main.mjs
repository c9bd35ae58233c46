// All suites, or with `--only TEXT` the cases and suites with this text in their names; a line for each case, and at the end
// how many passed.

import { check, counts, endAll, send, until } from './check.mjs';
import { closeBrowser, openBrowser } from './browser.mjs';
import { checkClicks } from './clicks.mjs';
import { checkConnections } from './connections.mjs';
import { checkFaults } from './faults.mjs';
import { isWanted } from './filter.mjs';
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
const isFull = process.argv.includes('--full');

/** A part of the suites, with how long it took. */
async function time(name, work) {
  const start = Date.now();
  await work();
  console.log(`     ${name}: ${Math.round((Date.now() - start) / 1000)} s`);
}

/** A call that waits, for the page that decides on it. */
async function leaveCallWaiting(world) {
  const caller = await world.gateway.key('caller');
  callTool(`${world.gateway.origin}/mcp`, caller, 'tracker__reopen_issue', { id: 9 }).catch(() => {});
  world.approvalPath = await until('the call waits', async () => {
    const headers = { authorization: `Bearer ${world.key}` };
    const { items } = JSON.parse((await send(world.gateway.origin, 'GET', '/api/approvals', headers)).text);
    return items.length && `/console/approvals/${items[0].id}`;
  });
}

/** Parts that share nothing run beside each other, with a gateway each. Mice do nothing in these tasks that keyboards do not. */
async function byKeyboard() {
  const world = await startWorld();
  await time('tasks by keyboard', () => checkTasks(world, 'keyboard'));
  if (!isWanted('pages')) return;
  await leaveCallWaiting(world);
  await time('pages', () => checkPages(world, isFull));
}

async function byMouse() {
  if (isWanted('newcomer')) await time('newcomer', checkNewcomer);
  if (isWanted('sign-in')) await time('sign-in', checkSignIn);
  if (isWanted('connections')) await time('connections', checkConnections);
  const world = await startWorld();
  if (isFull) await time('tasks by mouse', () => checkTasks(world, 'mouse'));
  await time('clicks', () => checkClicks(world));
  await time('faults', () => checkFaults(world));
}

const told = (error) => check('the suites run', () => { throw error; });
try {
  await openBrowser();
  await Promise.all([byKeyboard, byMouse].map((part) => part().catch(told)));
} catch (error) {
  await told(error);
} finally {
  await closeBrowser();
  endAll();
  endWorld();
}
console.log(`${Math.round((Date.now() - began) / 1000)} s; pictures in ${process.env.LOCKGATE_PICTURES}`);
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed || !counts.passed ? 1 : 0);
