// The server process: it owns the port, the clocks and the limits, and keeps the user's handler in a worker process.

import { fileURLToPath } from 'node:url';

import { runJob } from './job.mjs';
import { serve } from './serve.mjs';
import { BadSetting, readSettings, terminationLog } from './settings.mjs';
import { writeError } from './termination.mjs';

const PROGRAM = fileURLToPath(new URL('../worker/main.mjs', import.meta.url));

async function main() {
  let settings;
  try {
    settings = readSettings();
  } catch (err) {
    if (!(err instanceof BadSetting)) throw err;
    writeError(terminationLog(), err.message);
    return 1;
  }
  return settings.eventFile ? runJob(settings, PROGRAM) : serve(settings, PROGRAM);
}

process.exit(await main());
