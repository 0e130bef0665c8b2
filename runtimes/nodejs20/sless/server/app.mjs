// The application: from an HTTP request to a call of the handler and back.

import { CHUNK, END, ERROR } from '../shared/wire.mjs';
import * as problems from './problem.mjs';
import { contextOf } from './tracing.mjs';
import { CallerGone, Crashed, TimedOut } from './worker.mjs';

const CONTROL = '/_sless/';

/** Answers requests with the function's handler. */
export class App {
  #settings;
  #fn;
  #tracer;

  /** Whether the server is about to stop. */
  draining = false;
  /** When the last request came, in the clock of performance.now. */
  lastRequest = performance.now();

  constructor(settings, fn, tracer) {
    this.#settings = settings;
    this.#fn = fn;
    this.#tracer = tracer;
  }

  /** Answers one exchange; never rejects. */
  async handle(exchange) {
    try {
      if (exchange.path.startsWith(CONTROL)) await this.#control(exchange);
      else await this.#call(exchange, exchange.header('sless-payload') === 'body' ? 'value' : 'http', false);
    } catch (err) {
      if (err instanceof problems.Problem) exchange.sendProblem(err);
      else exchange.break();
      if (!(err instanceof problems.Problem || err instanceof CallerGone)) throw err;
    }
  }

  async #control(exchange) {
    if (exchange.path === '/_sless/health') {
      this.#health(exchange);
    } else if (exchange.path !== '/_sless/invoke') {
      throw problems.notFound();
    } else if (exchange.method !== 'POST') {
      throw problems.methodNotAllowed('POST');
    } else {
      await this.#call(exchange, 'value', true);
    }
  }

  #health(exchange) {
    const revision = [['sless-revision', this.#settings.revision]];
    const why = this.#unhealthy(exchange.method);
    if (why) exchange.sendProblem(why, revision);
    else exchange.sendWhole(200, [['content-type', 'application/json'], ...revision], Buffer.from('{"status":"ok"}'));
  }

  #unhealthy(method) {
    if (method !== 'GET' && method !== 'HEAD') return problems.methodNotAllowed('GET');
    if (this.draining) return problems.notLoaded('the server is stopping');
    if (!this.#fn.serving) return problems.notLoaded(this.#fn.loadError || 'the handler is loading');
    return undefined;
  }

  async #call(exchange, mode, inside) {
    this.lastRequest = performance.now();
    // Asked twice: a refusal should not wait for the body, and a slow body should not hold a place.
    if (this.#fn.full) throw problems.overloaded();
    const body = await exchange.body(this.#settings.maxBodyBytes, this.#settings.bodyIdleSeconds);
    if (this.#fn.full) throw problems.overloaded();
    this.#fn.reserve();
    const span = this.#tracer.span(contextOf(exchange.header('traceparent'), exchange.header('tracestate')), exchange.requestId);
    try {
      const call = await this.#place(exchange);
      exchange.onGone(() => call.abandon());
      await this.#converse(exchange, call, { ...exchange.callHead(mode), trace: span.context }, body, inside);
      span.end({ status: exchange.status });
    } catch (err) {
      span.end({ status: err.status ?? exchange.status, code: err.code ?? err.constructor.name });
      throw err;
    }
  }

  /** The call, in the worker that is there or in the next one to come. */
  async #place(exchange) {
    let worker = this.#fn.current;
    if (!worker) {
      const { timeoutSeconds } = this.#settings;
      const abort = new AbortController();
      let gone = false;
      exchange.onGone(() => {
        gone = true;
        abort.abort();
      });
      worker = await this.#fn.nextWorker(AbortSignal.any([abort.signal, AbortSignal.timeout(timeoutSeconds * 1000)]));
      if (gone || !worker) {
        this.#fn.release();
        throw gone ? new CallerGone() : problems.notLoaded(this.#fn.loadError || 'the handler is loading');
      }
    }
    return this.#fn.newCall(worker);
  }

  async #converse(exchange, call, head, body, inside) {
    const frame = await call.begin(head, body).catch((err) => {
      if (err instanceof TimedOut) throw problems.timedOut();
      if (err instanceof Crashed) throw problems.crashed(err.message);
      throw err;
    });
    if (frame.kind === ERROR) throw problems.failure(frame.head, inside);
    if (frame.kind === END) throw new CallerGone();
    const { status, stream } = frame.head;
    const headers = frame.head.headers.map(([name, value]) => [name.toLowerCase(), value]);
    if (!stream) {
      exchange.sendWhole(status, headers, frame.body);
      return;
    }
    exchange.sendHead(status, headers);
    if (!exchange.wantsBody(status)) {
      call.abandon();
      exchange.end();
      return;
    }
    await exchange.sendPart(frame.body);
    await this.#stream(exchange, call);
  }

  async #stream(exchange, call) {
    for (;;) {
      const frame = await call.next().catch((err) => {
        if (err instanceof TimedOut || err instanceof Crashed) return { kind: ERROR };
        throw err;
      });
      if (frame.kind === CHUNK) {
        await exchange.sendPart(frame.body);
        continue;
      }
      if (frame.kind === END) exchange.end();
      else exchange.break();
      return;
    }
  }
}
