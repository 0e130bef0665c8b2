// What is printed, each line with the id of the request that it is printed for.
//
// An id follows where work is started: into promises, timers and callbacks. What goes past process.stdout and
// process.stderr to the files below them (child processes, native code) goes past this module too.

import { AsyncLocalStorage } from 'node:async_hooks';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const LOOKS_MARKED = /^(\[[!-~]+\] |\{"sless_request_id":)/;

/** Whom lines come from: a request. */
export class Origin {
  #text;
  #json;

  /** The trace context of the request: headers of the requests it makes. */
  context;

  constructor(requestId, context) {
    this.context = context;
    this.#text = `[${requestId}] `;
    this.#json = `{"sless_request_id":"${requestId}",`;
  }

  /** The line with the id: before it, or as the first member when it looks like a JSON object. */
  mark(line) {
    return line.startsWith('{"') && line.trimEnd().endsWith('}') ? this.#json + line.slice(1) : this.#text + line;
  }
}

/** The origin of lines that come from no request; one that looks as if it had an id gets a mark that says that it has none. */
const nobody = { mark: (line) => (LOOKS_MARKED.test(line) ? `[-] ${line}` : line) };

const current = new AsyncLocalStorage();

/** The trace context of what runs now; undefined when it has none. */
export function currentContext() {
  return current.getStore()?.context;
}

/** Calls a function; what is printed within is of this origin. */
export function within(origin, call) {
  return current.run(origin, call);
}

/** The lines of one file of the log. Lines of different origins never share one. */
export class Lines {
  #unfinished; // whose line stands in the log without its end

  /** What to write for what an origin printed. */
  marked(text, origin = current.getStore() ?? nobody) {
    if (text === '') return text;
    let goesOn = this.#unfinished === origin;
    let out = this.#unfinished === undefined || goesOn ? '' : '\n';
    const lines = text.split('\n');
    const rest = lines.pop();
    for (const line of lines) {
      out += `${goesOn ? line : origin.mark(line)}\n`;
      goesOn = false;
    }
    if (rest !== '') out += goesOn ? rest : origin.mark(rest);
    this.#unfinished = rest === '' ? undefined : origin;
    return out;
  }

  /** What ends the line that an origin has not ended. */
  ending(origin) {
    return this.#unfinished === origin ? this.marked('\n', origin) : '';
  }
}

const outputs = [];

/** Puts itself below process.stdout and process.stderr, and below what writes to their files by number, as some loggers do. */
export function install() {
  for (const stream of [process.stdout, process.stderr]) outputs.push(mark(stream));
  const { write, writeSync } = fs;
  const streams = { 1: process.stdout, 2: process.stderr };
  replace('writeSync', (fd, data, ...rest) => {
    const stream = streams[fd];
    if (!stream) return writeSync(fd, data, ...rest);
    const bytes = part(data, rest);
    stream.write(bytes);
    return bytes.length;
  });
  replace('write', (fd, data, ...rest) => {
    const stream = streams[fd];
    if (!stream) return write(fd, data, ...rest);
    const callback = rest.pop();
    const bytes = part(data, rest);
    stream.write(bytes, (err) => callback(err ?? null, bytes.length, data));
  });
  syncBuiltinESMExports();
}

/** Ends the lines that an origin has not ended. */
export function finish(origin) {
  for (const { lines, write } of outputs) {
    const end = lines.ending(origin);
    if (end !== '') write(end);
  }
}

function mark(stream) {
  const lines = new Lines();
  const write = stream.write.bind(stream);
  stream.write = (chunk, encoding, callback) => {
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
    if (typeof chunk === 'string' && /^(utf-?8)?$/i.test(encoding ?? '')) return write(lines.marked(chunk), callback);
    if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) return write(chunk, encoding, callback); // it throws
    // Whatever the bytes are, each is a character here and a byte again below; an id is ASCII.
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    return write(lines.marked(bytes.toString('latin1')), 'latin1', callback);
  };
  return { lines, write };
}

/** Replaces a function of fs, with what is attached to it for util.promisify. */
function replace(name, wrapper) {
  fs[name] = Object.defineProperties(wrapper, Object.getOwnPropertyDescriptors(fs[name]));
}

/** The bytes that fs.write and fs.writeSync are to write: data, and what may follow it. */
function part(data, [offset, length]) {
  if (typeof data === 'string') return Buffer.from(data, typeof length === 'string' ? length : 'utf8');
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const { offset: from = 0, length: size = bytes.length - from } = typeof offset === 'object' && offset ? offset : { offset, length };
  return bytes.subarray(from, from + size);
}
