// The procedures of a Lockgate gateway at /trpc, for createTRPCClient<AppRouter>() of @trpc/client 11.
// A test of the gateway compares them with the served procedures. There is no transformer: values are plain JSON.

import type {
  TRPCBuiltRouter,
  TRPCDecorateCreateRouterOptions,
  TRPCDefaultErrorData,
  TRPCMutationProcedure,
  TRPCQueryProcedure,
  TRPCSubscriptionProcedure,
  TRPC_ERROR_CODE_NUMBER,
} from '@trpc/server';

/** An error in an input, in the format of zod. */
export interface Issue {
  code: string;
  path: (string | number)[];
  message: string;
}

/** `data` of a failed call. Several codes share the number -32603: go by `code`. */
export interface ErrorData extends TRPCDefaultErrorData {
  /** The errors in the input. */
  issues?: Issue[];
  /** The policy that refused a call, and the reason of a server or the gateway. */
  rule?: string;
  reason?: string;
  /** The kind of server failure, and the server. */
  type?: 'connection' | 'authentication' | 'timeout' | 'execution' | 'validation';
  server?: string;
  /** Seconds. */
  retryAfter?: number;
  /** The JSON-RPC error. */
  mcp?: { code: number; message: string; data?: unknown };
  /** The input that the tool requires from its caller. */
  inputRequests?: unknown;
}

export interface ErrorShape {
  message: string;
  code: TRPC_ERROR_CODE_NUMBER;
  data: ErrorData;
}

/** A part of a result: its `type` determines the other members. */
export interface Content {
  type: 'text' | 'image' | 'audio' | 'resource' | 'resource_link';
  text?: string;
  data?: string;
  mimeType?: string;
  uri?: string;
  name?: string;
  resource?: { uri: string; mimeType?: string; text?: string; blob?: string };
}

/** The result of a tool: a `CallToolResult` of MCP. */
export interface ToolResult {
  /** Texts, images and resources. */
  content: Content[];
  /** The result for programs. */
  structuredContent?: unknown;
  /** The tool failed; `content` contains the reason. */
  isError?: boolean;
}

export interface Server {
  name: string;
  /** Absent for servers of the configuration, which all organisations share. */
  organizationId?: string;
  state: 'pending' | 'connected' | 'unresponsive' | 'needs-auth' | 'failed' | 'disabled' | 'resting';
  reason: string;
  /** RFC 3339. */
  since: string;
  stage?: string;
  lastGood?: string;
  lastHeard?: string;
  transport?: string;
  revision?: string;
  capabilities: { tools: number; prompts: number; resources: number };
  restarts: number;
  /** For operators, and for members of its organisation. */
  metrics?: Record<string, unknown>;
  /** For operators: its original error, its standard error, its limits. */
  operator?: Record<string, unknown>;
}

/** The gateway in the caller's view. */
export interface Status {
  name: string;
  version: string;
  organizationId: string;
  servers: Server[];
  /** The number of tools that the caller may use. */
  tools: number;
  /** Calls of tools with figures that the caller may see, since the gateway started; the rate is from 0 to 1, and absent before the first call. */
  requests: { total: number; failed: number; successRate?: number };
  /** Legacy sessions of the caller's organisation; for operators, all. */
  activeSessions: number;
}

export interface UsageFigures {
  calls: number;
  failed: number;
  /** Milliseconds, within 19 % from 0.5 ms to 65 s; absent without a call that reached a server. */
  p50Ms?: number;
  p95Ms?: number;
}

/** Calls of the caller's organisation; for operators, all. Times are RFC 3339. */
export interface Usage {
  window: '1h' | '24h' | '7d';
  stepSeconds: number;
  from: string;
  until: string;
  /** Set if the figures are in memory alone: the start of the count. */
  since?: string;
  writtenAt?: string;
  total: UsageFigures;
  steps: (UsageFigures & { at: string })[];
  /** The 100 with the most calls. */
  items: (UsageFigures & { server?: string; tool?: string; organizationId?: string; issuer?: string; subject?: string; name?: string })[];
  otherCalls: number;
  denials: { rule: string; reason: string; count: number }[];
  /** The last 24 hours of servers. */
  servers: {
    name: string;
    organizationId?: string;
    hours: { at: string; state: 'ok' | 'failing' | 'down' | 'no-data'; calls: number; failed: number; downPercent: number }[];
  }[];
}

export interface Tool {
  name: string;
  server: string;
  /** For built-in tools, like tags and permissions. */
  version?: string;
  tags: string[];
  permissions: string[];
  title?: string;
  description?: string;
  inputSchema: Record<string, unknown>;
  outputSchema?: Record<string, unknown>;
  annotations?: Record<string, unknown>;
  /** For operators, and for members of its server's organisation. */
  metrics?: Record<string, unknown>;
}

export interface ToolList {
  tools: Tool[];
  /** The number of items in all pages. */
  total: number;
  /** `cursor` of the next page, if any. */
  nextCursor?: string;
}

/** A server has changed, a tool was added or removed, a call has ended, or events were lost (sent for every value of `types`). */
export type Event =
  | { type: 'server'; server: Pick<Server, 'name' | 'state' | 'reason' | 'since' | 'capabilities'> }
  | { type: 'registered' | 'unregistered'; tool: { name: string; server: string } }
  | { type: 'executed'; call: ExecutedCall }
  | { type: 'missed' };

/** A call of the caller; for administrators, any of their organisation. Sent only as it happens. */
export interface ExecutedCall {
  name: string;
  server: string;
  issuer: string;
  subject: string;
  outcome: string;
  durationMs: number;
}

/** An item of a subscription: after a reconnection the link continues after `id`. */
export interface Tracked<T> {
  id: string;
  data: T;
}

interface Def<Input, Output> {
  input: Input;
  output: Output;
  meta: object;
  errorShape: ErrorShape;
}

type Query<Input, Output> = TRPCQueryProcedure<Def<Input, Output>>;
type Mutation<Input, Output> = TRPCMutationProcedure<Def<Input, Output>>;
type Subscription<Input, Output> = TRPCSubscriptionProcedure<Def<Input, AsyncIterable<Tracked<Output>, void, any>>>;

type Encoding = 'utf-8' | 'base64' | 'hex';
type Scalar = string | number | boolean | null;

export type AppRouter = TRPCBuiltRouter<
  { ctx: object; meta: object; errorShape: ErrorShape; transformer: false },
  TRPCDecorateCreateRouterOptions<{
    mcp: {
      status: Query<void, Status>;
      usage: Query<{ window?: '1h' | '24h' | '7d'; by?: 'server' | 'tool' | 'caller'; server?: string; principal?: string } | void, Usage>;
      listTools: Query<{ category?: string; server?: string; cursor?: string } | void, ToolList>;
      executeTool: Mutation<{ name: string; arguments?: Record<string, unknown> }, ToolResult>;
      file: {
        read: Query<{ path: string; encoding?: Encoding; server?: string }, ToolResult>;
        list: Query<{ path: string; recursive?: boolean; includeHidden?: boolean; server?: string }, ToolResult>;
        write: Mutation<{ path: string; content: string; encoding?: Encoding; mode?: 'replace' | 'create' | 'append'; server?: string }, ToolResult>;
      };
      shell: {
        execute: Mutation<{ command: string; cwd?: string; timeout?: number; env?: Record<string, string>; server?: string }, ToolResult>;
      };
      web: {
        request: Mutation<{ url: string; server?: string; [member: string]: unknown }, ToolResult>;
        fetch: Query<{ url: string; extractText?: boolean; timeout?: number; server?: string }, ToolResult>;
      };
      database: {
        query: Mutation<{ query: string; params?: Scalar[]; limit?: number; connection?: string; server?: string }, ToolResult>;
        tables: Query<{ schema?: string; connection?: string; server?: string } | void, ToolResult>;
        schema: Query<{ table: string; schema?: string; connection?: string; server?: string }, ToolResult>;
      };
      events: Subscription<{ types?: ('server' | 'registered' | 'unregistered' | 'executed' | 'missed')[]; lastEventId?: string } | void, Event>;
    };
  }>
>;
