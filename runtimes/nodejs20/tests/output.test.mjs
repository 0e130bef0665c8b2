// Whose lines are whose in the log.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Lines, Origin, within } from '../sless/worker/output.mjs';

const a = new Origin('a');
const b = new Origin('b');

/** What is in the log after each origin (undefined: nobody) has printed its text. */
function log(...printed) {
  const lines = new Lines();
  return printed.map(([origin, text]) => (text === undefined ? lines.ending(origin) : within(origin, () => lines.marked(text)))).join('');
}

test('every line has the id', () => {
  assert.equal(log([a, 'one\ntwo\n\nthree\n']), '[a] one\n[a] two\n[a] \n[a] three\n');
});

test('JSON stays JSON', () => {
  assert.equal(
    log([a, '{"m": 1}\n{"m": 2} \r\n{}\n[1]\n{\n']),
    '{"sless_request_id":"a","m": 1}\n{"sless_request_id":"a","m": 2} \r\n[a] {}\n[a] [1]\n[a] {\n',
  );
});

test("nobody's lines are as they are", () => {
  const text = 'one\n[2026-01-01 x] two\n{"a":1}\n';
  assert.equal(log([undefined, text]), text);
});

test('nobody can seem to be a request', () => {
  assert.equal(log([undefined, '[a] one\n{"sless_request_id":"a"}\n']), '[-] [a] one\n[-] {"sless_request_id":"a"}\n');
});

test('a request can not seem to be another', () => {
  assert.equal(
    log([a, 'x\n[b] forged\n{"sless_request_id":"b","m":1}\n']),
    '[a] x\n[a] [b] forged\n{"sless_request_id":"a","sless_request_id":"b","m":1}\n',
  );
});

test('a line in pieces is one line, until another origin prints', () => {
  assert.equal(log([a, 'one'], [a, ' two'], [a, ' three\n']), '[a] one two three\n');
  assert.equal(log([a, 'half'], [b, 'whole\n'], [a, 'rest\n']), '[a] half\n[b] whole\n[a] rest\n');
});

test('the end of a call ends its line', () => {
  assert.equal(log([a, 'half'], [a], [a], [b, 'next\n']), '[a] half\n[b] next\n');
});

const WORK = `
import fs, { writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { finish, install, Origin, within } from ${JSON.stringify(fileURLToPath(new URL('../sless/worker/output.mjs', import.meta.url)))};
install();
async function work(name) {
  console.log(name, 'main');
  console.error(name, 'error');
  await new Promise((resolve) => setTimeout(resolve, 5));
  console.log(name, 'timer');
  process.nextTick(() => console.log(name, 'tick'));
  await null;
  fs.writeSync(1, name + ' by number\\n');
  writeSync(1, Buffer.from('..' + name + ' bytes\\n..'), 2, 8);
  await promisify(fs.write)(1, name + ' later\\n');
  await new Promise((resolve) => fs.write(1, Buffer.from(name + ' called back\\n'), resolve));
  process.stdout.write(Buffer.from([0xff, 0x0a]));
  process.stdout.write('4142', 'hex');
}
const origins = ['a', 'b'].map((name) => new Origin(name));
await Promise.all([within(origins[0], () => work('a')), within(origins[1], () => work('b'))]);
for (const origin of origins) finish(origin);
console.log('nobody');
`;

test('the id follows the work, into a pipe and into a file', () => {
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'sless-output-')), 'log');
  const run = (stdio) => spawnSync(process.execPath, ['--input-type=module', '-e', WORK], { stdio, encoding: 'latin1' });
  const piped = run(['ignore', 'pipe', 'pipe']);
  assert.equal(piped.status, 0, piped.stderr);
  const out = fs.openSync(file, 'w');
  assert.equal(run(['ignore', out, out]).status, 0);
  for (const text of [piped.stdout + piped.stderr, fs.readFileSync(file, 'latin1')]) {
    const lines = text.split('\n');
    for (const name of ['a', 'b']) {
      for (const what of ['main', 'error', 'timer', 'tick', 'by number', 'bytes', 'later', 'called back']) {
        assert.equal(lines.filter((line) => line === `[${name}] ${name} ${what}`).length, 1, `${name} ${what} in\n${text}`);
      }
      assert.ok(lines.includes(`[${name}] \xff`) && lines.includes(`[${name}] AB`), text);
    }
    assert.ok(lines.includes('nobody'));
  }
  fs.rmSync(path.dirname(file), { recursive: true });
});
