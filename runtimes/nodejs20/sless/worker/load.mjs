// Finding and loading the user's handler; what goes wrong is said in words that name the thing and the remedy.

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** The handler can't be loaded; the message is for its author. */
export class LoadError extends Error {}

/** Imports the module of an entrypoint such as pkg.sub.handler and takes the function out of it. */
export async function load(entrypoint, code) {
  const at = entrypoint.lastIndexOf('.');
  const name = entrypoint.slice(at + 1);
  const parts = entrypoint.slice(0, Math.max(at, 0)).split(/[./]/);
  if (at < 0 || name === '' || parts.some((part) => part === '')) {
    throw new LoadError(`the entrypoint ${JSON.stringify(entrypoint)} is not a module, a dot and a function, such as handler.handle`);
  }
  const file = moduleFile(parts.join('/'), code);
  const module = await importModule(file, code);
  return handlerOf(module, name, file);
}

function moduleFile(relative, code) {
  const endings = ['.js', '.mjs', '.cjs'];
  const candidates = [...endings.map((end) => relative + end), ...endings.map((end) => `${relative}/index${end}`)];
  const found = candidates.find((file) => fs.statSync(path.join(code, file), { throwIfNoEntry: false })?.isFile());
  if (found) return found;
  throw new LoadError(
    `the code has no ${relative}.js, .mjs or .cjs for the entrypoint's module; ` +
      `at its root it has ${listing(code)}. Set the entrypoint to MODULE.FUNCTION of a file that is there`,
  );
}

async function importModule(file, code) {
  const full = path.join(code, file);
  try {
    return await import(pathToFileURL(full).href);
  } catch (err) {
    throw new LoadError(describe(err, file, code), { cause: err });
  }
}

function handlerOf(module, name, file) {
  const fallback = module.default;
  const candidates = [module[name], fallback?.[name], fallback];
  const handler = candidates.find((candidate) => candidate !== undefined && candidate !== null);
  if (typeof handler === 'function') return handler;
  if (handler !== undefined && handler !== fallback) throw new LoadError(`${name} in ${file} is a ${typeof handler}, not a function`);
  const there = [...new Set([...Object.keys(module), ...Object.keys(fallback ?? {})])].filter(
    (key) => typeof (module[key] ?? fallback?.[key]) === 'function',
  );
  const has = there.length > 0 ? `it exports ${there.sort().slice(0, 10).join(', ')}` : 'it exports no function at all';
  throw new LoadError(`${file} has no function ${name}; ${has}. Export ${name}(event, context) or set the entrypoint to MODULE.FUNCTION`);
}

function describe(err, file, code) {
  const place = err instanceof SyntaxError ? syntaxPlace(err, file, code) : undefined;
  if (place) return `syntax error in ${place.where}: ${err.message}${place.line ? ` (${place.line})` : ''}`;
  if (err?.code === 'ERR_MODULE_NOT_FOUND' || err?.code === 'MODULE_NOT_FOUND') {
    const missing = relative(/'([^']+)'/.exec(err.message)?.[1] ?? 'a module', code);
    return `${importer(err, file, code)}: no module named ${missing}; list what provides it in package.json, or put it beside the code`;
  }
  const text = err instanceof Error ? `${err.name}: ${err.message}` : String(err);
  return `${frameOf(err, code) ?? file}: importing it threw ${text}`;
}

/** Where a syntax error is; undefined for one that running code threw, as JSON.parse does. */
function syntaxPlace(err, file, code) {
  const told = arrow(err.stack, code);
  if (told) return told;
  if (frameOf(err, code)) return undefined;
  // For ES modules Node tells the place only when the error ends the process, so a second one is asked. It gets no
  // further than this one did: modules are linked before any of them runs.
  const { stderr } = spawnSync(process.execPath, [path.join(code, file)], { encoding: 'utf8', timeout: 10_000 });
  return arrow(stderr, code) ?? { where: file };
}

/** The place that Node draws above an error: a path with a line number, the line, and an arrow. */
function arrow(text, code) {
  const match = /^((?:file:\/\/)?\/[^\n]*):(\d+)\n([^\n]*)\n *\^/m.exec(text ?? '');
  return match ? { where: `${relative(match[1], code)}, line ${match[2]}`, line: match[3].trim() } : undefined;
}

function importer(err, file, code) {
  const from = /imported from (\S+)/.exec(err.message)?.[1] ?? err.requireStack?.[0];
  return from ? relative(from, code) : file;
}

function frameOf(err, code) {
  for (const match of String(err?.stack ?? '').matchAll(/\(?((?:file:\/\/)?\/[^\s()]+):(\d+):\d+\)?/g)) {
    const place = relative(match[1], code);
    if (!path.isAbsolute(place)) return `${place}, line ${match[2]}`;
  }
  return undefined;
}

function relative(place, code) {
  const full = place.startsWith('file://') ? fileURLToPath(place) : place;
  return full.startsWith(code + path.sep) ? path.relative(code, full) : full;
}

function listing(code) {
  let names = [];
  try {
    names = fs.readdirSync(code, { withFileTypes: true }).map((entry) => entry.name + (entry.isDirectory() ? '/' : '')).sort();
  } catch {
    // The same as an empty one.
  }
  if (names.length === 0) return 'no file';
  return names.slice(0, 10).join(', ') + (names.length > 10 ? ', …' : '');
}
