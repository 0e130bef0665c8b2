import { spawnSync } from 'node:child_process';
import fs from 'node:fs';

import { Refused } from './refused.mjs';

// Shorter values would be found in files that have nothing to do with them.
const SHORTEST_TO_SEARCH = 8;

/** The values, one on a line of a file, that neither the log nor the result may have. */
export class Secrets {
  constructor(file) {
    const lines = file ? fs.readFileSync(file, 'utf8').split('\n') : [];
    this.values = lines.filter(Boolean).sort((a, b) => b.length - a.length);
  }

  get any() {
    return this.values.length > 0;
  }

  hide(text) {
    return this.values.reduce((hidden, value) => hidden.replaceAll(value, '***'), text);
  }

  refuseIn(directory) {
    const searched = this.values.filter((value) => value.length >= SHORTEST_TO_SEARCH);
    if (searched.length === 0) return;
    const { status, stdout } = spawnSync('grep', ['-rlF', '-f', '-', directory], { input: searched.join('\n'), encoding: 'utf8' });
    if (status === 1) return;
    const files = stdout.trim().split('\n').slice(0, 5).join(', ');
    throw new Refused(`a credential of build.secretName would be in the image: ${files || 'the files can not be searched'}; see which package writes it there`);
  }
}
