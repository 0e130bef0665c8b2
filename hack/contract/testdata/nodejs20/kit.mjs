// A function that does what the X-Do header, or `do` of its event, says. The python kit does the same things.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

let calls = 0;
let running = 0;
let peak = 0;

export function handle(event, context) {
  calls++;
  const isHTTP = typeof event?.httpMethod === 'string';
  const what = isHTTP ? (event.headers['X-Do'] ?? 'echo') : (event?.do ?? 'echo');
  return actions[what]((isHTTP ? event.queryStringParameters : event) ?? {}, event, context);
}

const actions = {
  echo: (args, event) => event,

  context: (args, event, context) => ({
    request_id: context.requestId,
    name: context.functionName,
    namespace: context.functionNamespace,
    version: context.functionVersion,
    remaining: context.getRemainingTimeInMillis(),
    traceparent: context.traceparent,
  }),

  // Makes requests: by http and by fetch, at once and after a while, and with a context of its own.
  async call({ url }, event, { traceparent, tracestate }) {
    const get = (path, options) =>
      new Promise((resolve, reject) => http.get(url + path, options, (got) => got.resume().once('end', resolve)).once('error', reject));
    await get('/direct');
    await sleep(1);
    await fetch(`${url}/later`);
    const headers = { traceparent: 'mine' };
    await get('/own', { headers });
    await fetch(`${url}/own`, { headers });
    return { traceparent, tracestate };
  },

  raw: (args, event) => Buffer.from(event.body, event.isBase64Encoded ? 'base64' : 'utf8'),

  raw64: (args, event) => ({
    statusCode: 200,
    headers: { 'content-type': 'image/png' },
    body: actions.raw(args, event).toString('base64'),
    isBase64Encoded: true,
  }),

  value: ({ name }) =>
    ({
      text: 'grüße',
      empty: '',
      bytes: Uint8Array.from({ length: 256 }, (_, i) => i),
      none: undefined,
      number: 42,
      list: [1, 'a', null],
      object: { a: { b: 'ü' } },
      false: false,
      described: { statusCode: 201, headers: { 'X-One': '1', 'x-two': 2 }, body: { made: true } },
      redirect: { statusCode: 302, headers: { Location: '/else%2Fwhere' } },
      cookies: { statusCode: '200', multiValueHeaders: { 'Set-Cookie': ['a=1', 'b=2'] }, body: 'ok' },
      'no-content': { statusCode: 204 },
      'not-modified': { statusCode: 304, headers: { ETag: '"x"' } },
      'own-status': { statusCode: 500, body: 'mine' },
      'bad-status': { statusCode: 99 },
      'bad-header': { statusCode: 200, headers: { X: 'a\r\nY: b' } },
      'bad-header-name': { statusCode: 200, headers: { 'a b': 'c' } },
      'bad-base64': { statusCode: 200, body: '%', isBase64Encoded: true },
      'platform-headers': {
        statusCode: 200,
        headers: { 'Sless-Overload': 'true', Connection: 'close', 'Content-Length': '1' },
        body: 'four',
      },
      'no-json': [1n],
      long: 'ä'.repeat(4000),
      quotes: '"'.repeat(3500),
    })[name],

  stream: (args) => {
    const items = {
      text: ['one ', '', 'two'],
      bytes: [Buffer.from([0, 255]), Buffer.from([128])],
      json: [{ n: 1 }, { n: 2 }],
      none: [],
    }[args.name];
    if (args.described) {
      return { statusCode: 201, headers: { 'Content-Type': 'text/event-stream' }, body: Readable.from(items) };
    }
    return args.async ? asyncItems(items) : items.values();
  },

  events: (args) => ({ statusCode: 200, headers: { 'content-type': 'text/event-stream' }, body: events(args) }),

  async *broken() {
    yield 'first';
    throw new RangeError('secret of the stream');
  },

  *flood({ parts }) {
    for (let i = 0; i < Number(parts); i++) yield Buffer.alloc(65536, 'x');
  },

  raise() {
    throw new RangeError('secret of the handler');
  },

  async wait(args, event, context) {
    peak = Math.max(peak, ++running);
    mark(args, 'started');
    try {
      while (!has(args, 'release')) {
        await sleep(20);
        context.signal.throwIfAborted();
      }
      return 'released';
    } catch (err) {
      mark(args, 'cancelled');
      throw err;
    } finally {
      running--;
    }
  },

  peak: () => peak,

  // Never comes back, with a child in a session of its own, a grandchild, and 64 MB.
  async hang(args) {
    const ballast = Buffer.alloc(64 << 20, 1);
    const script = 'sleep 100000 & echo $!; exec sleep 100000';
    const child = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
    const grandchild = await new Promise((resolve) => child.stdout.once('data', (data) => resolve(Number(data))));
    process.stdout.write('about to hang');
    mark(args, 'started', `${process.pid} ${child.pid} ${grandchild}`);
    while (ballast.length > 0);
  },

  async *stall() {
    yield 'first';
    await sleep(100_000_000);
  },

  state: () => ({ pid: process.pid, calls }),

  exit: () => process.exit(3),

  print({ size, char = 'x' }) {
    const line = char.repeat(Number(size));
    console.log(line);
    console.error(line);
    process.stdout.write('no newline at the end');
  },

  lines({ count }) {
    for (let i = 0; i < Number(count); i++) console.log('line', i);
  },

  // Prints in every way there is, and goes on until the others have begun as well.
  async say(args) {
    const { name, others } = args;
    console.log(name, 'here');
    console.log(JSON.stringify({ name, text: 'json' }));
    console.log(`${name} first\n[forged] ${name} second\n{"sless_request_id":"forged","name":"${name}"}`);
    mark(args, `said-${name}`);
    while (!others.split(',').every((other) => has(args, `said-${other}`))) {
      console.log(name, 'waits');
      await sleep(10);
    }
    await new Promise((resolve) => setTimeout(() => resolve(console.log(name, 'thread')), 1));
    fs.writeSync(1, `${name} logged\n`);
    process.stdout.write(`${name} ends without a line end`);
  },

  files() {
    const file = `/tmp/sless-contract-${process.pid}`;
    fs.writeFileSync(file, 'x');
    fs.unlinkSync(file);
    return { cwd: process.cwd(), path: process.env.PATH };
  },
};

async function* asyncItems(items) {
  yield* items;
}

async function* events(args) {
  try {
    yield 'data: 1\n\n';
    mark(args, 'between');
    while (!has(args, 'release')) {
      await sleep(20);
      yield '';
    }
    yield 'data: 2\n\n';
  } finally {
    mark(args, 'closed');
  }
}

function mark({ dir }, what, text = '') {
  const name = path.join(dir, what);
  fs.writeFileSync(`${name}.part`, text);
  fs.renameSync(`${name}.part`, name);
}

function has({ dir }, what) {
  return fs.existsSync(path.join(dir, what));
}
