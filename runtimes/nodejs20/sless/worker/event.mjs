// From a request to the HTTP event that the handler sees.

import { unescape } from 'node:querystring';

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The event of a request, given as the server describes it: method, path, query, protocol, peer and headers. */
export function httpEvent(request, requestId, body, now = Date.now()) {
  const [headers, multiValueHeaders] = fold(request.headers.map(([name, value]) => [canonical(name), value]));
  const [query, multiValueQuery] = fold(queryPairs(request.query));
  return {
    httpMethod: request.method,
    path: request.path,
    headers,
    multiValueHeaders,
    queryStringParameters: query,
    multiValueQueryStringParameters: multiValueQuery,
    rawQueryString: request.query,
    requestContext: {
      requestId,
      httpMethod: request.method,
      path: (headers['X-Forwarded-Prefix'] ?? '') + request.path,
      protocol: request.protocol,
      requestTime: requestTime(new Date(now)),
      requestTimeEpoch: Math.floor(now / 1000),
      identity: {
        sourceIp: (headers['X-Forwarded-For'] ?? '').split(',')[0].trim() || request.peer,
        userAgent: headers['User-Agent'] ?? '',
      },
    },
    ...bodyText(body),
  };
}

/** The name of a header as most programs write it: content-TYPE is Content-Type. */
export function canonical(name) {
  return name
    .split('-')
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1).toLowerCase())
    .join('-');
}

/** A body as text, or as base64 when it is not UTF-8. */
export function bodyText(body) {
  try {
    return { body: UTF8.decode(body), isBase64Encoded: false };
  } catch {
    return { body: body.toString('base64'), isBase64Encoded: true };
  }
}

function queryPairs(query) {
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const at = pair.indexOf('=');
      return at < 0 ? [unquote(pair), ''] : [unquote(pair.slice(0, at)), unquote(pair.slice(at + 1))];
    });
}

function unquote(text) {
  return unescape(text.replaceAll('+', ' '));
}

/** Pairs as an object with the last value of each name and one with all; a name may be anything, also __proto__. */
function fold(pairs) {
  const last = new Map();
  const every = new Map();
  for (const [name, value] of pairs) {
    last.set(name, value);
    if (every.has(name)) every.get(name).push(value);
    else every.set(name, [value]);
  }
  return [Object.fromEntries(last), Object.fromEntries(every)];
}

function requestTime(date) {
  const two = (number) => String(number).padStart(2, '0');
  const day = `${two(date.getUTCDate())}/${MONTHS[date.getUTCMonth()]}/${date.getUTCFullYear()}`;
  return `${day}:${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())} +0000`;
}
