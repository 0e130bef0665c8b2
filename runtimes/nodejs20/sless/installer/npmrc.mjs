import fs from 'node:fs';

/**
 * What npm's settings say about registries: the address of the default one, those of scopes, and the credentials of each host and path.
 * An environment variable goes before the file, as it does for npm.
 */
export function readNpmrc(env) {
  const settings = { registry: undefined, scopes: {}, credentials: {} };
  const file = env.NPM_CONFIG_USERCONFIG;
  for (const line of file && fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n') : []) {
    const [, key, quoted] = /^\s*([^#;=\s][^=\s]*)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (!key) continue;
    const value = quoted.replace(/^"(.*)"$/, '$1').replace(/\$\{(\w+)\}/g, (text, name) => env[name] ?? text);
    const [, scope] = /^@([^:]+):registry$/.exec(key) ?? [];
    const [, place, what] = /^(\/\/.*):(_authToken|_auth|username|_password)$/.exec(key) ?? [];
    if (key === 'registry') settings.registry = value;
    else if (scope) settings.scopes[scope] = value;
    else if (place) (settings.credentials[place] ??= {})[what] = value;
  }
  settings.registry = env.NPM_CONFIG_REGISTRY || settings.registry;
  return settings;
}

/** The same as yarn's own settings. */
export function yarnSettings({ registry, scopes, credentials }) {
  const addresses = [registry, ...Object.values(scopes)].filter(Boolean);
  return {
    ...(registry && { npmRegistryServer: registry }),
    npmScopes: Object.fromEntries(Object.entries(scopes).map(([scope, address]) => [scope, { npmRegistryServer: address }])),
    npmRegistries: Object.fromEntries(Object.entries(credentials).map(([place, own]) => [place.replace(/\/*$/, ''), yarnCredentials(own)])),
    unsafeHttpWhitelist: addresses.filter((address) => address.startsWith('http:')).map((address) => new URL(address).hostname),
  };
}

function yarnCredentials({ _authToken: token, _auth: auth, username, _password: password }) {
  if (token) return { npmAlwaysAuth: true, npmAuthToken: token };
  if (auth) return { npmAlwaysAuth: true, npmAuthIdent: Buffer.from(auth, 'base64').toString() };
  return { npmAlwaysAuth: true, npmAuthIdent: `${username}:${Buffer.from(password ?? '', 'base64')}` };
}
