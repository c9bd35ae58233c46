// The procedures of a Lockgate gateway at /trpc, for createTRPCClient<AppRouter>() of @trpc/client 11.
// A test of the gateway holds them against what it serves. There is no transformer: values are plain JSON.

import type {
  TRPCBuiltRouter,
  TRPCDecorateCreateRouterOptions,
  TRPCDefaultErrorData,
  TRPCMutationProcedure,
  TRPCQueryProcedure,
  TRPCSubscriptionProcedure,
  TRPC_ERROR_CODE_NUMBER,
} from '@trpc/server';

/** Something that an input has wrong, as zod has it. */
export interface Issue {
  code: string;
  path: (string | number)[];
  message: string;
}

/** `data` of a failed call. Several codes share the number -32603: go by `code`. */
export interface ErrorData extends TRPCDefaultErrorData {
  /** What is wrong with the input. */
  issues?: Issue[];
  /** The policy that refused a call, and why a server or the gateway did. */
  rule?: string;
  reason?: string;
  /** What of a server failed, and which. */
  type?: 'connection' | 'authentication' | 'timeout' | 'execution' | 'validation';
  server?: string;
  /** Seconds. */
  retryAfter?: number;
  /** The error of JSON-RPC. */
  mcp?: { code: number; message: string; data?: unknown };
  /** What the tool wants to know first. */
  inputRequests?: unknown;
}

export interface ErrorShape {
  message: string;
  code: TRPC_ERROR_CODE_NUMBER;
  data: ErrorData;
}

/** A part of a result: its `type` says which of the others are there. */
export interface Content {
  type: 'text' | 'image' | 'audio' | 'resource' | 'resource_link';
  text?: string;
  data?: string;
  mimeType?: string;
  uri?: string;
  name?: string;
  resource?: { uri: string; mimeType?: string; text?: string; blob?: string };
}

/** The result of a tool, as MCP has it (`CallToolResult`). */
export interface ToolResult {
  /** For a reader. */
  content: Content[];
  /** The result for programs. */
  structuredContent?: unknown;
  /** The tool failed: `content` says why. */
  isError?: boolean;
}

export interface Server {
  name: string;
  /** None for those of the configuration, which all share. */
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
  /** For operators, and for members of the organisation that it belongs to. */
  metrics?: Record<string, unknown>;
  /** For operators: its failure in its own words, its standard error, its limits. */
  operator?: Record<string, unknown>;
}

/** The gateway as its caller sees it. */
export interface Status {
  name: string;
  version: string;
  organizationId: string;
  servers: Server[];
  /** How many the caller may use. */
  tools: number;
  /** Calls of tools whose figures the caller sees, since the gateway started; the rate is from 0 to 1, and absent before the first call. */
  requests: { total: number; failed: number; successRate?: number };
  /** Legacy sessions of the caller's organisation; for operators, all. */
  activeSessions: number;
}

export interface Tool {
  name: string;
  server: string;
  /** Of a built-in tool, as are its tags and permissions. */
  version?: string;
  tags: string[];
  permissions: string[];
  title?: string;
  description?: string;
  inputSchema: Record<string, unknown>;
  outputSchema?: Record<string, unknown>;
  annotations?: Record<string, unknown>;
  /** For operators, and for members of the organisation that its server belongs to. */
  metrics?: Record<string, unknown>;
}

export interface ToolList {
  tools: Tool[];
  /** How many there are in all pages. */
  total: number;
  /** `cursor` of the next page, if there is one. */
  nextCursor?: string;
}

/** A server has changed, a tool came or went, a call has ended, or events were lost, which is told whatever `types` says. */
export type Event =
  | { type: 'server'; server: Pick<Server, 'name' | 'state' | 'reason' | 'since' | 'capabilities'> }
  | { type: 'registered' | 'unregistered'; tool: { name: string; server: string } }
  | { type: 'executed'; call: ExecutedCall }
  | { type: 'missed' };

/** One's own call; for administrators, any of their organisation. Told as it happens, or not at all. */
export interface ExecutedCall {
  name: string;
  server: string;
  issuer: string;
  subject: string;
  outcome: string;
  durationMs: number;
}

/** What a subscription gives: the link goes on after `id` when it connects anew. */
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
