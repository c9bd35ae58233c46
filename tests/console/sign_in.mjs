// Signing in through the identity provider of an organisation, with the mouse and by keyboard alone, and what comes of
// answers that are not one's own.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { check, equal, Gateway, holds, send, until } from './check.mjs';
import { findViolations, KeyboardHands, MouseHands, openProfile, takePicture } from './browser.mjs';
import { CLIENT, startProvider } from './provider.mjs';

const LINK = 'Sign in with localhost';
const WIDTHS = [360, 1024, 1680];

/** A gateway whose people sign in at a provider. */
async function startWorld() {
  const provider = await startProvider();
  const config = { auth: { keys_file: 'keys.yaml' }, audit: { file: 'audit.jsonl' }, log: { level: 'trace' } };
  const gateway = await Gateway.start(config);
  provider.serve(`${gateway.origin}/console/sign-in/callback`);
  writeFileSync(join(gateway.folder, 'secret'), CLIENT.client_secret);
  const claims = { organisation: 'org_id', roles: 'groups' };
  writeFileSync(join(gateway.folder, 'lockgate.json'), JSON.stringify({
    ...config,
    http: { public_url: gateway.origin },
    auth: { ...config.auth, issuers: { company: { issuer: provider.issuer, claims } } },
    admin: {
      operators: ['role:operator'],
      sign_in: { issuer: 'company', client_id: CLIENT.client_id, client_secret: 'file:secret', console_url: gateway.origin },
    },
  }));
  await until('the form offers the provider', async () => (
    (await send(gateway.origin, 'GET', '/console/sign-in')).text.includes(LINK)
  ), 60_000);
  return { gateway, provider };
}

/** Somebody at the pages of the provider. Its fields take the focus by themselves, a moment after they are there. */
export async function answerProvider(page, name) {
  await page.waitForURL(/\/interaction\//);
  await page.getByPlaceholder('Enter any login').focus();
  await page.keyboard.insertText(name);
  await page.keyboard.press('Tab');
  await page.keyboard.insertText('any');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Continue' }).focus();
  await page.keyboard.press('Enter');
}

const isSignedIn = async (page) => {
  await page.goto('/console');
  return new URL(page.url()).pathname === '/console';
};

const TASKS = {
  async 'sign in through the identity provider, and out'(hands) {
    const { page } = hands;
    await hands.go('/console/servers?state=bad');
    await hands.press('link', LINK);
    await answerProvider(page, 'grace');
    await page.waitForURL('**/console/servers?state=bad');
    await hands.see('grace');
    await hands.see('operator of acme');
    await hands.press('button', 'Sign out');
    await hands.see('Lockgate stores your name and your roles');
    await hands.go('/console/servers');
    await page.waitForURL('**/console/sign-in?next=%2Fconsole%2Fservers');
    // The provider knows its visitor by now.
    await hands.press('link', LINK);
    await page.waitForURL('**/console/servers');
    equal((await page.context().cookies()).filter(({ name }) => name.startsWith('lockgate-sign-in')), []);
    await hands.press('button', 'Sign out');
    await hands.see('Lockgate stores your name and your roles');
  },

  async 'sign out at the identity provider too'(hands) {
    const { page } = hands;
    await hands.go('/console/servers');
    await hands.press('link', LINK);
    await answerProvider(page, 'grace');
    await page.waitForURL('**/console/servers');
    await hands.press('button', 'Sign out');
    await hands.see('You are signed out of Lockgate.');
    equal(await findViolations(page), []);
    // Back shows nothing of what was there.
    await page.goBack();
    await page.waitForURL('**/console/sign-in?next=%2Fconsole%2Fservers');
    await hands.go('/console/sign-in?out=account');
    await hands.press('link', 'Sign out at localhost too');
    await page.getByRole('button', { name: 'Yes, sign me out' }).focus();
    await page.keyboard.press('Enter');
    await page.getByText('Sign-out Success').waitFor();
    await hands.go('/console/servers');
    await hands.press('link', LINK);
    // It asks who it is, as it did at first.
    await page.waitForURL(/\/interaction\//);
    await page.getByPlaceholder('Enter any login').waitFor();
  },

  async 'cancel at the provider'(hands) {
    const { page } = hands;
    await hands.go('/console/sign-in?next=/console/keys');
    await hands.press('link', LINK);
    await page.waitForURL(/\/interaction\//);
    await page.getByRole('link', { name: 'Cancel' }).focus();
    await page.keyboard.press('Enter');
    await hands.see('refused to sign you in, or you cancelled');
    equal(new URL(page.url()).search, '?next=%2Fconsole%2Fkeys&why=refused');
    equal(await isSignedIn(page), false);
  },

  async 'an account without an organisation is not let in'(hands) {
    const { page } = hands;
    await hands.go('/console/sign-in');
    await hands.press('link', LINK);
    await answerProvider(page, 'stray');
    await hands.see('Your account at localhost has no organisation');
    equal(await isSignedIn(page), false);
  },
};

/** Each by somebody whom neither the provider nor the gateway knows. */
async function checkTasks({ gateway, provider }) {
  for (const [mark, Hands] of Object.entries({ mouse: MouseHands, keyboard: KeyboardHands })) {
    for (const [name, perform] of Object.entries(TASKS)) {
      const profile = await openProfile(gateway, {}, [provider.issuer]);
      const page = await profile.context.newPage();
      await check(`${name}, by ${mark}`, async () => {
        try {
          await perform(new Hands(page));
        } catch (error) {
          const text = await page.locator('body').innerText().catch(() => '');
          error.stack += `\n     at ${page.url()}:\n${text.slice(0, 2000)}\n${gateway.log().slice(-4000)}`;
          throw error;
        }
        equal(profile.faults, []);
      });
      await profile.context.close();
    }
  }
}

/** The address that the provider sends a browser back to, which does not go there. */
async function catchAnswer(page, provider) {
  Object.assign(provider, { keepsAnswers: true, answer: undefined });
  await page.goto('/console/sign-in');
  await page.getByRole('link', { name: LINK }).click();
  await answerProvider(page, 'grace');
  await page.getByText('kept', { exact: true }).waitFor();
  provider.keepsAnswers = false;
  return provider.answer;
}

async function checkAnswers({ gateway, provider }) {
  const open = () => openProfile(gateway, {}, [provider.issuer]);
  await check('an answer counts in the browser that began, and once', async () => {
    const [own, other] = [await open(), await open()];
    const page = await own.context.newPage();
    const answer = await catchAnswer(page, provider);
    const elsewhere = await other.context.newPage();
    await elsewhere.goto(answer);
    await elsewhere.getByText('This browser did not start that sign-in').waitFor();
    equal(await isSignedIn(elsewhere), false);
    await page.goto(answer);
    await page.getByText('grace').first().waitFor();
    await page.goto(answer);
    await page.getByText('This browser did not start that sign-in').waitFor();
    for (const { context } of [own, other]) await context.close();
  });
  await check('two tabs sign in beside each other', async () => {
    const profile = await open();
    const [one, two] = [await profile.context.newPage(), await profile.context.newPage()];
    const answer = await catchAnswer(one, provider);
    await two.goto('/console/sign-in?next=/console/tools');
    await two.getByRole('link', { name: LINK }).click();
    await two.waitForURL('**/console/tools');
    await one.goto(answer);
    await one.getByText('grace').first().waitFor();
    equal(new URL(one.url()).pathname, '/console');
    await profile.context.close();
  });
  await check('a provider that is away is told', async () => {
    const profile = await open();
    const page = await profile.context.newPage();
    const answer = await catchAnswer(page, provider);
    await provider.close();
    await page.goto(answer);
    await page.getByText('Lockgate could not reach localhost').waitFor();
    await profile.context.close();
  });
}

async function checkForm({ gateway, provider }) {
  for (const colorScheme of ['light', 'dark']) {
    await check(`sign-in with a provider, ${colorScheme}: no violation, no error, nothing wider than a phone`, async () => {
      const profile = await openProfile(gateway, { colorScheme }, [provider.issuer]);
      const page = await profile.context.newPage();
      for (const why of ['', 'unreachable']) {
        await page.goto(`/console/sign-in?why=${why}`);
        for (const width of WIDTHS) {
          await page.setViewportSize({ width, height: 800 });
          await takePicture(page, `sign-in-provider${why && '-failed'}-${width}-${colorScheme}`);
          const isWide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
          holds(!isWide, `wider than ${width} px`);
          equal(await findViolations(page), []);
        }
      }
      equal(profile.faults, []);
      await profile.context.close();
    });
  }
}

/** What is written down: who, and nothing that opens anything. */
async function checkRecords({ gateway, provider }) {
  await check('signing in, refusals and signing out are on the record, without a secret', async () => {
    const wanted = [['sign in', 'grace', 'acme'], ['sign out', 'grace', 'acme']];
    const records = gateway.records();
    for (const [action, who, organisation] of wanted) {
      const found = records.filter((record) => record.action === action);
      holds(found.length >= 4, `${action} is recorded`);
      for (const record of found) {
        equal([record.who, record.organisation, record.issuer], [who, organisation, provider.issuer]);
      }
    }
    const refused = JSON.stringify(records.filter(({ kind }) => kind === 'refusal'));
    for (const words of ['denied access', 'no organisation (claim `org_id`)', 'nobody has begun this sign-in']) {
      holds(refused.includes(words), `${words} is not among ${refused}`);
    }
    const written = readFileSync(join(gateway.folder, 'audit.jsonl'), 'utf8') + gateway.log();
    for (const secret of [CLIENT.client_secret, ...provider.codes]) {
      holds(!written.includes(secret), 'a secret or a code is written down');
    }
    holds(provider.codes.length > 6, 'codes were given');
    holds(!/eyJ[\w-]+\.eyJ/.test(written), 'a token is written down');
  });
}

export async function checkSignIn() {
  const world = await startWorld();
  await checkForm(world);
  await checkTasks(world);
  await checkAnswers(world);
  await checkRecords(world);
}
