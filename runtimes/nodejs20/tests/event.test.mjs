// From a request to its event.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bodyText, canonical, httpEvent } from '../sless/worker/event.mjs';

function eventOf(changes = {}, now) {
  const request = { method: 'GET', path: '/', query: '', protocol: 'HTTP/1.1', peer: '10.0.0.1', headers: [], ...changes };
  return httpEvent(request, 'id', Buffer.alloc(0), now);
}

test('time and place', () => {
  const headers = [['x-forwarded-for', ' 192.0.2.1 , 10.0.0.9'], ['user-agent', 'u']];
  assert.deepEqual(eventOf({ headers }, 1767366245900).requestContext, {
    requestId: 'id',
    httpMethod: 'GET',
    path: '/',
    protocol: 'HTTP/1.1',
    requestTime: '02/Jan/2026:15:04:05 +0000',
    requestTimeEpoch: 1767366245,
    identity: { sourceIp: '192.0.2.1', userAgent: 'u' },
  });
});

test('the peer when nothing was forwarded', () => {
  for (const headers of [[], [['x-forwarded-for', '']]]) {
    assert.equal(eventOf({ headers }).requestContext.identity.sourceIp, '10.0.0.1');
  }
});

test('query', () => {
  for (const [query, last, every] of [
    ['', [], []],
    ['a=1&a=2&b', [['a', '2'], ['b', '']], [['a', ['1', '2']], ['b', ['']]]],
    ['&&=v&', [['', 'v']], [['', ['v']]]],
    ['a=%zz%C3%BC+%2B', [['a', '%zzü +']], [['a', ['%zzü +']]]],
    ['a=%ff', [['a', '\ufffd']], [['a', ['\ufffd']]]],
    ['a;b=1', [['a;b', '1']], [['a;b', ['1']]]],
    ['__proto__=1', [['__proto__', '1']], [['__proto__', ['1']]]],
  ]) {
    const event = eventOf({ query });
    assert.deepEqual(Object.entries(event.queryStringParameters), last, query);
    assert.deepEqual(Object.entries(event.multiValueQueryStringParameters), every, query);
    assert.equal(event.rawQueryString, query);
  }
});

test('names of headers', () => {
  for (const [name, want] of [['content-TYPE', 'Content-Type'], ['x-request-id', 'X-Request-Id'], ['a--b', 'A--B'], ['etag', 'Etag'], ['x_y', 'X_y']]) {
    assert.equal(canonical(name), want);
  }
});

test('body', () => {
  for (const [body, text, isBase64Encoded] of [
    ['', '', false],
    ['grüße\r\n', 'grüße\r\n', false],
    ['\ufeffx', '\ufeffx', false],
    [Buffer.from([0xff]), '/w==', true],
    [Buffer.from([0xed, 0xa0, 0x80]), '7aCA', true],
  ]) {
    assert.deepEqual(bodyText(Buffer.from(body)), { body: text, isBase64Encoded });
  }
});
