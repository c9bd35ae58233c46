// The harness of the suites: counted cases, gateways with separate configurations, and raw HTTP.

import { spawn, spawnSync } from 'node:child_process';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

export const counts = { passed: 0, failed: 0 };

/** Runs a case; a failure is printed and counted, and does not stop the run. */
export async function check(name, body) {
  try {
    await body();
    counts.passed += 1;
    console.log(`ok   ${name}`);
  } catch (error) {
    counts.failed += 1;
    console.log(`FAIL ${name}\n     ${error.stack ?? error}`);
  }
}

export function equal(found, wanted, what = '') {
  if (!isDeepStrictEqual(found, wanted)) {
    throw new Error(`${what}\n     found  ${JSON.stringify(found)}\n     wanted ${JSON.stringify(wanted)}`);
  }
}

export function holds(condition, what) {
  if (!condition) throw new Error(what);
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function until(what, test, ms = 10000) {
  for (const end = Date.now() + ms; Date.now() < end; await pause(20)) {
    const found = await test();
    if (found) return found;
  }
  throw new Error(`waited too long: ${what}`);
}

const running = new Set();
const folders = new Set();

/** A gateway as a child process, with its configuration in a separate folder. */
export class Gateway {
  static async start(config, policies) {
    const gateway = new Gateway();
    gateway.folder = mkdtempSync(join(tmpdir(), 'lockgate-trpc-'));
    folders.add(gateway.folder);
    if (policies) {
      writeFileSync(join(gateway.folder, 'policies.yaml'), policies);
      config = { ...config, policy: { files: ['policies.yaml'] } };
    }
    writeFileSync(join(gateway.folder, 'lockgate.json'), JSON.stringify({ log: { level: 'debug' }, ...config }));
    const variables = Object.entries(process.env).filter(([name]) => !/^(LOCKGATE|MCP)_/.test(name));
    gateway.env = { ...Object.fromEntries(variables), LOCKGATE_HTTP__DRAIN: '0' };
    const words = ['serve', '--listen', '127.0.0.1:0', '--config', 'lockgate.json'];
    const log = createWriteStream(gateway.logFile);
    gateway.child = spawn(process.env.LOCKGATE_BIN, words, {
      cwd: gateway.folder, env: gateway.env, stdio: ['ignore', 'ignore', 'pipe'],
    });
    gateway.child.stderr.pipe(log);
    running.add(gateway.child);
    gateway.child.on('exit', () => running.delete(gateway.child));
    gateway.origin = await until(`the gateway listens\n${gateway.log()}`, () => {
      if (gateway.child.exitCode !== null) throw new Error(`the gateway ended:\n${gateway.log()}`);
      return /listens on (http:\S+)/.exec(gateway.log())?.[1];
    });
    await until('the gateway is ready', async () => (await send(gateway.origin, 'GET', '/readyz')).status === 200);
    gateway.url = `${gateway.origin}/trpc`;
    return gateway;
  }

  get logFile() {
    return join(this.folder, 'log');
  }

  log() {
    try {
      return readFileSync(this.logFile, 'utf8');
    } catch {
      return '';
    }
  }

  records() {
    const lines = readFileSync(join(this.folder, 'audit.jsonl'), 'utf8').trim().split('\n');
    return lines.map((line) => JSON.parse(line));
  }

    /** Creates a key in the keys file with the program, and waits until it is accepted. */
  async key(name, ...words) {
    const made = this.keys('create', name, '--json', ...words);
    const { key } = JSON.parse(made);
    const headers = { authorization: `Bearer ${key}` };
    await until('the key is good', async () => (await send(this.origin, 'GET', '/trpc/mcp.status', headers)).status === 200);
    return key;
  }

  keys(...words) {
    const done = spawnSync(process.env.LOCKGATE_BIN, ['keys', ...words, '--file', join(this.folder, 'keys.yaml')], {
      env: this.env, encoding: 'utf8',
    });
    if (done.status !== 0) throw new Error(done.stderr);
    return done.stdout;
  }
}

/** Ends all child processes by their handles. */
export function endAll() {
  for (const child of running) child.kill('SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

/** Sends a request with exactly these headers. */
export function send(origin, method, path, headers = {}, body = undefined) {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const request = http.request({ hostname, port, method, path, headers, agent: false }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(parts).toString() });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}
