// Ending a worker together with everything it started.

import fs from 'node:fs';

/** An environment variable that all descendants of a worker inherit. */
export const MARK = 'SLESS_WORKER_ID';

/** Kills the worker `leader` and its descendants, also those in sessions of their own or with another parent. */
export function killAll(mark, leader) {
  for (let round = 0; round < 10; round++) {
    const found = find(mark, leader);
    for (const pid of found) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It is gone.
      }
    }
    // What was born between the look and the kill shows on the next look.
    if (found.size === 0) return;
  }
}

function find(mark, leader) {
  const processes = listProcesses();
  const needle = `${MARK}=${mark}`;
  const found = new Set();
  for (const { pid, session } of processes) {
    if (session === leader || read(`/proc/${pid}/environ`).split('\0').includes(needle)) found.add(pid);
  }
  for (let grown = true; grown; ) {
    const children = processes.filter(({ pid, parent }) => !found.has(pid) && (found.has(parent) || parent === leader));
    children.forEach(({ pid }) => found.add(pid));
    grown = children.length > 0;
  }
  found.delete(process.pid);
  return found;
}

/** Every process that is not a zombie. */
function listProcesses() {
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => {
      const stat = read(`/proc/${name}/stat`);
      // The name in parentheses may hold anything, so count from its end.
      const [state, parent, , session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return { pid: Number(name), state, parent: Number(parent), session: Number(session) };
    })
    .filter(({ state }) => state !== undefined && state !== '' && state !== 'Z' && state !== 'X');
}

function read(file) {
  try {
    return fs.readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
