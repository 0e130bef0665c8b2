// Frames survive however the socket cuts them.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ANSWER, CALL, CHUNK, Decoder, encode, END, ERROR, isFinal, NEXT } from '../sless/shared/wire.mjs';

test('any cut gives the same frames', () => {
  const frames = [
    { kind: CALL, call: 1, head: { mode: 'http', text: 'grüße' }, body: Buffer.alloc(1000) },
    { kind: NEXT, call: 1, head: {}, body: Buffer.alloc(0) },
    { kind: CHUNK, call: 2 ** 32 - 1, head: {}, body: Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i)) },
    { kind: END, call: 7, head: {}, body: Buffer.alloc(0) },
  ];
  const data = Buffer.concat(frames.flatMap(({ kind, call, head, body }) => encode(kind, call, head, body)));
  for (const size of [1, 2, 7, 13, 100, data.length]) {
    const decoder = new Decoder();
    const got = [];
    for (let at = 0; at < data.length; at += size) got.push(...decoder.feed(data.subarray(at, at + size)));
    assert.deepEqual(got.map(({ body, ...rest }) => ({ ...rest, body: Buffer.from(body) })), frames, `cut every ${size} bytes`);
  }
});

test('which frames are final', () => {
  for (const [kind, head, final] of [
    [ANSWER, { status: 200 }, true],
    [ANSWER, { status: 200, stream: true }, false],
    [CHUNK, {}, false],
    [END, {}, true],
    [ERROR, { error: 'x' }, true],
  ]) {
    assert.equal(isFinal({ kind, head }), final);
  }
});
