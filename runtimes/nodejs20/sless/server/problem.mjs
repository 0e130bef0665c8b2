// The answers that the server makes itself: application/problem+json with a stable code.

import { STATUS_CODES } from 'node:http';

/** A request is answered with a problem instead of a call. */
export class Problem extends Error {
  constructor(status, code, detail, extra = {}) {
    super(detail);
    Object.assign(this, { status, code, extra });
  }

  /** The document. */
  body(requestId) {
    const { status, code, message: detail } = this;
    return Buffer.from(
      JSON.stringify({ type: 'about:blank', title: STATUS_CODES[status], status, code, detail, request_id: requestId }),
    );
  }

  /** Its headers as pairs, but for the length. */
  headers() {
    return Object.entries({ 'content-type': 'application/problem+json', 'sless-error': this.code, ...this.extra });
  }
}

export const overloaded = () =>
  new Problem(503, 'overloaded', 'the function is at its limit of calls at the same time', {
    'sless-overload': 'true',
    'retry-after': '1',
  });
export const timedOut = () => new Problem(504, 'function_timeout', 'the function did not answer within its time-out');
export const bodyTimeout = () =>
  new Problem(408, 'body_timeout', "the request's body stopped coming", { connection: 'close' });
export const notFound = () => new Problem(404, 'not_found', 'no such path below /_sless/');
export const headTooLarge = () =>
  new Problem(431, 'headers_too_large', "the request's headers are too large", { connection: 'close' });
export const badRequest = (detail) => new Problem(400, 'bad_request', detail, { connection: 'close' });
export const bodyTooLarge = (limit) =>
  new Problem(413, 'body_too_large', `the request's body is larger than ${limit} bytes`);
export const methodNotAllowed = (allowed) =>
  new Problem(405, 'method_not_allowed', `only ${allowed} is answered here`, { allow: allowed });
export const notLoaded = (detail) => new Problem(503, 'not_loaded', detail, { 'retry-after': '1' });
export const crashed = (how) => new Problem(502, 'function_crashed', how);

/** The problem of an ERROR frame. What an exception says is for the function's own people; strangers get its type. */
export function failure(head, inside) {
  if (head.code === 'bad_request') return new Problem(400, 'bad_request', head.error);
  return new Problem(500, 'function_failed', inside ? head.error : `the function failed: ${head.type}`);
}
