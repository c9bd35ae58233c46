// Never run: valid uses in a TypeScript program, and uses that the compiler must reject.

import { createTRPCClient, httpBatchLink, TRPCClientError } from '@trpc/client';
import type { AppRouter } from './lockgate.js';

const api = createTRPCClient<AppRouter>({ links: [httpBatchLink({ url: 'http://127.0.0.1:3001/trpc', maxURLLength: 14000, maxItems: 32 })] });

export async function use(): Promise<void> {
  const status = await api.mcp.status.query();
  const names: string[] = status.servers.map((server) => server.name);
  const page = await api.mcp.listTools.query({ category: 'file', cursor: page0?.nextCursor });
  await api.mcp.listTools.query();
  const result = await api.mcp.executeTool.mutate({ name: names[0] ?? page.tools[0]!.name, arguments: { a: 1 } });
  const failed: boolean | undefined = result.isError;
  await api.mcp.file.read.query({ path: 'a', encoding: 'hex' });
  await api.mcp.file.write.mutate({ path: 'a', content: 'b', mode: 'append' });
  await api.mcp.shell.execute.mutate({ command: 'ls', env: { A: 'b' } });
  await api.mcp.web.request.mutate({ url: 'https://example.com', method: 'POST', json: { a: [1] } });
  await api.mcp.database.query.mutate({ query: 'SELECT ?', params: [1, 'a', null] });
  await api.mcp.database.tables.query();
  api.mcp.events.subscribe({ types: ['server'] }, {
    onData: (event) => {
      const id: string = event.id;
      if (event.data.type === 'server') console.log(id, event.data.server.state);
    },
    onError: (error) => console.log(error.data?.rule, error.data?.issues?.[0]?.path),
  });
  try {
    await api.mcp.status.query();
  } catch (error) {
    if (error instanceof TRPCClientError) console.log(failed, error.message);
  }
    // @ts-expect-error a query is not a mutation
  await api.mcp.status.mutate();
    // @ts-expect-error the procedure does not exist
  await api.mcp.nothing.query();
  // @ts-expect-error the name is missing
  await api.mcp.executeTool.mutate({});
    // @ts-expect-error the encoding does not exist
  await api.mcp.file.read.query({ path: 'a', encoding: 'rot13' });
  // @ts-expect-error the timeout is a number
  await api.mcp.shell.execute.mutate({ command: 'ls', timeout: '1' });
  // @ts-expect-error the path is missing
  await api.mcp.file.list.query();
}

declare const page0: { nextCursor?: string } | undefined;
