// One request and its response.

import { once } from 'node:events';

import { requestId } from './ids.mjs';
import { bodyTimeout, bodyTooLarge } from './problem.mjs';
import { CallerGone } from './worker.mjs';

const NO_BYTES = Buffer.alloc(0);
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A request and its response, with what the application needs of both. */
export class Exchange {
  #request;
  #response;
  #closing;
  /** The status of the answer, once that has begun. */
  status;

  constructor(request, response, closing) {
    this.#request = request;
    this.#response = response;
    this.#closing = closing;
    this.method = request.method;
    [this.path, this.query] = splitTarget(request.url);
    this.requestId = requestId(request.headers['x-request-id'] ?? '');
  }

  /** The first value of a request header, given in lower case. */
  header(name) {
    return this.#request.headers[name];
  }

  /** Calls back, once, when the caller has gone before the answer was complete. */
  onGone(callback) {
    this.#response.once('close', () => {
      if (!this.#response.writableFinished) callback();
    });
  }

  /** What the worker is told about the request. */
  callHead(mode) {
    const head = { mode, requestId: this.requestId };
    if (mode === 'http') {
      const { rawHeaders, httpVersion, socket } = this.#request;
      head.http = {
        method: this.method,
        path: this.path,
        query: this.query,
        protocol: `HTTP/${httpVersion}`,
        peer: (socket.remoteAddress ?? '').replace(/^::ffff:/, ''),
        headers: pairs(rawHeaders),
      };
    }
    return head;
  }

  /** The whole body, of at most `limit` bytes, whose parts come with no longer pause than `idleSeconds`. */
  async body(limit, idleSeconds) {
    const { headers } = this.#request;
    if (!('content-length' in headers) && !('transfer-encoding' in headers)) return NO_BYTES;
    if (Number(headers['content-length'] ?? 0) > limit) throw bodyTooLarge(limit);
    return readAll(this.#request, limit, idleSeconds * 1000);
  }

  /** Answers with a problem. */
  sendProblem(problem, more = []) {
    this.sendWhole(problem.status, [...problem.headers(), ...more], problem.body(this.requestId));
  }

  /** Whether an answer with this status has a body at all. */
  wantsBody(status) {
    return this.method !== 'HEAD' && status !== 204 && status !== 304;
  }

  /** Answers with a body that is there in full. */
  sendWhole(status, headers, body) {
    // A handler may answer HEAD with the length of the body it would have had.
    const given = headers.find(([name]) => name === 'content-length')?.[1];
    const sent = headers.filter(([name]) => name !== 'content-length');
    if (this.method === 'HEAD' && body.length === 0 && /^\d+$/.test(given ?? '')) sent.push(['content-length', given]);
    else if (status !== 204 && status !== 304) sent.push(['content-length', String(body.length)]);
    this.#writeHead(status, sent);
    this.#response.end(this.wantsBody(status) ? body : undefined);
    this.#request.resume(); // a body that nobody read must not stop the next request of the connection
  }

  /** Begins an answer that is sent piece by piece; the head leaves at once. */
  sendHead(status, headers) {
    this.#writeHead(status, headers.filter(([name]) => name !== 'content-length'));
    this.#response.flushHeaders();
  }

  /** Sends a part, and waits while the caller is slow. */
  async sendPart(part) {
    if (part.length === 0 || this.#response.write(part)) return;
    const abort = new AbortController();
    const closed = once(this.#response, 'close', { signal: abort.signal }).catch(() => {});
    await Promise.race([once(this.#response, 'drain', { signal: abort.signal }).catch(() => {}), closed]);
    abort.abort();
  }

  /** Ends an answer that was sent piece by piece. */
  end() {
    this.#response.end();
  }

  /** Breaks the connection off, which is how a caller learns that a stream is not complete. */
  break() {
    this.#response.destroy();
  }

  #writeHead(status, headers) {
    this.status = status;
    const all = this.#closing ? [...headers, ['connection', 'close']] : headers;
    // Header values go out as UTF-8; Node takes a string's characters for bytes.
    this.#response.writeHead(status, all.flatMap(([name, value]) => [name, Buffer.from(value).toString('latin1')]));
  }
}

function readAll(request, limit, idle) {
  const parts = [];
  let size = 0;
  let timer;
  return new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(bodyTimeout()), idle);
    request.on('data', (part) => {
      timer.refresh();
      size += part.length;
      if (size > limit) reject(bodyTooLarge(limit));
      else parts.push(part);
    });
    request.once('end', () => resolve(parts.length === 1 ? parts[0] : Buffer.concat(parts, size)));
    request.once('close', () => reject(new CallerGone()));
    request.on('error', () => {}); // 'close' follows
  }).finally(() => {
    clearTimeout(timer);
    request.removeAllListeners('data');
  });
}

function splitTarget(url) {
  // A client that takes us for a proxy sends the whole address.
  const target = /^https?:\/\//i.test(url) ? url.replace(/^https?:\/\/[^/?#]*/i, '') : url;
  const at = target.indexOf('?');
  const path = at < 0 ? target : target.slice(0, at);
  return [path === '' ? '/' : path, at < 0 ? '' : target.slice(at + 1)];
}

function pairs(rawHeaders) {
  const found = [];
  for (let i = 0; i < rawHeaders.length; i += 2) found.push([rawHeaders[i], headerText(rawHeaders[i + 1])]);
  return found;
}

function headerText(value) {
  if (!/[\x80-\xff]/.test(value)) return value;
  try {
    return UTF8.decode(Buffer.from(value, 'latin1'));
  } catch {
    return value;
  }
}
