// Loaded by mocha itself, for hook.cjs: reports the tests of each run beside the reporter that is there.
'use strict';
const path = require('node:path');
const { existsSync, realpathSync } = require('node:fs');
const { atExit, place } = require('./hook.cjs');

const records = [];
let began = false;
let running = 0;

function watch(runner) {
  running++;
  if (!began) {
    began = true;
    atExit('mocha', () => (running === 0 ? [...records, { end: 0 }] : records));
  }
  const say = (test, how) => records.push({ test: [place(test.file), ...test.titlePath()].join(' > '), how });
  runner.on('pass', (test) => say(test, 'passed'));
  runner.on('pending', (test) => say(test, 'skipped'));
  // A hook is no test: it does not pass by name when it is repaired.
  runner.on('fail', (test) => say(test, test.type === 'hook' ? 'broken' : 'failed'));
  runner.once('end', () => running--);
}

try {
  const lib = path.join(realpathSync(process.argv[1]).replace(/[\\/](bin|lib[\\/]cli)[\\/][^\\/]*$/, ''), 'lib');
  const loaded = require(path.join(lib, existsSync(path.join(lib, 'mocha.cjs')) ? 'mocha.cjs' : 'mocha.js'));
  const { prototype } = loaded.default ?? loaded;
  const run = prototype.run;
  if (process.env.MOCHA_WORKER_ID === undefined) {
    prototype.run = function (...args) {
      const Reporter = this._reporter;
      this._reporter = function (runner, options) {
        watch(runner);
        return new Reporter(runner, options);
      };
      return run.apply(this, args);
    };
  }
} catch {}
require('./disguise.cjs');
