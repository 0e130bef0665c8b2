// From a returned value to its answer.

import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';

import { BadAnswer, chunkBytes, chunkType, httpAnswer, isStream, valueJSON } from '../sless/worker/answer.mjs';

test('headers of both kinds', () => {
  const { headers } = httpAnswer({
    statusCode: 200,
    headers: { 'x-a': 'single', 'X-B': 7, 'x-c': true, 'Transfer-Encoding': 'chunked', 'sless-x': 'no' },
    multiValueHeaders: { 'X-A': ['1', '2'] },
  });
  assert.deepEqual(headers, [['X-A', '1'], ['X-A', '2'], ['X-B', '7'], ['X-C', 'true']]);
});

test("the content type is the handler's when it gives one", () => {
  assert.deepEqual(httpAnswer({ statusCode: 200, headers: { 'content-type': 'a/b' }, body: {} }).headers, [['Content-Type', 'a/b']]);
  assert.deepEqual(httpAnswer({ statusCode: 200, body: [1] }).headers, [['Content-Type', 'application/json']]);
  assert.equal(httpAnswer({ statusCode: 200, body: 'YQ==', isBase64Encoded: true }).body.toString(), 'a');
});

test('refused', () => {
  const loop = [];
  loop.push(loop);
  for (const value of [
    { statusCode: undefined },
    { statusCode: true },
    { statusCode: 199 },
    { statusCode: 200.5 },
    { statusCode: 'abc' },
    { statusCode: 200, headers: ['a'] },
    { statusCode: 200, headers: { 'a:': 'b' } },
    { statusCode: 200, headers: { a: 'b\n' } },
    { statusCode: 200, body: 5, isBase64Encoded: true },
    { statusCode: 200, body: 'a', isBase64Encoded: true },
    [1n],
    loop,
    () => {},
  ]) {
    assert.throws(() => httpAnswer(value), BadAnswer);
  }
});

test('JSON', () => {
  assert.equal(valueJSON({ ü: [Buffer.from([255]), new Uint8Array([1]), undefined] }).toString(), '{"ü":["/w==","AQ==",null]}');
  assert.equal(valueJSON(new Date(0)).toString(), '"1970-01-01T00:00:00.000Z"');
});

test('streams', () => {
  async function* items() {}
  for (const [value, stream] of [
    [[].values(), true],
    [items(), true],
    [Readable.from([]), true],
    [new ReadableStream(), true],
    [[], false],
    ['x', false],
    [{}, false],
    [new Map(), false],
    [Buffer.alloc(0), false],
    [null, false],
  ]) {
    assert.equal(isStream(value), stream);
  }
  for (const [item, bytes, type] of [
    ['ü', 'ü', 'text/plain; charset=utf-8'],
    [new Uint8Array([97]), 'a', 'application/octet-stream'],
    [{ a: 1 }, '{"a":1}\n', 'text/plain; charset=utf-8'],
  ]) {
    assert.equal(chunkBytes(item).toString(), bytes);
    assert.equal(chunkType(item), type);
  }
});
