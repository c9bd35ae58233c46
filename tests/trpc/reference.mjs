// A @trpc/server router with the gateway's procedures. Their results come from the gateway's REST API, so that only the wire
// format can differ.

import { initTRPC, TRPCError } from '@trpc/server';
import { createHTTPHandler } from '@trpc/server/adapters/standalone';
import http from 'node:http';
import { z } from 'zod';

import { send } from './check.mjs';

export async function startReference(origin) {
  const t = initTRPC.create({ isDev: false });
  const tool = (name) => async (args) => {
    const body = JSON.stringify({ arguments: args });
    const headers = { 'content-type': 'application/json' };
    const answer = await send(origin, 'POST', `/api/tools/${encodeURIComponent(name)}/execute`, headers, body);
    if (answer.status === 404) throw new TRPCError({ code: 'NOT_FOUND', message: `unknown tool: ${name}` });
    return JSON.parse(answer.text);
  };
  const server = { server: z.string().optional() };
  const encoding = z.enum(['utf-8', 'base64', 'hex']).optional();
  const p = t.procedure;
  const run = (name) => async () => tool(name)({});
  const router = t.router({
    mcp: {
      status: p.query(async () => ({})),
      listTools: p
        .input(z.strictObject({ category: z.string().optional(), ...server, cursor: z.string().optional() }).optional())
        .query(async () => ({})),
      executeTool: p
        .input(z.strictObject({ name: z.string(), arguments: z.object({}).loose().optional() }))
        .mutation(({ input }) => tool(input.name)(input.arguments ?? {})),
      file: {
        read: p.input(z.strictObject({ path: z.string(), encoding, ...server })).query(run('file/read')),
        list: p
          .input(z.strictObject({ path: z.string(), recursive: z.boolean().optional(), includeHidden: z.boolean().optional(), ...server }))
          .query(run('file/list')),
        write: p
          .input(z.strictObject({
            path: z.string(), content: z.string(), encoding, mode: z.enum(['replace', 'create', 'append']).optional(), ...server,
          }))
          .mutation(run('file/write')),
      },
      shell: {
        execute: p
          .input(z.strictObject({
            command: z.string(), cwd: z.string().optional(), timeout: z.int().min(1).max(300000).optional(),
            env: z.record(z.string(), z.string()).optional(), ...server,
          }))
          .mutation(run('shell/execute')),
      },
      events: p.input(z.strictObject({ types: z.array(z.enum(['server', 'missed'])).optional() }).optional())
        .subscription(async function* () {}),
    },
  });
  const handle = createHTTPHandler({ router, basePath: '/trpc/', maxBatchSize: 32 });
  const listener = http.createServer(handle);
  await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return { origin: `http://127.0.0.1:${listener.address().port}`, close: () => listener.close() };
}
