import fs from 'node:fs';
import path from 'node:path';

import { readNpmrc, yarnSettings } from './npmrc.mjs';
import { Refused } from './refused.mjs';

// The versions that read a lock file when package.json asks for none. They are fetched for the step, and are in no image.
const YARN_CLASSIC = '1.22.22';
const YARN = { 8: '4.12.0', 9: '4.14.1', 10: '4.18.1' }; // by the format of the lock file; another one would write it anew
const PNPM = { '9.0': '10.34.9', '6.0': '8.15.9', '6.1': '8.15.9' };

/** Each manager: prepare() once, then install({ development, again }); again is after a build, when only what is not needed any more must go. */
class Npm {
  constructor({ tools, locked }) {
    Object.assign(this, { tools, command: locked ? 'ci' : 'install' });
  }

  async prepare() {}

  async install({ development, again }) {
    const command = again ? 'prune' : this.command;
    await this.tools.run('npm', [command, development ? '--include=dev' : '--omit=dev', '--install-links'], `npm ${command}`);
  }
}

class Pnpm {
  constructor({ work, manifest, tools }) {
    this.tools = tools;
    this.version = manifest.tool === 'pnpm' ? manifest.toolVersion : versionFor(PNPM, path.join(work, 'pnpm-lock.yaml'), /^lockfileVersion: '?([\d.]+)/m);
  }

  async prepare() {
    await this.tools.add('pnpm', this.version);
    Object.assign(this.tools.env, {
      npm_config_node_linker: 'hoisted', // plain folders, as npm makes them: nothing links out of what is kept
      npm_config_package_import_method: 'copy',
      npm_config_store_dir: path.join(this.tools.scratch, 'pnpm'),
      npm_config_cache_dir: path.join(this.tools.scratch, 'pnpm-cache'),
      npm_config_state_dir: path.join(this.tools.scratch, 'pnpm-state'),
      npm_config_dangerously_allow_all_builds: 'true',
      npm_config_manage_package_manager_versions: 'false',
      npm_config_verify_deps_before_run: 'false',
      CI: 'true', // asks nothing
    });
  }

  async install({ development }) {
    await this.tools.run('pnpm', ['install', '--frozen-lockfile', '--reporter=append-only', development ? '--prod=false' : '--prod'], 'pnpm install --frozen-lockfile');
  }
}

class YarnClassic {
  constructor({ work, manifest, tools }) {
    Object.assign(this, { work, tools, version: manifest.tool === 'yarn' ? manifest.toolVersion : YARN_CLASSIC });
  }

  async prepare() {
    const { tools } = this;
    await tools.add('yarn', this.version);
    const { registry } = readNpmrc(tools.env);
    if (!registry) return;
    tools.env.YARN_REGISTRY = registry;
    // The lock file has whole addresses. Those of the public registry mean "the registry", as they do for npm.
    const lock = path.join(this.work, 'yarn.lock');
    const text = fs.readFileSync(lock, 'utf8');
    const known = await Promise.all([tools.ask('yarn', ['config', 'get', 'registry']), tools.ask('npm', ['config', 'get', 'registry'])]);
    fs.writeFileSync(lock, known.filter(Boolean).reduce((changed, address) => changed.replaceAll(`resolved "${withSlash(address)}`, `resolved "${withSlash(registry)}`), text));
  }

  async install({ development }) {
    const flags = ['--frozen-lockfile', '--non-interactive', '--no-progress', '--cache-folder', path.join(this.tools.scratch, 'yarn')];
    await this.tools.run('yarn', ['install', ...flags, `--production=${!development}`], 'yarn install --frozen-lockfile');
  }
}

class Yarn {
  constructor({ work, manifest, tools }) {
    Object.assign(this, { tools, lock: path.join(work, 'yarn.lock') });
    this.version = manifest.tool === 'yarn' ? manifest.toolVersion : versionFor(YARN, this.lock, /^__metadata:\n +version: (\d+)/m);
    if (Number.parseInt(this.version, 10) < 4) {
      throw new Refused(`yarn ${this.version} can't leave development dependencies out; move to yarn 4: yarn set version stable && yarn install`);
    }
  }

  async prepare() {
    const { tools } = this;
    await tools.add('@yarnpkg/cli-dist', this.version);
    const settings = readNpmrc(tools.env);
    // It reads no .npmrc, but a file of its own in the home folder.
    const home = path.join(tools.scratch, 'home');
    fs.mkdirSync(home);
    fs.writeFileSync(path.join(home, '.yarnrc.yml'), JSON.stringify(yarnSettings(settings)), { mode: 0o600 });
    Object.assign(tools.env, {
      HOME: home,
      YARN_IGNORE_PATH: '1', // the project's own copy of yarn
      YARN_NODE_LINKER: 'node-modules',
      YARN_ENABLE_SCRIPTS: 'true',
      YARN_ENABLE_IMMUTABLE_INSTALLS: 'false', // where it is wanted, it is said
      YARN_GLOBAL_FOLDER: path.join(tools.scratch, 'yarn'),
      YARN_ENABLE_GLOBAL_CACHE: 'true',
      YARN_INSTALL_STATE_PATH: path.join(tools.scratch, 'yarn-state.gz'),
      YARN_ENABLE_TELEMETRY: 'false',
      YARN_ENABLE_PROGRESS_BARS: 'false',
      YARN_ENABLE_COLORS: 'false',
      YARN_ENABLE_HYPERLINKS: 'false',
    });
  }

  async install({ development, again }) {
    if (development) return this.tools.run('yarn', ['install', '--immutable'], 'yarn install --immutable');
    if (!again) await this.#refuseStale();
    return this.tools.run('yarn', ['workspaces', 'focus', '--all', '--production'], 'yarn workspaces focus --production');
  }

  /** What leaves development out does not compare the lock file with package.json, and what does compare them installs everything. */
  async #refuseStale() {
    const pinned = () => fs.readFileSync(this.lock, 'utf8').replace(/^#.*/gm, '').trim();
    const before = pinned();
    await this.tools.run('yarn', ['install', '--mode=update-lockfile'], 'yarn install');
    if (pinned() !== before) throw new Refused('yarn.lock is not what package.json asks for; bring it up to date: yarn install');
  }
}

const withSlash = (address) => address.replace(/\/*$/, '/');

function versionFor(versions, file, pattern) {
  const [, format] = pattern.exec(fs.readFileSync(file, 'utf8')) ?? [];
  if (versions[format]) return versions[format];
  throw new Refused(`${path.basename(file)} has the format ${format ?? '(none)'}, and ${Object.keys(versions).join(', ')} are known; write it anew with a newer version of its tool`);
}

/** The package manager whose lock file is there; where several are, the one that package.json names goes first. */
export function managerOf(work, manifest, tools) {
  const has = (name) => fs.existsSync(path.join(work, name));
  const found = {
    npm: has('package-lock.json') || has('npm-shrinkwrap.json'),
    pnpm: has('pnpm-lock.yaml'),
    yarn: has('yarn.lock'),
    bun: has('bun.lock') || has('bun.lockb'),
  };
  const first = found[manifest.tool] ? manifest.tool : Object.keys(found).find((name) => found[name]);
  const given = { work, manifest, tools, locked: first === 'npm' };
  switch (first) {
    case 'pnpm': return new Pnpm(given);
    case 'yarn': return isClassic(path.join(work, 'yarn.lock')) ? new YarnClassic(given) : new Yarn(given);
    case 'bun': throw new Refused("bun's lock file is not read here; put a package-lock.json beside it: npm install --package-lock-only");
    default: return new Npm(given);
  }
}

function isClassic(lock) {
  return !/^__metadata:/m.test(fs.readFileSync(lock, 'utf8'));
}
