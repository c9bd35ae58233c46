// A browser, and the hands of somebody in front of it: one with a mouse, one with a keyboard alone.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

import { holds } from './check.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Longest way from the top of a page to what somebody looks for, in presses of Tab. */
const MAX_TABS = 150;
/** Presses without a look in between. */
const TABS_AT_ONCE = 10;

let browser;

export async function openBrowser() {
  browser = await chromium.launch({
    executablePath: process.env.LOCKGATE_BROWSER,
    args: ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--font-render-hinting=none'],
  });
}

export const closeBrowser = async () => browser?.close();

/** A profile of its own, which notes what no page may do; what other places do is theirs. */
export async function openProfile(gateway, options = {}, otherPlaces = []) {
  const context = await browser.newContext({ baseURL: gateway.origin, reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(30_000);
  const profile = { context, gateway, faults: [] };
  const isElsewhere = (url) => otherPlaces.some((place) => url?.startsWith(`${place}/`));
  // Nothing outside this machine is asked for, whatever a page of another place wants.
  if (otherPlaces.length > 0) await context.route((url) => !/^(127\.0\.0\.1|localhost)$/.test(url.hostname), (route) => route.abort());
  context.on('request', (request) => {
    const url = request.url();
    if (isElsewhere(url) || isElsewhere(request.headers().referer)) return;
    if (!url.startsWith(`${gateway.origin}/`) && !url.startsWith('data:') && !url.startsWith('about:')) {
      profile.faults.push(`a request off the origin: ${url}`);
    }
  });
  context.on('console', (message) => {
    if (isElsewhere(message.location().url) || isElsewhere(message.page()?.url())) return;
    const isRefusal = /Failed to load resource.* (4\d\d|503) /.test(message.text());
    if (message.type() === 'error' && !isRefusal) profile.faults.push(`${message.page()?.url()}: ${message.text()}`);
  });
  context.on('weberror', (error) => profile.faults.push(`an error of a script: ${error.error()}`));
  return profile;
}

/** What axe finds wrong with the page as it is. */
export async function findViolations(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join(' | ')}`);
}

/** A picture for people to look at. */
export async function takePicture(page, name) {
  await page.screenshot({ path: join(process.env.LOCKGATE_PICTURES, `${name}.png`), fullPage: true });
}

/** Somebody with a mouse. */
export class MouseHands {
  constructor(page) {
    this.page = page;
  }

  async go(path) {
    await this.page.goto(path);
  }

  async press(role, name) {
    await this.find(role, name).click();
  }

  async follow(link) {
    await link.click();
  }

  async type(label, text) {
    const field = this.page.getByLabel(label, { exact: true });
    await field.click();
    await field.fill(text);
  }

  async choose(label, option) {
    await this.page.getByLabel(label, { exact: true }).selectOption({ label: option });
  }

  async see(text) {
    await this.page.getByText(text).first().waitFor({ state: 'visible' });
  }

  find(role, name) {
    return this.page.getByRole(role, { name, exact: typeof name === 'string' }).first();
  }
}

/** Whether the element shows its focus, if it has it. Until then Tab goes no further than to it, in the page. */
function stopTabAt(element) {
  globalThis.removeEventListener('keydown', globalThis.stopTab, true);
  if (element !== document.activeElement) {
    globalThis.stopTab = (event) => event.key === 'Tab' && element === document.activeElement && event.preventDefault();
    globalThis.addEventListener('keydown', globalThis.stopTab, true);
    return null;
  }
  const style = getComputedStyle(element);
  return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
}

/** Somebody with a keyboard alone: what Tab does not reach is not there, nor what shows no focus. */
export class KeyboardHands extends MouseHands {
  async press(role, name) {
    const target = this.find(role, name);
    await this.reach(target, `${role} ${name}`);
    await this.page.keyboard.press(role === 'checkbox' || role === 'switch' ? 'Space' : 'Enter');
  }

  async follow(link) {
    await this.reach(link, 'the link');
    await this.page.keyboard.press('Enter');
  }

  async type(label, text) {
    await this.reach(this.page.getByLabel(label, { exact: true }), label);
    const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? [];
    const isDate = await this.page.evaluate(() => document.activeElement.type === 'date');
    if (isDate && year) return this.page.keyboard.type(`${month}${day}${year}`);
    await this.page.keyboard.press('ControlOrMeta+a');
    return this.page.keyboard.insertText(text);
  }

  async choose(label, option) {
    await this.reach(this.page.getByLabel(label, { exact: true }), label);
    await this.page.keyboard.type(option);
  }

  async reach(target, what) {
    await target.waitFor({ state: 'visible' });
    for (let tabs = 0; tabs <= MAX_TABS; tabs += TABS_AT_ONCE) {
      const focused = await target.evaluate(stopTabAt);
      if (focused !== null) return holds(focused, `${what} has the focus and does not show it`);
      await Promise.all(Array.from({ length: TABS_AT_ONCE }, () => this.page.keyboard.press('Tab')));
    }
    throw new Error(`Tab does not reach ${what}`);
  }
}
