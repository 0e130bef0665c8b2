// The HTTP server: node:http, with a drain that loses nothing.

import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { App } from './app.mjs';
import { Exchange } from './exchange.mjs';
import { ServedFunction } from './function.mjs';
import { badRequest, headTooLarge } from './problem.mjs';
import { log, writeError } from './termination.mjs';
import { Tracer } from './tracing.mjs';

const HEAD_LIMIT = 256 * 1024;
const KEEP_ALIVE_MS = 620_000; // longer than any client keeps an idle connection, so that none is closed under a request

/** Serves until SIGTERM, or until the handler turns out not to load. Returns the exit code. */
export async function serve(settings, program) {
  const stopped = new Promise((resolve) => {
    process.once('SIGTERM', resolve);
    process.once('SIGINT', resolve);
  });
  const fn = new ServedFunction(settings, program);
  const tracer = new Tracer();
  const app = new App(settings, fn, tracer);
  const server = listen(settings, app);
  const failed = new Promise((resolve) => fn.firstLoad.then((error) => error && resolve(error)));
  const listening = new Promise((resolve) => server.once('error', (err) => resolve(`listen on port ${settings.port}: ${err.message}`)));
  const error = await Promise.race([stopped.then(() => ''), failed, listening]);
  if (error) writeError(settings.terminationLog, error);
  else await drain(settings, app, fn);
  await Promise.all([close(server), fn.close()]);
  await tracer.close();
  return error ? 1 : 0;
}

function listen(settings, app) {
  const options = { maxHeaderSize: HEAD_LIMIT, keepAliveTimeout: KEEP_ALIVE_MS, requestTimeout: 0, noDelay: true };
  const server = http.createServer(options, (request, response) => {
    response.sendDate = false;
    app.handle(new Exchange(request, response, app.draining)).catch((err) => log(`internal error: ${err.stack}`));
  });
  server.on('clientError', refuse);
  server.listen(settings.port);
  return server;
}

/** Answers what never became a request. */
function refuse(err, socket) {
  if (err.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const problem = err.code === 'HPE_HEADER_OVERFLOW' ? headTooLarge() : badRequest('the request is not HTTP');
  const body = problem.body('');
  const lines = [...problem.headers(), ['content-length', body.length]].map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${problem.status} ${http.STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`);
}

/** Goes on until nothing runs and nothing has come for a moment: whoever sends requests must learn of the stop first. */
async function drain(settings, app, fn) {
  app.draining = true;
  const began = performance.now();
  while (fn.running > 0 || performance.now() - Math.max(began, app.lastRequest) < settings.drainSeconds * 1000) {
    await sleep(50);
  }
}

async function close(server) {
  if (!server.listening) return;
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeIdleConnections();
  // Answers that are still on their way out get a moment.
  await Promise.race([closed, sleep(2000)]);
  server.closeAllConnections();
}
