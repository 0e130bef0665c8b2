// The termination log: the last words of the container, which the platform reads from the pod's status.

import fs from 'node:fs';

const LIMIT = 4096; // the kubelet keeps no more
const RESULT_LIMIT = 3072;

/** Says a line on stderr, at once: nothing waits in a buffer when the process ends. */
export function log(text) {
  try {
    fs.writeSync(2, `sless: ${text}\n`);
  } catch {
    // Nobody reads it.
  }
}

/** Says on stderr and in the log why the container ends with 1. */
export function writeError(file, text) {
  log(text);
  writeFile(file, errorMessage(text));
}

/** Writes a job's result, given as JSON. */
export function writeResult(file, result) {
  writeFile(file, resultMessage(result));
}

/** The JSON of an error; a text that is too long loses its end. */
export function errorMessage(text) {
  return fitting((error) => ({ error }), text);
}

/** The JSON of a result; one that is too long becomes a string with the first bytes of its JSON. */
export function resultMessage(result) {
  if (result.length <= RESULT_LIMIT) return `{"result":${result},"truncated":false}`;
  // `stream`: a character that is cut in two is left out instead of replaced.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(result.subarray(0, RESULT_LIMIT), { stream: true });
  return fitting((part) => ({ result: part, truncated: true }), text);
}

/** The JSON of build(text), with as much of the text as fits: quotes and the like take more room than they show. */
function fitting(build, text) {
  const characters = [...text];
  const dump = (length) => JSON.stringify(build(characters.slice(0, length).join('')));
  let low = 0;
  let high = characters.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (Buffer.byteLength(dump(middle)) <= LIMIT) low = middle;
    else high = middle - 1;
  }
  return dump(low);
}

function writeFile(file, text) {
  try {
    fs.writeFileSync(file, text);
  } catch (err) {
    log(`write ${file}: ${err.message}`);
  }
}
