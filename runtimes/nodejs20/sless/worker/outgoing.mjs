// Requests that a call makes carry its trace context, when node:http, node:https or undici (fetch) makes them.

import { subscribe } from 'node:diagnostics_channel';
import http from 'node:http';

import { currentContext } from './output.mjs';

/** Has requests carry the context from now on. Who sets one himself has his reasons. */
export function install() {
  if (process.env.OTEL_PROPAGATORS === 'none') return;
  const begin = http.ClientRequest.prototype._implicitHeader; // called just before the head is written; for https too
  http.ClientRequest.prototype._implicitHeader = function () {
    const context = currentContext();
    if (context && !this.hasHeader('traceparent')) {
      for (const [name, value] of Object.entries(context)) this.setHeader(name, value);
    }
    return begin.call(this);
  };
  subscribe('undici:request:create', ({ request }) => {
    const context = currentContext();
    if (context && !hasContext(request.headers)) {
      for (const [name, value] of Object.entries(context)) request.addHeader(name, value);
    }
  });
}

/** Whether headers, a text or a list in this version of undici or that, have a context. */
function hasContext(headers) {
  if (typeof headers === 'string') return /^traceparent:/im.test(headers);
  return Array.isArray(headers) && headers.some((name, i) => i % 2 === 0 && /^traceparent$/i.test(String(name)));
}
