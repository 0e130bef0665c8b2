// One call of the handler, from its CALL frame to its final frame.

import { ANSWER, CHUNK, END, ERROR } from '../shared/wire.mjs';
import { BadAnswer, chunkBytes, chunkType, httpAnswer, isStream, iterate, valueJSON } from './answer.mjs';
import { httpEvent } from './event.mjs';
import { finish, Origin, within } from './output.mjs';

/** What a handler is told about its call besides the event. */
class Context {
  #deadline;
  #abort;

  constructor(requestId, fn, trace) {
    this.requestId = requestId;
    this.traceparent = trace?.traceparent ?? '';
    this.tracestate = trace?.tracestate ?? '';
    this.functionName = fn.name;
    this.functionNamespace = fn.namespace;
    this.functionVersion = fn.revision;
    this.#deadline = performance.now() + fn.timeoutSeconds * 1000;
  }

  /** How long the handler may still take, in milliseconds; 0 when its time is up. */
  getRemainingTimeInMillis() {
    return Math.max(0, Math.trunc(this.#deadline - performance.now()));
  }

  /** Aborted when the caller is gone. */
  get signal() {
    this.#abort ??= new AbortController();
    return this.#abort.signal;
  }

  static abort(context) {
    context.signal; // made now if nobody has asked yet: a handler may ask later
    context.#abort.abort();
  }
}

/** The event is not the JSON that it should be. */
class BadEvent extends Error {}

/** A call of the handler. `send(kind, head, body)` sends a frame about it. */
export class Call {
  #handler;
  #send;
  #request;
  #body;
  #context;
  #origin;
  #isHTTP;
  #cancelled = false;
  #pulled; // resolves the wait of a stream for the next pull
  #pulls = 0;

  constructor({ head, body }, handler, fn, send) {
    this.#handler = handler;
    this.#send = send;
    this.#request = head;
    this.#body = body;
    this.#isHTTP = head.mode === 'http';
    this.#context = new Context(head.requestId, fn, head.trace);
    this.#origin = new Origin(head.requestId, head.trace);
  }

  /** Calls the handler; the promise is done when the final frame is sent, and never rejects. */
  run() {
    return within(this.#origin, () => this.#run());
  }

  async #run() {
    try {
      const result = await this.#handler(this.#event(), this.#context);
      if (this.#isHTTP) await this.#sendHTTP(httpAnswer(result));
      else this.#sendWhole({ status: 200, headers: [['Content-Type', 'application/json']], body: valueJSON(await collected(result)) });
    } catch (err) {
      this.#failed(err);
    } finally {
      finish(this.#origin);
    }
  }

  /** Asks a stream for its next part. */
  pull() {
    this.#pulls++;
    this.#pulled?.();
  }

  /** Takes the call back. One past its time is killed soon, so it needs no word. */
  cancel(reason) {
    if (reason === 'timeout') return;
    this.#cancelled = true;
    within(this.#origin, () => Context.abort(this.#context));
    this.#pulled?.();
  }

  #event() {
    const body = this.#body;
    this.#body = undefined;
    if (this.#isHTTP) return httpEvent(this.#request.http, this.#request.requestId, body);
    const text = body.toString('utf8');
    if (text.trim() === '') return null;
    try {
      return JSON.parse(text);
    } catch (err) {
      throw new BadEvent(`the body is no JSON: ${err.message}`);
    }
  }

  #sendWhole({ status, headers, body }) {
    this.#send(ANSWER, { status, headers }, body);
  }

  async #sendHTTP(answer) {
    if (!answer.stream) {
      this.#sendWhole(answer);
      return;
    }
    const items = iterate(answer.stream);
    try {
      if (!(await this.#begin(answer, items))) return;
      while (await this.#wanted()) {
        const { value, done } = await items.next();
        if (done) break;
        this.#send(CHUNK, undefined, chunkBytes(value));
      }
      this.#send(END);
    } finally {
      // Not awaited: a generator that hangs in its own end must not hold the frame that was sent.
      Promise.resolve(items.return?.()).catch(() => {});
    }
  }

  /** Sends the head of a stream; one without a type of its own gets it from its first item. False when it is all. */
  async #begin({ status, headers, guessType }, items) {
    if (!guessType) {
      this.#send(ANSWER, { status, headers, stream: true });
      return true;
    }
    const { value, done } = await items.next();
    const typed = { status, headers: [['Content-Type', done ? chunkType('') : chunkType(value)]] };
    this.#send(ANSWER, done ? typed : { ...typed, stream: true }, done ? undefined : chunkBytes(value));
    return !done;
  }

  /** Waits until the next part is wanted; false when no more is. */
  async #wanted() {
    if (this.#pulls === 0 && !this.#cancelled) await new Promise((resolve) => (this.#pulled = resolve));
    this.#pulled = undefined;
    if (this.#cancelled) return false;
    this.#pulls--;
    return true;
  }

  #failed(err) {
    if (this.#cancelled) {
      this.#send(END);
      return;
    }
    if (err instanceof BadEvent) {
      this.#send(ERROR, { code: 'bad_request', error: err.message });
    } else if (err instanceof BadAnswer) {
      process.stderr.write(`sless: ${err.message}\n`);
      this.#send(ERROR, { code: 'function_failed', type: "an answer that can't be sent", error: err.message });
    } else {
      const type = err instanceof Error ? err.name : typeof err;
      const error = err instanceof Error ? `${err.name}: ${err.message}` : String(err);
      process.stderr.write(`sless: the handler threw ${trace(err)}\n`);
      this.#send(ERROR, { code: 'function_failed', type, error });
    }
  }
}

async function collected(result) {
  if (!isStream(result)) return result;
  const items = [];
  for await (const item of { [Symbol.asyncIterator]: () => iterate(result) }) items.push(item);
  return items;
}

/** An error with its stack, but for the runtime's own frames at its end. */
function trace(err) {
  if (!(err instanceof Error)) return String(err);
  const here = import.meta.url;
  return (err.stack ?? String(err)).split('\n').filter((line) => !line.includes(here)).join('\n');
}
