// T1: the same bytes are sent to the gateway and to @trpc/server; status, headers and body must be equal.

import { Gateway, check, equal, holds, send } from './check.mjs';
import { startReference } from './reference.mjs';

const JSON_TYPE = { 'content-type': 'application/json' };
const LINES = { 'trpc-accept': 'application/jsonl' };
const q = (value) => encodeURIComponent(JSON.stringify(value));
const echo = (text) => JSON.stringify({ name: 'example__echo', arguments: { text } });
const batchOf = (...inputs) => JSON.stringify(Object.fromEntries(inputs.map((input, at) => [at, input])));
const call = (text) => ({ name: 'example__echo', arguments: { text } });
const many = (count) => Array(count).fill('mcp.executeTool').join(',');

const CASES = [
    // Single calls.
  ['a mutation', 'POST', '/mcp.executeTool', JSON_TYPE, echo('hello')],
  ['unicode in the input', 'POST', '/mcp.executeTool', JSON_TYPE, echo('ä,%2C \u2028 😀 "\\')],
  ['a content type with a charset', 'POST', '/mcp.executeTool', { 'content-type': 'application/json; charset=utf-8' }, echo('a')],
  ['a content type in capitals', 'POST', '/mcp.executeTool', { 'content-type': 'Application/JSON' }, echo('a')],
  ['numbers and nesting', 'POST', '/mcp.executeTool', JSON_TYPE, '{"name":"example__add","arguments":{"a":1,"b":2}}'],
  ['a result that says it failed', 'POST', '/mcp.executeTool', JSON_TYPE, '{"name":"example__add","arguments":{}}'],
  ['an escape of a dot in the path', 'POST', '/mcp%2EexecuteTool', JSON_TYPE, echo('a')],
  ['an escape of a letter in the path', 'POST', '/%6Dcp.executeTool', JSON_TYPE, echo('a')],
  ['a query of the base', 'POST', '/mcp.executeTool?x=1', JSON_TYPE, echo('a')],
  ['batch=0 is no batch', 'POST', '/mcp.executeTool?batch=0', JSON_TYPE, echo('a')],
  ['batch=true is no batch', 'POST', '/mcp.executeTool?batch=true', JSON_TYPE, echo('a')],
    // Invalid input.
  ['no input', 'POST', '/mcp.executeTool', JSON_TYPE],
  ['null as input', 'POST', '/mcp.executeTool', JSON_TYPE, 'null'],
  ['a list as input', 'POST', '/mcp.executeTool', JSON_TYPE, '[]'],
  ['a member that is missing', 'POST', '/mcp.executeTool', JSON_TYPE, '{}'],
  ['a member of another type', 'POST', '/mcp.executeTool', JSON_TYPE, '{"name":1}'],
  ['two wrong members', 'POST', '/mcp.executeTool', JSON_TYPE, '{"name":1,"arguments":[]}'],
  ['a member that nobody knows', 'POST', '/mcp.executeTool', JSON_TYPE, '{"name":"a","x":1}'],
  ['two that nobody knows', 'POST', '/mcp.executeTool', JSON_TYPE, '{"name":"a","x":1,"y":2}'],
  ['a choice that there is not', 'GET', `/mcp.file.read?input=${q({ path: 'a', encoding: 'x' })}`],
  ['a query without its input', 'GET', '/mcp.file.read'],
  ['an empty input', 'GET', '/mcp.file.read?input='],
  ['a flag that is none', 'GET', `/mcp.file.list?input=${q({ path: 'a', recursive: 1 })}`],
  ['a number that is too small', 'POST', '/mcp.shell.execute', JSON_TYPE, '{"command":"a","timeout":0}'],
  ['a number that is too large', 'POST', '/mcp.shell.execute', JSON_TYPE, '{"command":"a","timeout":300001}'],
  ['a number that is not whole', 'POST', '/mcp.shell.execute', JSON_TYPE, '{"command":"a","timeout":1.5}'],
  ['a text where a number belongs', 'POST', '/mcp.shell.execute', JSON_TYPE, '{"command":"a","timeout":"1"}'],
  ['a record with a wrong value', 'POST', '/mcp.shell.execute', JSON_TYPE, '{"command":"a","env":{"B":1}}'],
  ['a record that is a list', 'POST', '/mcp.shell.execute', JSON_TYPE, '{"command":"a","env":[]}'],
  ['invalid JSON', 'POST', '/mcp.executeTool', JSON_TYPE, '{', 'words'],
  ['invalid JSON in the query', 'GET', '/mcp.file.read?input=%7B', {}, undefined, 'words'],
    // Unknown procedures and wrong methods.
  ['an unknown procedure', 'GET', '/mcp.nothing'],
  ['an unknown procedure by POST', 'POST', '/mcp.nothing', JSON_TYPE, '{}'],
  ['a router is no procedure', 'GET', '/mcp.file'],
  ['no procedure', 'GET', '/'],
  ['a slash in the path', 'GET', '/mcp/status'],
  ['a name of every object', 'GET', '/mcp.constructor'],
  ['an escape that is none', 'GET', '/mcp%2'],
  ['an escape that is no UTF-8', 'GET', '/mcp%ff'],
  ['GET of a mutation', 'GET', `/mcp.executeTool?input=${q({})}`],
  ['POST of a query', 'POST', '/mcp.status', JSON_TYPE, '{}'],
  ['PUT of a query', 'PUT', '/mcp.status', JSON_TYPE, '{}'],
  ['DELETE of a mutation', 'DELETE', '/mcp.executeTool', JSON_TYPE, '{}'],
  ['HEAD', 'HEAD', '/mcp.status'],
  ['POST without a content type', 'POST', '/mcp.executeTool', {}, '{}'],
  ['POST of text', 'POST', '/mcp.executeTool', { 'content-type': 'text/plain' }, '{}'],
  // Batches.
  ['a batch of one', 'POST', '/mcp.executeTool?batch=1', JSON_TYPE, batchOf(call('a'))],
  ['a batch of three', 'POST', `/${many(3)}?batch=1`, JSON_TYPE, batchOf(call('a'), call('b'), call('c'))],
  ['a batch with a failure', 'POST', '/mcp.executeTool,mcp.nothing?batch=1', JSON_TYPE, batchOf(call('a'))],
  ['a batch of failures', 'POST', '/mcp.nothing,mcp.other?batch=1', JSON_TYPE, '{}'],
  ['a batch of different failures', 'POST', '/mcp.nothing,mcp.executeTool?batch=1', JSON_TYPE, '{}'],
  ['a batch without its inputs', 'POST', `/${many(2)}?batch=1`, JSON_TYPE],
  ['a batch whose input is a list', 'POST', `/${many(2)}?batch=1`, JSON_TYPE, JSON.stringify([call('a'), call('b')]), 'words'],
  ['a batch whose input is a text', 'POST', `/${many(2)}?batch=1`, JSON_TYPE, '"a"'],
  ['a batch with inputs of nobody', 'POST', `/${many(1)}?batch=1`, JSON_TYPE, batchOf(call('a'), call('b'))],
  ['a batch of two kinds', 'POST', '/mcp.status,mcp.executeTool?batch=1', JSON_TYPE, '{}'],
  ['a batch of a query by POST', 'POST', '/mcp.status,mcp.nothing?batch=1', JSON_TYPE, '{}'],
  ['a comma as an escape', 'POST', '/mcp.nothing%2Cmcp.other?batch=1', JSON_TYPE, '{}'],
  ['a batch at its bound', 'POST', `/${many(32)}?batch=1`, JSON_TYPE, batchOf(...Array(32).fill(call('a')))],
  ['a batch beyond it', 'POST', `/${many(33)}?batch=1`, JSON_TYPE, '{}'],
  ['an empty path in a batch', 'POST', '/mcp.nothing,?batch=1', JSON_TYPE, '{}'],
  ['lines without a batch', 'POST', '/mcp.executeTool', { ...JSON_TYPE, ...LINES }, echo('a')],
  ['lines of two kinds', 'POST', '/mcp.status,mcp.executeTool?batch=1', { ...JSON_TYPE, ...LINES }, '{}'],
  ['a subscription in a batch', 'GET', '/mcp.events?batch=1'],
];

/** Returns the comparable part: the reference omits the media type for rejected requests; messages of JSON parsers differ; we add `issues`. */
function comparable(answer, ownWords) {
  const { 'content-type': kind, vary, allow } = answer.headers;
  let body = answer.text === '' ? null : JSON.parse(answer.text);
  for (const one of Array.isArray(body) ? body : [body]) {
    if (!one?.error) continue;
    delete one.error.data.issues;
    if (ownWords) one.error.message = '…';
    if (one.error.message.startsWith('[')) one.error.message = JSON.parse(one.error.message);
    if (one.error.data.mcp) throw new Error('an answer of a server: not comparable');
  }
  return { status: answer.status, kind: kind === 'text/plain;charset=UTF-8' ? 'application/json' : kind, vary, allow, body };
}

export async function raw() {
  const gateway = await Gateway.start({ builtin: { example: true, system: false } });
  const reference = await startReference(gateway.origin);
  for (const [name, method, path, headers, body, ownWords] of CASES) {
    await check(`T1 ${name}`, async () => {
      const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
      const sent = [method, `/trpc${path}`, { ...headers, ...length }, body];
      const [ours, theirs] = [await send(gateway.origin, ...sent), await send(reference.origin, ...sent)];
      if (ours.status === 204) return equal([ours.status, ours.text], [theirs.status, theirs.text]);
      equal(comparable(ours, ownWords), comparable(theirs, ownWords), name);
    });
  }
  await check('T1 has at least 40 cases', () => holds(CASES.length >= 40, CASES.length));
  reference.close();
}
