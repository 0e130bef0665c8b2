// Fills /deps from the manifests of a function; see CONTRACT.md section 7.

import fs from 'node:fs';
import path from 'node:path';

import { copyLinked, copyManifests, countPackages, dropRecords } from './files.mjs';
import { managerOf } from './managers.mjs';
import { readPackage } from './manifest.mjs';
import { Refused } from './refused.mjs';
import { Secrets } from './secrets.mjs';
import { Tools } from './tools.mjs';

async function main() {
  const manifests = process.env.SLESS_MANIFESTS || '/manifests';
  const deps = process.env.SLESS_DEPS || '/deps';
  const target = path.join(deps, 'node_modules');
  const secrets = new Secrets(process.env.SLESS_SECRETS_FILE);
  try {
    for (const name of ['node_modules', 'built']) fs.rmSync(path.join(deps, name), { recursive: true, force: true });
    if (fs.existsSync(path.join(manifests, 'package.json'))) await install(manifests, deps, secrets);
    fs.mkdirSync(target, { recursive: true });
    secrets.refuseIn(deps);
  } catch (err) {
    if (!(err instanceof Refused)) throw err;
    console.log(`sless install: ${secrets.hide(err.message)}`);
    return 1;
  }
  console.log(`sless install: ${countPackages(target)} packages installed`);
  return 0;
}

/** Installs, and builds where there is something to build, in a writable copy that lies in the volume, so that results are only renamed. */
async function install(manifests, deps, secrets) {
  const work = fs.mkdtempSync(path.join(deps, '.install-'));
  const scratch = fs.mkdtempSync(path.join(process.env.TMPDIR || '/tmp', 'install-'));
  try {
    copyManifests(manifests, work);
    const manifest = readPackage(work);
    const tools = new Tools(work, scratch, secrets);
    const manager = managerOf(work, manifest, tools);
    await manager.prepare();
    manifest.hideDevelopmentScripts();
    if (manifest.builds) {
      await manager.install({ development: true });
      await tools.run('npm', ['run', 'build'], 'the build script (npm run build)');
    }
    await manager.install({ development: false, again: manifest.builds });
    manifest.restore();
    const result = path.join(work, 'node_modules');
    if (fs.existsSync(result)) {
      copyLinked(result);
      dropRecords(result);
      fs.renameSync(result, path.join(deps, 'node_modules'));
    }
    if (manifest.builds) fs.renameSync(work, path.join(deps, 'built'));
  } finally {
    fs.rmSync(work, { recursive: true, force: true });
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}

process.exitCode = await main();
