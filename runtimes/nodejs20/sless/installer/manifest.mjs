import fs from 'node:fs';
import path from 'node:path';

import { Refused } from './refused.mjs';

// Scripts of the root package that belong to its development, and fail without what only development installs.
const DEVELOPMENT_SCRIPTS = ['prepare', 'preprepare', 'postprepare', 'prepublish'];

/** Reads package.json of a folder. */
export function readPackage(folder) {
  return new Manifest(path.join(folder, 'package.json'));
}

class Manifest {
  constructor(file) {
    this.file = file;
    this.text = fs.readFileSync(file, 'utf8');
    try {
      this.content = JSON.parse(this.text.replace(/^\ufeff/, '')) ?? {};
    } catch (err) {
      throw new Refused(`package.json is no JSON: ${err.message}`);
    }
    this.builds = Boolean(this.content.scripts?.build);
    // "pnpm@9.15.0+sha512.…": the tool and its version that the package asks for.
    const asked = /^([a-z]+)@(\d+\.\d+\.\d+[^+]*)/.exec(this.content.packageManager ?? '');
    [, this.tool, this.toolVersion] = asked ?? [];
  }

  hideDevelopmentScripts() {
    const content = structuredClone(this.content);
    for (const name of DEVELOPMENT_SCRIPTS) delete content.scripts?.[name];
    this.hidden = JSON.stringify(content, undefined, 2);
    fs.writeFileSync(this.file, this.hidden);
  }

  /** Puts the file back as it came, unless the build made another of it. */
  restore() {
    if (fs.existsSync(this.file) && fs.readFileSync(this.file, 'utf8') === this.hidden) fs.writeFileSync(this.file, this.text);
  }
}
