// One worker process, seen from the server.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import os from 'node:os';

import { CALL, CANCEL, Decoder, FAILED, isFinal, LOADED, NEXT, write } from '../shared/wire.mjs';
import { killAll, MARK } from './leftovers.mjs';

/** The handler did not come to the next step of its call in time. */
export class TimedOut extends Error {}

/** The worker process ended under the call; the message says how. */
export class Crashed extends Error {}

/** Nobody waits for the call any more. */
export class CallerGone extends Error {}

/** A call in a worker, for the one who waits for its answer. */
class Call {
  #worker;
  #number;
  #timeout;
  #done;
  #waiter;
  #timer;
  #abandoned = false;

  constructor(worker, number, timeout, done) {
    this.#worker = worker;
    this.#number = number;
    this.#timeout = timeout;
    this.#done = done;
  }

  /** Whether the handler is at it and still has time. */
  get running() {
    return this.#done !== undefined;
  }

  /** Sends the call and waits for the first frame about it. */
  begin(head, body) {
    return this.#step(CALL, head, body);
  }

  /** Waits for the next part of a stream. */
  next() {
    return this.#step(NEXT);
  }

  /** Takes the call back. It goes on to count as running until the worker says that it has ended. */
  abandon() {
    if (this.#abandoned || !this.running) return;
    this.#abandoned = true;
    this.#worker.send(CANCEL, this.#number, { reason: 'gone' });
    if (this.#timer === undefined) this.#arm();
    this.#reject(new CallerGone());
  }

  /** The worker sent a frame about this call. */
  got(frame) {
    if (isFinal(frame)) this.#finish();
    else if (!this.#abandoned) this.#disarm();
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.resolve(frame);
  }

  /** The worker is gone. */
  crashed(how) {
    this.#finish();
    this.#reject(new Crashed(how));
  }

  async #step(kind, head, body) {
    if (this.#abandoned) throw new CallerGone();
    if (!this.running) throw new Crashed("the function's process ended");
    const answered = new Promise((resolve, reject) => (this.#waiter = { resolve, reject }));
    this.#arm();
    this.#worker.send(kind, this.#number, head, body);
    return answered;
  }

  #arm() {
    this.#timer = setTimeout(() => this.#expire(), this.#timeout);
  }

  #disarm() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #expire() {
    this.#finish();
    this.#worker.send(CANCEL, this.#number, { reason: 'timeout' });
    this.#reject(new TimedOut());
    this.#worker.overdue();
  }

  #finish() {
    this.#disarm();
    const done = this.#done;
    this.#done = undefined;
    done?.();
  }

  #reject(err) {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.reject(err);
  }
}

/**
 * A worker process and its calls. Its owner is told what happens to it: loaded(worker); overdue(worker), one of its calls
 * is past its time; idle(worker), a call has ended; ended(worker, error), its process is gone.
 */
export class Worker {
  #owner;
  #mark = randomUUID();
  #process;
  #socket;
  #decoder = new Decoder();
  #calls = new Map();
  #last = 0;
  #leaving = false;
  #exit;
  #finished = false;
  #gone;

  /** The text that `ended` gives instead of how the process ended. */
  loadError = '';

  /** Starts the program in a new process. */
  constructor(program, owner) {
    this.#owner = owner;
    const { SLESS_NODE_OPTIONS: options, ...env } = process.env;
    this.#process = spawn(process.execPath, [program], {
      stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
      detached: true, // a session of its own
      env: { ...env, [MARK]: this.#mark, ...(options ? { NODE_OPTIONS: options } : {}) },
    });
    this.#gone = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.once('error', (err) => this.#ended(`start the function's process: ${err.message}`));
    // 'close' comes after the last frame was read, 'exit' maybe before.
    this.#process.once('exit', (code, signal) => this.#ended(how(code, signal)));
    this.#socket = this.#process.stdio[3];
    this.#socket?.on('data', (data) => this.#received(data));
    this.#socket?.on('error', () => {});
    this.#socket?.once('close', () => this.#closed());
  }

  /** Whether it has a call that deserves to be waited for. */
  get busy() {
    return [...this.#calls.values()].some((call) => call.running);
  }

  /** Makes a call; it does nothing yet. `done` is called once, when the call no longer counts as running. */
  newCall(timeout, done) {
    const call = new Call(this, ++this.#last, timeout, done);
    this.#calls.set(this.#last, call);
    return call;
  }

  /** Sends a frame; to a worker that is gone it goes nowhere, its calls are told otherwise. */
  send(kind, number, head, body) {
    write(this.#socket, kind, number, head, body);
  }

  /** A call is past its time. */
  overdue() {
    this.#owner.overdue(this);
  }

  /** Ends the process and everything that it started. */
  kill() {
    if (this.#process.pid !== undefined) killAll(this.#mark, this.#process.pid);
  }

  /** Lets the process end by itself, and ends it when it does not. */
  async leave(grace) {
    this.#leaving = true;
    this.#socket.destroy();
    let timer;
    await Promise.race([this.#gone, new Promise((resolve) => (timer = setTimeout(resolve, grace)))]);
    clearTimeout(timer);
    this.kill();
  }

  #received(data) {
    for (const frame of this.#decoder.feed(data)) {
      if (frame.kind === LOADED) this.#owner.loaded(this);
      else if (frame.kind === FAILED) this.loadError = frame.head.error;
      else this.#deliver(frame);
    }
  }

  #deliver(frame) {
    const call = this.#calls.get(frame.call);
    if (!call) return;
    const final = isFinal(frame);
    if (final) this.#calls.delete(frame.call);
    call.got(frame);
    if (final) this.#owner.idle(this);
  }

  #closed() {
    if (this.#exit !== undefined) this.#finish();
    else if (!this.#leaving) this.kill(); // it closed its end without ending: nothing can reach it any more
  }

  #ended(how) {
    if (this.#exit !== undefined) return;
    this.#exit = how;
    this.kill(); // one that ended by itself may have left children
    if (!this.#socket || this.#socket.destroyed) this.#finish();
    // Its last frames may still be in the socket; its close comes after them.
    else setTimeout(() => this.#finish(), 500);
  }

  #finish() {
    if (this.#finished) return;
    this.#finished = true;
    this.#socket?.destroy();
    const error = this.loadError || this.#exit;
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) call.crashed(error);
    this.#owner.ended(this, error);
  }
}

function how(code, signal) {
  if (code !== null) return `the function's process ended with exit code ${code}`;
  const hint = signal === 'SIGKILL' || signal === 'SIGABRT' ? '; was it out of memory?' : '';
  return `the function's process was ended by ${signal ?? `signal ${os.constants.signals[signal]}`}${hint}`;
}
