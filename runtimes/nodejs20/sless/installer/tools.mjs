import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';

import { Refused } from './refused.mjs';

/** Runs programs in the copy of the code, with what they keep for later in a folder that goes. */
export class Tools {
  constructor(work, scratch, secrets) {
    Object.assign(this, { work, scratch, secrets });
    this.env = {
      ...process.env,
      npm_config_cache: path.join(scratch, 'npm'),
      // The pod that this runs in is what keeps install scripts in bounds, so npm need not ask about them.
      npm_config_dangerously_allow_all_scripts: 'true',
      npm_config_update_notifier: 'false',
      npm_config_progress: 'false',
      npm_config_fund: 'false',
      npm_config_audit: 'false',
    };
  }

  /** Brings a package manager from the registry, for this step alone, to where scripts find it too. */
  async add(name, version) {
    const prefix = path.join(this.scratch, 'tool');
    fs.mkdirSync(prefix);
    const what = `${name}@${version}`;
    await this.run('npm', ['install', '--prefix', prefix, '--no-save', '--omit=dev', what], `fetching ${what} from the npm registry`, prefix);
    this.env.PATH = `${path.join(prefix, 'node_modules', '.bin')}:${this.env.PATH}`;
  }

  /** Runs a program to its end; what names it in the message when it fails. */
  async run(program, args, what, cwd = this.work) {
    const code = await this.#spawn(program, args, cwd);
    if (code !== 0) throw new Refused(`${what} failed with exit code ${code}; what it says above names the reason`);
  }

  #spawn(program, args, cwd) {
    const { any } = this.secrets;
    const output = any ? 'pipe' : 'inherit';
    const child = spawn(program, args, { cwd, env: this.env, stdio: ['ignore', output, output] });
    if (any) {
      for (const stream of [child.stdout, child.stderr]) {
        readline.createInterface({ input: stream, crlfDelay: Infinity }).on('line', (line) => console.log(this.secrets.hide(line)));
      }
    }
    return new Promise((resolve, reject) => {
      child.on('error', (err) => reject(new Refused(`${program} can't be started: ${err.message}`)));
      child.on('close', (code, signal) => resolve(code ?? signal));
    });
  }

  /** What a program answers, without the settings of this step; undefined when it does not know. */
  async ask(program, args) {
    const env = { PATH: this.env.PATH, HOME: this.scratch };
    const child = spawn(program, args, { cwd: this.scratch, env, stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    child.stdout.on('data', (data) => { text += data; });
    return new Promise((resolve) => {
      child.on('error', () => resolve(undefined));
      child.on('close', (code) => resolve(code === 0 ? text.trim() : undefined));
    });
  }
}
