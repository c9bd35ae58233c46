// The steps of a driver script for both TypeScript SDKs; drivers/README.md describes the interface.
// It reports the client library's results without judging them. Every step and the whole run have a time limit.

import { parseArgs } from 'node:util';

// The client libraries print hints with console.debug; standard output is reserved for the reports.
console.debug = console.info = console.log = console.error;

const PAGES = 50;
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const LISTS = {
  list_tools: ['listTools', 'tools'],
  list_resources: ['listResources', 'resources'],
  list_resource_templates: ['listResourceTemplates', 'resourceTemplates'],
  list_prompts: ['listPrompts', 'prompts'],
};

export function readOptions() {
  const argv = process.argv.slice(2);
  const at = argv.indexOf('--stdio');
  const stdio = at < 0 ? null : argv.slice(at + 1);
  const { values } = parseArgs({
    args: at < 0 ? argv : argv.slice(0, at),
    options: {
      url: { type: 'string' },
      era: { type: 'string', default: 'auto' },
      transport: { type: 'string', default: 'http' },
      timeout: { type: 'string', default: '20' },
      'run-timeout': { type: 'string', default: '90' },
    },
  });
  const headers = process.env.E2E_TOKEN ? { Authorization: `Bearer ${process.env.E2E_TOKEN}` } : {};
  delete process.env.E2E_TOKEN;
  return {
    ...values, stdio, headers,
    timeout: Number(values.timeout) * 1000,
    runTimeout: Number(values['run-timeout']) * 1000,
  };
}

export async function readScript() {
  let text = '';
  for await (const chunk of process.stdin) text += chunk;
  return JSON.parse(text);
}

/** The messages to the client since the last report. */
export class Inbox {
  notifications = [];
  asked = [];
  #marked = new Set(); // methods received since the last mark
  #waiting = [];

  note(method, params) {
    this.notifications.push({ method, params });
    this.#marked.add(method);
    for (const wake of this.#waiting.splice(0)) wake();
  }

  ask(method, params, answer) {
    this.asked.push({ method, params });
    return structuredClone(answer);
  }

  mark() {
    this.#marked.clear();
  }

  async until(method, limit) {
    const end = Date.now() + limit;
    while (!this.#marked.has(method)) {
      const left = end - Date.now();
      if (left <= 0) throw new Late(`no ${method} within ${limit} ms`);
      await new Promise(wake => {
        this.#waiting.push(wake);
        setTimeout(wake, left);
      });
    }
  }

  take() {
    const got = { notifications: this.notifications, asked: this.asked };
    this.notifications = [];
    this.asked = [];
    return got;
  }
}

/** Returns the capabilities of a client with these answers; without an answer the capability is not declared. */
export function capabilitiesFor(answers) {
  const got = {};
  if (answers.elicitation) got.elicitation = { form: {}, url: {} };
  if (answers.sampling) got.sampling = {};
  if (answers.roots) got.roots = { listChanged: true };
  return got;
}

class Late extends Error {}

const pause = ms => new Promise(done => setTimeout(done, ms));

async function within(ms, work) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Late(`the step took more than ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function described(error) {
  if (error instanceof Late) return { code: 'timeout', message: error.message };
  const got = { code: error?.code ?? error?.name ?? 'Error', message: String(error?.message ?? error) };
  if (error?.data !== undefined) got.data = error.data;
  if (error?.cause) got.cause = String(error.cause?.message ?? error.cause);
  return got;
}

/** `session` = {client, call(params, options), list(verb, params), connect(), listen?(step), close()} */
export async function play(session, inbox, script, options) {
  const finish = setTimeout(() => {
    report({ step: 'run', ok: false, error: { code: 'timeout', message: 'the run took too long' } }, inbox);
    process.exit(1);
  }, options.runTimeout);
  const connected = await outcome(session, inbox, { do: 'connect', timeout: options.timeout / 1000 }, options);
  report(connected, inbox);
  if (connected.ok) {
    for (const step of script.steps) report(await outcome(session, inbox, step, options), inbox);
  }
  const closed = await outcome(session, inbox, { do: 'close', timeout: 5 }, options);
  report(closed, inbox);
  clearTimeout(finish);
  process.exit(0);
}

function report(line, inbox) {
  process.stdout.write(`${JSON.stringify({ ...line, ...inbox.take() })}\n`);
}

async function outcome(session, inbox, step, options) {
  const verb = step.do;
  const run = STEPS[verb] ?? (LISTS[verb] && listAll);
  if (!run) return { step: verb, ok: false, error: { code: 'unsupported', message: verb } };
  try {
    const limit = step.timeout ? step.timeout * 1000 : options.timeout;
    const result = await within(limit + 500, run(session, inbox, step, { timeout: limit }, options));
    return { step: verb, ok: true, result: result ?? {} };
  } catch (error) {
    return { step: verb, ok: false, error: described(error) };
  }
}

async function listAll(session, _inbox, step) {
  const [method, key] = LISTS[step.do];
  const items = [];
  let cursor;
  for (let pages = 1; pages <= PAGES; pages++) {
    const got = await session.list(method, cursor === undefined ? undefined : { cursor });
    items.push(...got[key]);
    cursor = got.nextCursor;
    if (cursor === undefined) return { [key]: items, pages };
  }
  throw new Error(`more than ${PAGES} pages`);
}

async function callTool(session, inbox, step, request) {
  const params = { name: step.name, arguments: step.arguments };
  if (step.log_level) params._meta = { [LOG_LEVEL]: step.log_level };
  if (step.progress) request.onprogress = params => inbox.note('notifications/progress', params);
  if (!step.cancel_after) return session.call(params, request);
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort('cancelled by the client'), step.cancel_after * 1000);
  try {
    return await session.call(params, { ...request, signal: abort.signal });
  } catch (error) {
    if (!abort.signal.aborted) throw error;
    throw Object.assign(new Error('cancelled by the client'), { code: 'cancelled' });
  } finally {
    clearTimeout(timer);
  }
}

async function parallel(session, inbox, step, _request, options) {
  return { outcomes: await Promise.all(step.steps.map(inner => outcome(session, inbox, inner, options))) };
}

const STEPS = {
  connect: session => session.connect(),
  close: session => session.close(),
  call_tool: callTool,
  read_resource: (s, _i, step, request) => s.client.readResource({ uri: step.uri }, request),
  get_prompt: (s, _i, step, request) => s.client.getPrompt({ name: step.name, arguments: step.arguments }, request),
  complete: (s, _i, step, request) => s.client.complete(
    { ref: step.ref, argument: step.argument, ...(step.context && { context: { arguments: step.context } }) }, request),
  set_log_level: (s, _i, step, request) => s.client.setLoggingLevel(step.level, request),
  ping: (s, _i, _step, request) => s.client.ping(request),
  subscribe: (s, _i, step, request) => s.client.subscribeResource({ uri: step.uri }, request),
  unsubscribe: (s, _i, step, request) => s.client.unsubscribeResource({ uri: step.uri }, request),
  listen: (s, _i, step, request) => s.listen(step, request),
  mark: (_s, inbox) => inbox.mark(),
  wait_for: (_s, inbox, step) => inbox.until(step.method, (step.timeout ?? 10) * 1000),
  wait: (_s, _i, step) => pause(step.seconds * 1000),
  parallel,
};
