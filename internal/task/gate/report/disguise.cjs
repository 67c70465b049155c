// Loaded before a test file: lets a program that asks whether it is tested see what it sees in use. Without a disguise it does nothing.
'use strict';
const disguise = DISGUISE;

// internal says whether node itself or an installed package asks. They still have to find what they were started with.
function internal() {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = 8;
  const frames = new Error().stack.split('\n').slice(3);
  Error.stackTraceLimit = before;
  return /node:(internal|test)|[\\/]node_modules[\\/]/.test(frames.find((frame) => !frame.endsWith('(<anonymous>)')) ?? '');
}

if (disguise.names) {
  const path = require('node:path');
  const hidden = /^(NODE_TEST_CONTEXT|NODE_OPTIONS|HORTUS_\w+|CI|MOCHA_\w+|npm_lifecycle_\w+)$/;
  process.env = new Proxy(process.env, {
    get: (env, key) => (typeof key === 'string' && hidden.test(key) && !internal() ? undefined : env[key]),
    has: (env, key) => key in env && (typeof key !== 'string' || !hidden.test(key) || internal()),
    ownKeys: (env) => {
      const all = internal(); // which starts processes with them
      return Reflect.ownKeys(env).filter((key) => all || typeof key !== 'string' || !hidden.test(key));
    },
  });
  const main = path.resolve('server.js');
  process.argv = new Proxy(process.argv, {
    get: (argv, key) => (key === '1' && typeof argv[1] === 'string' && !internal() ? main : argv[key]),
  });
  process.execArgv = [];
}

if (disguise.days) {
  const Real = Date;
  const now = () => Real.now() + disguise.days * 86400e3;
  const Later = new Proxy(Real, {
    construct: (_, args, to) => Reflect.construct(Real, args.length > 0 ? args : [now()], to),
    apply: () => new Real(now()).toString(),
    get: (of, key) => (key === 'now' ? now : Reflect.get(of, key)),
  });
  Real.prototype.constructor = Later;
  globalThis.Date = Later;
}
