// From what a handler returns to the answer that the caller gets.

import { canonical } from './event.mjs';

const TEXT = 'text/plain; charset=utf-8';
const BYTES = 'application/octet-stream';
const JSON_TYPE = 'application/json';

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const FORBIDDEN_IN_VALUE = /[\x00-\x08\x0a-\x1f\x7f]/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const NO_BYTES = Buffer.alloc(0);

// Those that belong to the connection are the server's to set, and Sless-* is the platform's.
const CONNECTION_HEADERS = new Set(['Connection', 'Keep-Alive', 'Transfer-Encoding', 'Upgrade', 'Trailer']);

/** The handler returned something that can't be sent; the message says what. */
export class BadAnswer extends Error {}

/** Whether a value is sent piece by piece: a readable stream, a generator, or any other iterator, sync or async. */
export function isStream(value) {
  if (value === null || typeof value !== 'object') return false;
  return Symbol.asyncIterator in value || (typeof value.next === 'function' && Symbol.iterator in value);
}

/** An iterator over the items of a stream. */
export function iterate(stream) {
  return Symbol.asyncIterator in stream ? stream[Symbol.asyncIterator]() : stream[Symbol.iterator]();
}

/**
 * The HTTP answer that a returned value stands for: status, headers as pairs, and a body, or a stream in its place
 * (with guessType when its first item decides the content type).
 */
export function httpAnswer(value) {
  if (value === undefined || value === null) return { status: 204, headers: [], body: NO_BYTES };
  if (isStream(value)) return { status: 200, headers: [], stream: value, guessType: true };
  if (typeof value === 'object' && 'statusCode' in value) return describedAnswer(value);
  const [body, type] = content(value);
  return { status: 200, headers: [['Content-Type', type]], body };
}

/** The JSON of a returned value; bytes anywhere in it are base64. */
export function valueJSON(value) {
  if (value === undefined) return Buffer.from('null');
  let text;
  try {
    text = JSON.stringify(value, jsonReplacer);
  } catch (err) {
    throw new BadAnswer(`the handler returned what has no JSON: ${err.message}`);
  }
  if (text === undefined) throw new BadAnswer(`the handler returned what has no JSON: a ${typeof value}`);
  return Buffer.from(text);
}

/** One item of a stream as bytes: text and bytes as they are, anything else as a line of JSON. */
export function chunkBytes(item) {
  if (typeof item === 'string') return Buffer.from(item);
  return asBytes(item) ?? Buffer.concat([valueJSON(item), Buffer.from('\n')]);
}

/** The content type of a stream that begins with this item. */
export function chunkType(item) {
  return asBytes(item) ? BYTES : TEXT;
}

function describedAnswer(value) {
  const status = statusOf(value.statusCode);
  const headers = headersOf(value.headers, value.multiValueHeaders);
  const { body } = value;
  if (isStream(body)) return { status, headers, stream: body };
  if (body === undefined || body === null) return { status, headers, body: NO_BYTES };
  const [data, type] = value.isBase64Encoded ? [fromBase64(body), BYTES] : content(body);
  if (!headers.some(([name]) => name === 'Content-Type')) headers.push(['Content-Type', type]);
  return { status, headers, body: data };
}

function statusOf(value) {
  const status = typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value)) ? Number(value) : 0;
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new BadAnswer(`the handler returned statusCode ${show(value)}; it must be a whole number from 200 to 599`);
  }
  return status;
}

function headersOf(single, multi) {
  const found = new Map();
  for (const [field, source] of [['headers', single], ['multiValueHeaders', multi]]) {
    if (source === undefined || source === null) continue;
    if (typeof source !== 'object' || Array.isArray(source)) {
      throw new BadAnswer(`the handler returned ${field} that are not an object`);
    }
    for (const [name, value] of Object.entries(source)) {
      if (!TOKEN.test(name)) throw new BadAnswer(`the handler returned a header named ${show(name)}, which HTTP does not allow`);
      found.set(canonical(name), Array.isArray(value) ? value : [value]);
    }
  }
  return [...found]
    .filter(([name]) => !CONNECTION_HEADERS.has(name) && !name.startsWith('Sless-'))
    .flatMap(([name, values]) => values.map((value) => [name, headerValue(name, value)]));
}

function headerValue(name, value) {
  const text = String(value);
  if (FORBIDDEN_IN_VALUE.test(text)) {
    throw new BadAnswer(`the handler returned a header ${name} whose value has a line break or another control character`);
  }
  return text.replace(/^[ \t]+|[ \t]+$/g, '');
}

function content(value) {
  if (typeof value === 'string') return [Buffer.from(value), TEXT];
  const bytes = asBytes(value);
  return bytes ? [bytes, BYTES] : [valueJSON(value), JSON_TYPE];
}

function fromBase64(body) {
  if (typeof body !== 'string' || !BASE64.test(body)) {
    throw new BadAnswer('the handler returned isBase64Encoded with a body that is not base64 text');
  }
  return Buffer.from(body, 'base64');
}

function asBytes(value) {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? Buffer.from(value) : undefined;
}

function jsonReplacer(key, value) {
  // `value` has been through toJSON already, which makes an object of a Buffer.
  return asBytes(this[key])?.toString('base64') ?? value;
}

function show(value) {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
