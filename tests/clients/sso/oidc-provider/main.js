// A provider by the npm package `oidc-provider`: node main.js SETTINGS, where SETTINGS is a JSON file with `issuer`,
// `port`, `clients`, `audience`, `people` (path of a JSON file, read at each use: name to claims) and `tokens` (path
// of a JSON file, read at each use: client to what its access tokens have in the header and the payload; null removes
// a field).
//
// Keys are made at each start: a restart is a rotation.

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Provider } from 'oidc-provider';

const read = (path) => JSON.parse(readFileSync(path, 'utf8'));
const settings = read(process.argv[2]);

function key(type, options, algorithm) {
    const { privateKey } = generateKeyPairSync(type, options);
    return { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: algorithm, kid: randomBytes(8).toString('hex') };
}

function bend(target, changes = {}) {
    for (const [name, value] of Object.entries(changes)) {
        if (value === null) delete target[name];
        else target[name] = value;
    }
}

// One algorithm for each way in: RS256 is the clients' default, ES256 set at the client, PS256 for access tokens.
const keys = [
    key('rsa', { modulusLength: 2048 }, 'RS256'),
    key('rsa', { modulusLength: 2048 }, 'PS256'),
    key('ec', { namedCurve: 'P-256' }, 'ES256'),
];

const provider = new Provider(settings.issuer, {
    jwks: { keys },
    clients: settings.clients,
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'PS256', 'ES256'] },
    pkce: { required: () => true },
    scopes: ['openid', 'offline_access', 'profile', 'email', 'groups'],
    claims: {
        openid: ['sub', 'sid'],
        profile: ['preferred_username', 'name'],
        email: ['email', 'email_verified'],
        groups: ['groups'],
    },
    cookies: { keys: [randomBytes(16).toString('hex')] },
    async findAccount(_, id) {
        const claims = read(settings.people)[id];
        return claims && { accountId: id, claims: async () => ({ sub: id, preferred_username: id, ...claims }) };
    },
    features: {
        backchannelLogout: { enabled: true },
        clientCredentials: { enabled: true },
        devInteractions: { enabled: true },
        deviceFlow: { enabled: true },
        resourceIndicators: {
            enabled: true,
            getResourceServerInfo: () => ({
                scope: '',
                audience: settings.audience,
                accessTokenTTL: 300,
                accessTokenFormat: 'jwt',
                jwt: { sign: { alg: 'PS256' } },
            }),
        },
        rpInitiatedLogout: { enabled: true },
    },
    formats: {
        customizers: {
            jwt(_, token, jwt) {
                const changes = read(settings.tokens)[token.clientId];
                if (!changes) return;
                jwt.header = { ...jwt.header };
                bend(jwt.header, changes.header);
                bend(jwt.payload, changes.payload);
            },
        },
    },
    // Back-channel calls to loopback are refused by default.
    fetch(url, options) {
        delete options.dispatcher;
        return fetch(url, options);
    },
});
provider.listen(settings.port, '127.0.0.1');
