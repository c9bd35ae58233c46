// Every page as a browser shows it: in both schemes and three widths, without a violation, an error or a request elsewhere.

import { check, equal, holds } from './check.mjs';
import { STRANGE } from './world.mjs';
import { findViolations, openProfile, takePicture } from './browser.mjs';

const WIDTHS = [360, 768, 1024, 1280, 1680];
const SCHEMES = ['light', 'dark'];

export async function signIn(page, key, next = '/console') {
  await page.goto(`/console/sign-in?next=${encodeURIComponent(next)}`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL((url) => !url.pathname.endsWith('/sign-in'));
}

/** The pages of a world, by a name for their pictures. */
export async function listPages(world) {
  return {
    overview: '/console',
    servers: '/console/servers',
    'servers-bad': '/console/servers?state=bad',
    server: '/console/servers/everything',
    'server-bad': '/console/servers/ledger',
    'server-off': '/console/servers/retired',
    add: '/console/integrations/new',
    'tool-strange': `/console/tools/tracker__${STRANGE.name}`,
    'tools-none': '/console/tools?q=nothing-of-this-name',
    'signed-out': '/console/sign-in?out=key',
    'add-entry': '/console/catalogue/strongroom',
    integration: world.integrationPath,
    'integration-delete': `${world.integrationPath}/delete`,
    pins: '/console/pins',
    'pins-barge': '/console/pins?server=barge',
    tools: '/console/tools',
    tool: '/console/tools/tracker__find_issue',
    agents: '/console/agents',
    'agent-items': `${world.agentPath}/items`,
    'agent-delete': `${world.agentPath}/delete`,
    prompt: world.promptPath,
    'tool-form': '/console/tools/tracker__file_issue',
    agent: world.agentPath,
    access: '/console/access?call=tracker/find_issue&arguments=%7B%22words%22%3A%22x%22%7D',
    cases: '/console/access/cases?call=tracker/close_issue&arguments=%7B%22id%22%3A13%7D',
    approvals: '/console/approvals',
    approval: world.approvalPath,
    audit: '/console/audit',
    mistake: '/console/audit?to=x',
    'audit-record': world.recordPath,
    activity: '/console/activity',
    usage: '/console/usage',
    'usage-tools': '/console/usage?window=1h&by=tool',
    'usage-callers': '/console/usage?window=7d&by=caller',
    connections: '/console/connections?all=true',
    keys: '/console/keys',
    sessions: '/console/sessions',
    'key-new': '/console/keys/new',
    organisations: '/console/organisations',
    organisation: '/console/organisations/acme',
    settings: '/console/settings',
    'settings-all': '/console/settings?all=yes&q=limits',
    missing: '/console/nowhere',
  };
}

/** What reaches beyond the right edge of the page, if the page can be moved sideways. */
function listWide() {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const wide = [...document.querySelectorAll('body *')].filter((element) => element.getBoundingClientRect().right > clientWidth);
  return [`${scrollWidth} of ${clientWidth} px`, ...wide.slice(0, 8).map((element) => element.outerHTML.slice(0, 120))];
}

/** Tables that can be moved sideways. */
function listScrolled() {
  const tables = [...document.querySelectorAll('.table')].filter((table) => table.scrollWidth > table.clientWidth + 1);
  return tables.map((table) => `${table.scrollWidth} of ${table.clientWidth} px: ${table.innerText.slice(0, 80)}`);
}

/** Buttons whose words are broken into letters: the longest word is wider than what the button has room for. */
function listBroken() {
  const context = document.createElement('canvas').getContext('2d');
  const broken = [];
  for (const button of document.querySelectorAll('button, .button')) {
    const style = getComputedStyle(button);
    const room = button.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (button.offsetParent === null || button.matches('.switch')) continue;
    context.font = style.font;
    // Names of tools may be longer than a phone is wide.
    const shown = button.cloneNode(true);
    for (const hidden of shown.querySelectorAll('.sr')) hidden.remove();
    const words = shown.textContent.split(/\s+/).filter((word) => word.length <= 20);
    const widest = Math.max(0, ...words.map((word) => context.measureText(word).width));
    if (widest > room + 1) broken.push(`${shown.textContent}: ${widest} of ${room} px`);
  }
  return broken;
}

/** Without `isFull`, no picture is taken, and dark pages are loaded in one width, because only colours depend on the scheme. */
async function checkScheme(world, pages, scheme, isFull) {
  const widths = isFull || scheme === 'light' ? WIDTHS : [1680];
  const profile = await openProfile(world.gateway, { colorScheme: scheme, timezoneId: 'UTC' });
  const page = await profile.context.newPage();
  await check(`sign-in, ${scheme}: no violation`, async () => {
    await page.goto('/console/sign-in');
    for (const width of widths) {
      await page.setViewportSize({ width, height: 800 });
      if (isFull) await takePicture(page, `sign-in-${width}-${scheme}`);
    }
    equal(await findViolations(page), []);
  });
  await signIn(page, world.key);
  for (const [name, path] of Object.entries(pages)) {
    await check(`${name}, ${scheme}: no violation, no error, nothing wider than a phone`, async () => {
      await page.goto(path);
      for (const width of widths) {
        await page.setViewportSize({ width, height: 800 });
        if (isFull) await takePicture(page, `${name}-${width}-${scheme}`);
        let wide = await page.evaluate(listWide);
        if (wide.length > 0) {
          // The browser sometimes keeps a layout that it made for a picture: what is wide by itself stays so.
          await page.reload();
          wide = await page.evaluate(listWide);
        }
        equal(wide, [], `${name} is wider than ${width} px`);
        equal(await page.evaluate(listScrolled), [], `${name} has a table wider than ${width} px`);
        if (width === 360 || width === 1680) equal(await findViolations(page), []);
        equal(await page.evaluate(listBroken), [], `${name} breaks words at ${width} px`);
      }
    });
  }
  await check(`${scheme}: no error of a script, and no request off the origin`, () => equal(profile.faults, []));
  await profile.context.close();
}

export async function checkPages(world, isFull) {
  const pages = await listPages(world);
  await Promise.all([...SCHEMES.map((scheme) => checkScheme(world, pages, scheme, isFull)), checkWithoutScripts(world, pages)]);
}

const checkWithoutScripts = (world, pages) => check('every page shows without scripts', async () => {
  const profile = await openProfile(world.gateway, { javaScriptEnabled: false });
  const page = await profile.context.newPage();
  await signIn(page, world.key);
  for (const [name, path] of Object.entries(pages)) {
    await page.goto(path);
    holds(await page.locator('main h1').count() === 1, `${name} has one heading`);
  }
  await profile.context.close();
});
