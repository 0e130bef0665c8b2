// The worker process: it loads the user's handler and runs it for the server at the other end of file 3.

import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

import { CALL, CANCEL, Decoder, FAILED, isFinal, LOADED, NEXT, write } from '../shared/wire.mjs';
import { Call } from './call.mjs';
import { load, LoadError } from './load.mjs';
import * as outgoing from './outgoing.mjs';
import * as output from './output.mjs';

const { env } = process;

/** The root of the code: as the build script left it, where there was one. The handler finds itself there. */
function codeFolder(root) {
  const built = path.join(root, 'built');
  if (!fs.existsSync(built)) return fs.realpathSync(path.join(root, 'code'));
  process.chdir(built);
  return fs.realpathSync(built);
}

async function main() {
  output.install();
  outgoing.install();
  const socket = new net.Socket({ fd: 3, readable: true, writable: true });
  // The server is gone or wants this process to go; with calls still running nobody would hear their end.
  socket.on('close', () => process.exit(0));
  socket.on('error', () => {});
  // A promise that nobody waits for should not end the calls of others.
  process.on('unhandledRejection', (reason) => {
    process.stderr.write(`sless: unhandled rejection: ${reason instanceof Error ? reason.stack : String(reason)}\n`);
  });
  try {
    serve(socket, await loadHandler());
  } catch (err) {
    if (!(err instanceof LoadError)) throw err;
    if (err.cause !== undefined) process.stderr.write(`${err.cause?.stack ?? err.cause}\n`);
    write(socket, FAILED, 0, { error: err.message });
    socket.end(() => process.exit(1));
  }
}

function loadHandler() {
  const code = codeFolder(env.SLESS_ROOT || '/function');
  return load(env.SLESS_ENTRYPOINT || 'handler.handle', code);
}

function serve(socket, handler) {
  const fn = {
    name: env.SLESS_FUNCTION ?? '',
    namespace: env.SLESS_NAMESPACE ?? '',
    revision: env.SLESS_REVISION ?? '',
    timeoutSeconds: Number(env.SLESS_TIMEOUT_SECONDS || 60),
  };
  const calls = new Map();
  const decoder = new Decoder();

  function start(frame) {
    const call = new Call(frame, handler, fn, (kind, head, body) => {
      if (isFinal({ kind, head: head ?? {} })) calls.delete(frame.call);
      write(socket, kind, frame.call, head, body);
    });
    calls.set(frame.call, call);
    call.run();
  }

  socket.on('data', (data) => {
    for (const frame of decoder.feed(data)) {
      if (frame.kind === CALL) start(frame);
      else if (frame.kind === NEXT) calls.get(frame.call)?.pull();
      else if (frame.kind === CANCEL) calls.get(frame.call)?.cancel(frame.head.reason);
    }
  });
  write(socket, LOADED, 0);
}

main();
