// The ids of requests.

import { randomUUID } from 'node:crypto';

/** Whether a text can be a request's id: up to 128 visible ASCII characters but for the double quote and the backslash. */
export function isId(text) {
  // What may stand in a header, in JSON and before a line of the log, and be told from what follows there.
  return /^[!#-[\]-~]{1,128}$/.test(text);
}

/** The id that was given, when it can be one, or a new one. */
export function requestId(given) {
  return isId(given) ? given : randomUUID();
}
