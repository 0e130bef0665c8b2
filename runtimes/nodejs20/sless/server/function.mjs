// The function as the server keeps it: one worker that takes calls, and those that only end what they began.

import { log } from './termination.mjs';
import { Worker } from './worker.mjs';

const LOAD_SECONDS = 300;
const LONGEST_RETRY_SECONDS = 30;

/** Owner of the workers; it admits calls and replaces a worker that is overdue or dead. */
export class ServedFunction {
  #settings;
  #program;
  #loading;
  #retiring = new Set();
  #waiting = new Set(); // resolvers of those who wait for a worker
  #retrySeconds = 1;
  #retry;
  #closed = false;
  #resolveFirst;
  #loadedOnce = false;

  /** The worker for a new call, when there is one at once. */
  current;
  /** How many calls count as running. */
  running = 0;
  /** Why the handler could not be loaded again; "" while there is no such reason. */
  loadError = '';
  /** Resolves to the error of the first load, or to "" once the handler is loaded. */
  firstLoad = new Promise((resolve) => (this.#resolveFirst = resolve));

  constructor(settings, program) {
    this.#settings = settings;
    this.#program = program;
    this.#spawn();
  }

  /** Whether a call would reach the handler, if need be after a wait for its next worker. */
  get serving() {
    return this.#loadedOnce && this.loadError === '';
  }

  /** Whether another call is one too many. */
  get full() {
    return this.#settings.concurrency > 0 && this.running >= this.#settings.concurrency;
  }

  /** Counts a call as running; release takes that back. */
  reserve() {
    this.running++;
  }

  /** A call no longer counts. */
  release() {
    this.running--;
  }

  /** Makes the call of a reservation, which ends with it. */
  newCall(worker) {
    return worker.newCall(this.#settings.timeoutSeconds * 1000, () => this.release());
  }

  /** Waits for the next worker; the signal ends the wait with undefined. */
  nextWorker(signal) {
    return new Promise((resolve) => {
      const settle = () => {
        this.#waiting.delete(settle);
        resolve(this.current);
      };
      this.#waiting.add(settle);
      signal.addEventListener('abort', settle, { once: true });
    });
  }

  /** Ends all workers: the one that takes calls by itself, the others at once. */
  async close() {
    this.#closed = true;
    clearTimeout(this.#retry);
    for (const worker of this.#retiring) worker.kill();
    this.#loading?.kill();
    await this.current?.leave(2000);
  }

  // What a worker tells.

  loaded(worker) {
    if (worker !== this.#loading) return;
    this.#loading = undefined;
    this.current = worker;
    this.loadError = '';
    this.#retrySeconds = 1;
    this.#loadedOnce = true;
    this.#resolveFirst('');
    for (const settle of [...this.#waiting]) settle();
  }

  overdue(worker) {
    if (worker === this.current) {
      log('a call is past its time-out; its worker is replaced');
      this.current = undefined;
      this.#retiring.add(worker);
      this.#spawn();
    }
    this.idle(worker);
  }

  idle(worker) {
    if (this.#retiring.has(worker) && !worker.busy) worker.kill();
  }

  ended(worker, error) {
    this.#retiring.delete(worker);
    if (this.#closed) return;
    if (worker === this.current) {
      this.current = undefined;
      log(`${error}; starting another`);
      this.#spawn();
    } else if (worker === this.#loading) {
      this.#loading = undefined;
      this.#failed(error);
    }
  }

  #failed(error) {
    if (!this.#loadedOnce) {
      this.#resolveFirst(error);
      return;
    }
    this.loadError = error;
    log(`loading the handler again failed: ${error}`);
    this.#retry = setTimeout(() => this.#spawn(), this.#retrySeconds * 1000);
    this.#retrySeconds = Math.min(2 * this.#retrySeconds, LONGEST_RETRY_SECONDS);
  }

  #spawn() {
    if (this.#closed) return;
    const worker = new Worker(this.#program, this);
    this.#loading = worker;
    setTimeout(() => {
      if (worker !== this.#loading) return;
      worker.loadError = `the handler was not loaded within ${LOAD_SECONDS} s; do less when the module is imported`;
      worker.kill();
    }, LOAD_SECONDS * 1000).unref();
  }
}
