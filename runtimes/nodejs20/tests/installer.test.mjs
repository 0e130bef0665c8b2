import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { managerOf } from '../sless/installer/managers.mjs';
import { readNpmrc, yarnSettings } from '../sless/installer/npmrc.mjs';
import { Secrets } from '../sless/installer/secrets.mjs';

function folder(files) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'sless-test-'));
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(made, name), text);
  return made;
}

const pnpm = (format) => ({ 'pnpm-lock.yaml': `lockfileVersion: '${format}'\n` });
const yarn = (format) => ({ 'yarn.lock': `# comment\n\n__metadata:\n  version: ${format}\n  cacheKey: 10c0\n` });

test('the manager is the one whose lock file is there, in a version that reads it', () => {
  for (const [files, manifest, want, version] of [
    [{}, {}, 'Npm'],
    [{ 'package-lock.json': '{}' }, {}, 'Npm'],
    [{ ...pnpm('9.0') }, {}, 'Pnpm', /^10\./],
    [{ ...pnpm('6.0') }, {}, 'Pnpm', /^8\./],
    [{ ...pnpm('9.0') }, { tool: 'pnpm', toolVersion: '9.1.0' }, 'Pnpm', /^9\.1\.0$/],
    [{ 'yarn.lock': '# yarn lockfile v1\n' }, {}, 'YarnClassic', /^1\./],
    [yarn(8), {}, 'Yarn', /^4\./],
    [{ ...yarn(8), 'package-lock.json': '{}' }, {}, 'Npm'],
    [{ ...yarn(8), 'package-lock.json': '{}' }, { tool: 'yarn', toolVersion: '4.2.0' }, 'Yarn', /^4\.2\.0$/],
    [{}, { tool: 'pnpm', toolVersion: '9.1.0' }, 'Npm'],
  ]) {
    const manager = managerOf(folder(files), manifest, {});
    assert.equal(manager.constructor.name, want, JSON.stringify(files));
    if (version) assert.match(manager.version, version);
  }
});

test('a lock file that nothing reads is refused with what to do', () => {
  for (const [files, manifest, says] of [
    [{ 'bun.lock': '' }, {}, /package-lock-only/],
    [pnpm('5.4'), {}, /pnpm-lock.yaml has the format 5.4/],
    [yarn(6), {}, /yarn.lock has the format 6/],
    [yarn(6), { tool: 'yarn', toolVersion: '3.6.0' }, /move to yarn 4/],
  ]) assert.throws(() => managerOf(folder(files), manifest, {}), says);
});

test('npm settings become those of yarn', () => {
  const npmrc = [
    '# comment', 'registry=https://npm.example.org/root/', '@own:registry = "http://own.example.org/"', 'always-auth=true',
    '//npm.example.org/root/:_authToken=${TOKEN}', '//own.example.org/:username=me', '//own.example.org/:_password=c2VjcmV0', '//third.example.org/:_auth=bWU6c2VjcmV0',
  ].join('\r\n');
  const env = { NPM_CONFIG_USERCONFIG: path.join(folder({ npmrc }), 'npmrc'), TOKEN: 'token' };
  assert.deepEqual(yarnSettings(readNpmrc(env)), {
    npmRegistryServer: 'https://npm.example.org/root/',
    npmScopes: { own: { npmRegistryServer: 'http://own.example.org/' } },
    npmRegistries: {
      '//npm.example.org/root': { npmAlwaysAuth: true, npmAuthToken: 'token' },
      '//own.example.org': { npmAlwaysAuth: true, npmAuthIdent: 'me:secret' },
      '//third.example.org': { npmAlwaysAuth: true, npmAuthIdent: 'me:secret' },
    },
    unsafeHttpWhitelist: ['own.example.org'],
  });
  assert.equal(readNpmrc({ ...env, NPM_CONFIG_REGISTRY: 'https://platform.example.org/' }).registry, 'https://platform.example.org/');
  assert.deepEqual(readNpmrc({}), { registry: undefined, scopes: {}, credentials: {} });
});

test('secrets are hidden, the longest first, and refused in files', () => {
  const made = folder({ list: 'secret-one\nsecret-one-and-more\npin\n', clean: 'pin', guilty: 'x secret-one x' });
  const secrets = new Secrets(path.join(made, 'list'));
  assert.equal(secrets.hide('secret-one-and-more, secret-one, pin.'), '***, ***, ***.');
  fs.rmSync(path.join(made, 'list'));
  assert.throws(() => secrets.refuseIn(made), /build.secretName.*guilty/);
  fs.rmSync(path.join(made, 'guilty'));
  secrets.refuseIn(made);
  new Secrets(undefined).refuseIn('/nowhere');
});
