// What the environment says, checked.

import { isId, requestId } from './ids.mjs';

/** A variable has a value that cannot be; the message names both. */
export class BadSetting extends Error {}

/** The server's settings; see CONTRACT.md section 2. */
export function readSettings(env = process.env) {
  return {
    port: whole(env, 'PORT', 8080, 1, 65535),
    timeoutSeconds: whole(env, 'SLESS_TIMEOUT_SECONDS', 60, 1, 86400),
    concurrency: whole(env, 'SLESS_CONCURRENCY', 0, 0, 1_000_000),
    revision: env.SLESS_REVISION ?? '',
    eventFile: env.SLESS_EVENT_FILE ?? '',
    requestId: id(env, 'SLESS_REQUEST_ID'),
    root: env.SLESS_ROOT || '/function',
    terminationLog: terminationLog(env),
    maxBodyBytes: whole(env, 'SLESS_MAX_BODY_BYTES', 100 * 2 ** 20, 1, 4 * 2 ** 30),
    bodyIdleSeconds: whole(env, 'SLESS_BODY_IDLE_SECONDS', 60, 1, 3600),
    drainSeconds: whole(env, 'SLESS_DRAIN_SECONDS', 1, 0, 3600),
  };
}

/** Where the last words go; known even when another setting is bad. */
export function terminationLog(env = process.env) {
  return env.SLESS_TERMINATION_LOG || '/dev/termination-log';
}

function whole(env, name, fallback, low, high) {
  const text = (env[name] ?? '').trim();
  if (text === '') return fallback;
  const value = Number(text);
  if (!/^[0-9]+$/.test(text) || value < low || value > high) {
    throw new BadSetting(`${name} is '${text}'; it must be a whole number from ${low} to ${high}`);
  }
  return value;
}

function id(env, name) {
  const text = env[name] ?? '';
  if (text !== '' && !isId(text)) {
    throw new BadSetting(`${name} is '${text}'; it must be at most 128 visible ASCII characters without quotes and backslashes`);
  }
  return requestId(text);
}
