// Job mode: one call of the handler, its result in the termination log.

import fs from 'node:fs';

import { ANSWER } from '../shared/wire.mjs';
import { ServedFunction } from './function.mjs';
import { writeError, writeResult } from './termination.mjs';
import { contextOfEnvironment, Tracer } from './tracing.mjs';
import { TimedOut } from './worker.mjs';

/** Runs the job and returns the exit code. */
export async function runJob(settings, program) {
  const stopped = new Promise((_, reject) => {
    process.once('SIGTERM', () => reject(new Error('stopped before the handler was done')));
  });
  let fn;
  const tracer = new Tracer();
  try {
    const event = readEvent(settings.eventFile);
    fn = new ServedFunction(settings, program);
    writeResult(settings.terminationLog, await Promise.race([stopped, result(fn, event, settings, tracer)]));
    return 0;
  } catch (err) {
    writeError(settings.terminationLog, err.message);
    return 1;
  } finally {
    stopped.catch(() => {});
    await fn?.close();
    await tracer.close({ patient: true });
  }
}

function readEvent(file) {
  try {
    return fs.readFileSync(file);
  } catch (err) {
    throw new Error(`read the event: ${err.message}`);
  }
}

async function result(fn, event, settings, tracer) {
  const loadError = await fn.firstLoad;
  if (loadError) throw new Error(loadError);
  fn.reserve();
  const call = fn.newCall(fn.current);
  const span = tracer.span(contextOfEnvironment(), settings.requestId);
  const head = { mode: 'value', requestId: settings.requestId, trace: span.context };
  const frame = await call.begin(head, event).catch((err) => {
    span.end({ code: err.constructor.name });
    if (err instanceof TimedOut) throw new Error(`the handler was not done within its time-out of ${settings.timeoutSeconds} s`);
    throw err;
  });
  span.end({ code: frame.kind === ANSWER ? '' : frame.head.code });
  if (frame.kind !== ANSWER) throw new Error(frame.head.error);
  return frame.body;
}
