// Spans of the handler's calls, sent to a collector by OTLP over HTTP (JSON) when the environment names one.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { log } from './termination.mjs';

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
const TRACESTATE = /^[ -~\t]{1,512}$/;
const QUEUE = 2048, BATCH = 512; // spans
const GATHER_MS = 1000;
const SEND_MS = 10_000;
const LAST_MS = 10_000;
const AGAIN_MS = 250, PATIENCE_MS = 5000;
const SERVER = 2, ERROR = 2; // of OTLP's SpanKind and StatusCode

/** The trace context of two headers, or environment variables; undefined when there is none that is valid. */
export function contextOf(traceparent = '', tracestate = '') {
  if (!TRACEPARENT.test(traceparent)) return undefined;
  return TRACESTATE.test(tracestate) ? { traceparent, tracestate } : { traceparent };
}

/** The trace context of a job's run. */
export function contextOfEnvironment({ TRACEPARENT: traceparent, TRACESTATE: tracestate } = process.env) {
  return contextOf(traceparent, tracestate);
}

/** Makes spans. What the collector does not take is dropped; no call waits for it. */
export class Tracer {
  #url;
  #name;
  #resource;
  #headers;
  #spans = [];
  #timer;
  #sending;
  #failing = false;
  #patientUntil = 0;

  constructor(env = process.env) {
    this.#url = endpoint(env);
    if (!this.#url) return;
    this.#name = env.SLESS_FUNCTION || 'handler';
    const named = {
      'service.name': this.#name,
      'service.namespace': env.SLESS_NAMESPACE,
      'service.version': env.SLESS_REVISION,
      'service.instance.id': env.HOSTNAME,
      ...pairs(env.OTEL_RESOURCE_ATTRIBUTES),
    };
    if (env.OTEL_SERVICE_NAME) named['service.name'] = env.OTEL_SERVICE_NAME;
    this.#resource = { attributes: attributes(Object.fromEntries(Object.entries(named).filter(([, value]) => value))) };
    this.#headers = pairs(env.OTEL_EXPORTER_OTLP_TRACES_HEADERS || env.OTEL_EXPORTER_OTLP_HEADERS);
  }

  /**
   * Begins the span of a call below its parent. `context` is what the handler and its requests get, and
   * end({status, code}) ends the span with the answer's status and the code of the problem that was answered instead.
   */
  span(parent, requestId) {
    const [, trace, above, flags] = TRACEPARENT.exec(parent?.traceparent) ?? [];
    if (!this.#url || (flags && !(parseInt(flags, 16) & 1))) return { context: parent, end() {} };
    const traceId = trace ?? randomBytes(16).toString('hex');
    const spanId = randomBytes(8).toString('hex');
    const began = BigInt(Date.now()) * 1_000_000n;
    const clock = process.hrtime.bigint();
    return {
      context: { ...parent, traceparent: `00-${traceId}-${spanId}-${flags ?? '01'}` },
      end: ({ status = 0, code = '' }) =>
        this.#add({
          traceId,
          spanId,
          parentSpanId: above ?? '',
          traceState: parent?.tracestate ?? '',
          name: this.#name,
          kind: SERVER,
          startTimeUnixNano: String(began),
          endTimeUnixNano: String(began + process.hrtime.bigint() - clock),
          attributes: attributes({
            'sless.request_id': requestId,
            ...(status ? { 'http.response.status_code': status } : {}),
            ...(code ? { 'error.type': code } : {}),
          }),
          ...(code || status >= 500 ? { status: { code: ERROR } } : {}),
        }),
    };
  }

  /** Sends what is left, for a moment. A process that has just started is patient: the network may not let it out yet. */
  async close({ patient = false } = {}) {
    clearTimeout(this.#timer);
    if (patient) this.#patientUntil = performance.now() + PATIENCE_MS;
    const all = (async () => {
      await this.#sending;
      while (this.#spans.length > 0) await this.#send();
    })();
    let timer;
    await Promise.race([all, new Promise((resolve) => (timer = setTimeout(resolve, LAST_MS)))]);
    clearTimeout(timer);
  }

  #add(span) {
    if (this.#spans.length >= QUEUE) this.#spans.shift();
    this.#spans.push(span);
    this.#schedule();
  }

  #schedule() {
    this.#timer ??= setTimeout(() => {
      this.#sending = this.#send().finally(() => {
        this.#timer = undefined;
        if (this.#spans.length > 0) this.#schedule();
      });
    }, GATHER_MS);
  }

  async #send() {
    const scope = { scope: { name: 'sless/nodejs20' }, spans: this.#spans.splice(0, BATCH) };
    const body = JSON.stringify({ resourceSpans: [{ resource: this.#resource, scopeSpans: [scope] }] });
    while (!(await this.#post(body)) && performance.now() < this.#patientUntil) await sleep(AGAIN_MS);
  }

  /** Says whether the collector was reached. */
  async #post(body) {
    let response;
    try {
      response = await fetch(this.#url, {
        method: 'POST',
        headers: { ...this.#headers, 'content-type': 'application/json' },
        body,
        signal: AbortSignal.timeout(SEND_MS),
      });
      await response.arrayBuffer();
      if (!response.ok) throw new Error(String(response.status));
      this.#failing = false;
    } catch (err) {
      // Only the cause: an address or a header of the request may be a secret.
      if (!this.#failing) log(`spans are lost until the collector takes them: ${err.cause?.code ?? err.message}`);
      this.#failing = true;
    }
    return response !== undefined;
  }
}

/** Where to send spans; undefined when there is nowhere. */
function endpoint(env) {
  if (env.OTEL_SDK_DISABLED === 'true' || (env.OTEL_TRACES_EXPORTER ?? 'otlp') !== 'otlp') return undefined;
  if ((env.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || env.OTEL_EXPORTER_OTLP_PROTOCOL) === 'grpc') return undefined;
  const base = env.OTEL_EXPORTER_OTLP_ENDPOINT;
  const url = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || (base && `${base.replace(/\/+$/, '')}/v1/traces`);
  if (!url) return undefined;
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return url;
  log('no spans are sent: the endpoint in OTEL_EXPORTER_OTLP_… must be an address such as https://collector:4318');
  return undefined;
}

/** The value of a variable such as a=1,b=2. */
function pairs(text = '') {
  const found = text.split(',').map((pair) => /^([^=]+)=(.*)$/.exec(pair)).filter(Boolean);
  return Object.fromEntries(found.map(([, name, value]) => [name.trim(), decoded(value.trim())]));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function attributes(values) {
  return Object.entries(values).map(([key, value]) => ({
    key,
    value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value },
  }));
}
