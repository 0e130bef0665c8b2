import fs from 'node:fs';
import path from 'node:path';

import { Refused } from './refused.mjs';

export function copyManifests(manifests, work) {
  for (const name of fs.readdirSync(manifests)) {
    // A mounted ConfigMap has hidden directories of its own and links into them. What the code brought along is not
    // installed again, and must not be taken for the result.
    if (name.startsWith('..') || name === 'node_modules') continue;
    fs.cpSync(fs.realpathSync(path.join(manifests, name)), path.join(work, name), { recursive: true, verbatimSymlinks: true });
  }
}

/** Puts copies where there are links to packages of the code itself: the links would point out of what is kept. */
export function copyLinked(directory) {
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    const full = path.join(directory, entry.name);
    if (entry.name.startsWith('@')) copyLinked(full);
    if (!entry.isSymbolicLink()) continue;
    const source = path.resolve(directory, fs.readlinkSync(full));
    if (!fs.existsSync(source)) {
      throw new Refused(`package.json names ${entry.name} by a path at which there is nothing; correct the path or bring the files`);
    }
    fs.unlinkSync(full);
    fs.cpSync(source, full, { recursive: true, verbatimSymlinks: true });
  }
}

/** Removes what the tools note for their next run. There is none, and some of it has addresses with credentials in them. */
export function dropRecords(directory) {
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    if (entry.isFile() && entry.name.startsWith('.')) fs.rmSync(path.join(directory, entry.name));
  }
}

/** How many packages are there, those of scopes and nested ones included. */
export function countPackages(directory) {
  let found = 0;
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    const full = path.join(directory, entry.name);
    if (!entry.isDirectory() || entry.name.startsWith('.')) continue;
    if (entry.name.startsWith('@')) {
      found += countPackages(full);
      continue;
    }
    found += 1;
    const nested = path.join(full, 'node_modules');
    if (fs.existsSync(nested)) found += countPackages(nested);
  }
  return found;
}
