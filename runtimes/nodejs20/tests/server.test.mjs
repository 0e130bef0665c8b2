// The small parts of the server: settings, last words, and ending processes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { killAll, MARK } from '../sless/server/leftovers.mjs';
import { BadSetting, readSettings } from '../sless/server/settings.mjs';
import { errorMessage, resultMessage } from '../sless/server/termination.mjs';

test('settings', () => {
  const { port, timeoutSeconds, concurrency, root, terminationLog } = readSettings({});
  assert.deepEqual([port, timeoutSeconds, concurrency, root, terminationLog], [8080, 60, 0, '/function', '/dev/termination-log']);
  for (const [name, value] of [['PORT', '0'], ['PORT', 'x'], ['SLESS_TIMEOUT_SECONDS', '1.5'], ['SLESS_TIMEOUT_SECONDS', '86401'], ['SLESS_TIMEOUT_SECONDS', '٣'], ['SLESS_CONCURRENCY', '-1']]) {
    assert.throws(() => readSettings({ [name]: value }), (err) => err instanceof BadSetting && err.message.startsWith(`${name} is '${value}'`));
  }
});

test('a result', () => {
  assert.equal(resultMessage(Buffer.from('{"a":1}')), '{"result":{"a":1},"truncated":false}');
  assert.equal(JSON.parse(resultMessage(Buffer.from(JSON.stringify('x'.repeat(3070))))).truncated, false);
  for (const text of ['x'.repeat(5000), 'ü'.repeat(5000), '"'.repeat(5000), '\0'.repeat(5000), '😀'.repeat(2000)]) {
    const result = JSON.stringify(text);
    const message = resultMessage(Buffer.from(result));
    const got = JSON.parse(message);
    assert.equal(got.truncated, true);
    assert.ok(result.startsWith(got.result));
    assert.ok(Buffer.byteLength(message) <= 4096 && Buffer.byteLength(message) > 2972);
  }
});

test('an error', () => {
  assert.deepEqual(JSON.parse(errorMessage('grüße')), { error: 'grüße' });
  for (const text of ['ü'.repeat(5000), '\n'.repeat(5000)]) assert.ok(Buffer.byteLength(errorMessage(text)) <= 4096);
});

test('everything that descends from a worker is ended', async () => {
  // A child in a session of its own, one without the mark in its environment, and an orphan.
  const script = 'setsid sleep 1000 & echo $!; env -i sleep 1000 & echo $!; (setsid sleep 1000 & echo $!); echo; exec sleep 1000';
  const options = { detached: true, stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, [MARK]: 'm1' } };
  const leader = spawn('sh', ['-c', script], options);
  const pids = [];
  for await (const line of createInterface({ input: leader.stdout })) {
    if (line === '') break;
    pids.push(Number(line));
  }
  assert.equal(pids.length, 3);
  const other = spawn('sleep', ['1000'], { stdio: 'ignore', env: { ...process.env, [MARK]: 'm2' } });
  try {
    killAll('m1', leader.pid);
    for (const deadline = Date.now() + 60_000; pids.some(alive) && Date.now() < deadline; ) await sleep(20);
    assert.deepEqual(pids.filter(alive), []);
    assert.ok(alive(other.pid));
  } finally {
    other.kill('SIGKILL');
  }
});

function alive(pid) {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    return !'ZX'.includes(stat.slice(stat.lastIndexOf(')') + 2)[0]);
  } catch {
    return false;
  }
}
