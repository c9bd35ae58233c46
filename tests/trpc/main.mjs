// Runs all suites: prints a line per case, and the counts at the end.

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

import { createTRPCClient, httpLink } from '@trpc/client';

import { Gateway, check, counts, endAll, equal, holds, send } from './check.mjs';
import { links } from './links.mjs';
import { raw } from './raw.mjs';

const began = Date.now();
try {
  await check('the types compile, and wrong uses of them do not', () => {
    const done = spawnSync('node', ['node_modules/typescript/bin/tsc', '--project', 'tsconfig.json'], { encoding: 'utf8' });
    holds(done.status === 0, done.stdout);
  });
  await check('the example of the page prints what it says', async () => {
    const page = readFileSync('trpc.md', 'utf8');
    const block = (kind) => page.split(`\`\`\`${kind}\n`)[1].split('```')[0];
    writeFileSync('example.mjs', block('js'));
    const gateway = await Gateway.start({ auth: { keys_file: 'keys.yaml' } });
    const key = await gateway.key('reader');
    const env = { ...process.env, LOCKGATE_URL: gateway.origin, LOCKGATE_CLIENT_KEY: key };
    const done = spawnSync('node', ['example.mjs'], { encoding: 'utf8', env });
    equal([done.stdout, done.stderr], [block('text'), '']);
    const types = await send(gateway.origin, 'GET', '/trpc/lockgate.d.ts');
    equal(types.text, readFileSync('lockgate.d.ts', 'utf8'), 'the types that are served');
    const operator = await gateway.key('operator', '--role', 'operator');
    const ask = async (path) => {
      const answer = await send(gateway.origin, 'GET', `/trpc/${path}`, { authorization: `Bearer ${operator}` });
      return JSON.parse(answer.text).result.data;
    };
    const [status, list] = [await ask('mcp.status'), await ask('mcp.listTools')];
    for (const [name, value] of [['Status', status], ['Server', status.servers[0]], ['ToolList', list], ['Tool', list.tools[0]]]) {
      const members = types.text.split(`export interface ${name} {`)[1].split('\n}')[0];
      const unknown = Object.keys(value).filter((member) => !new RegExp(`^  ${member}\\??:`, 'm').test(members));
      equal(unknown, [], `members of ${name} that have no type`);
    }
  });
  await check('operators name an organisation in the URL of the link', async () => {
    const gateway = await Gateway.start({ auth: { keys_file: 'keys.yaml' } });
    const [operator, other] = [await gateway.key('operator', '--role', 'operator'), await gateway.key('other', '--organisation', 'acme')];
    const ask = (key, organisation) => {
      const headers = { authorization: `Bearer ${key}` };
      const link = httpLink({ url: `${gateway.origin}/trpc?organizationId=${organisation}`, headers });
      return createTRPCClient({ links: [link] }).mcp.status.query();
    };
    equal((await ask(operator, 'acme')).organizationId, 'acme');
    equal((await ask(other, 'acme')).organizationId, 'acme');
    for (const [key, organisation] of [[operator, 'nobody'], [other, 'default']]) {
      const refused = await ask(key, organisation).catch((error) => error.data.code);
      equal(refused, 'NOT_FOUND');
    }
  });
  await raw();
  await links();
} finally {
  endAll();
}
console.log(`${Math.round((Date.now() - began) / 1000)} s`);
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed || !counts.passed ? 1 : 0);
