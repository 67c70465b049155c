// Loaded into each node process of a gate: makes mocha, jest, vitest and ava report their tests by name.
//
// What it writes is for the host alone. Nothing here may change how the tests end: what goes wrong is left out.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { createHash } = require('node:crypto');

const key = Buffer.from('KEY', 'hex');
const out = path.join(__dirname, 'out');
const top = process.env.HORTUS_GATE_TOP || process.cwd();
const { writeFileSync, readFileSync, unlinkSync } = fs;
const inner = process.env.HORTUS_GATE_RUNNER !== undefined; // a runner that tests of another one start

const place = (file) => (file ? path.relative(top, file) : '');

// write makes a report of records as the reporter of node --test does.
function write(runner, records) {
  const lines = [{ begin: runner }, ...records].map((record, n) => {
    const text = JSON.stringify(record);
    return `${createHash('sha256').update(key).update(`${n} ${text}`).update(key).digest('hex').slice(0, 32)} ${text}\n`;
  });
  writeFileSync(path.join(out, `${runner}-${process.pid}.report`), lines.join(''));
}

// adopt names the runner of this process. What its tests start is left alone, and does not see this file.
function adopt(runner) {
  process.env.HORTUS_GATE_RUNNER = runner;
  const rest = (process.env.NODE_OPTIONS || '').replace('--require=' + __filename, '').trim();
  if (rest) process.env.NODE_OPTIONS = rest;
  else delete process.env.NODE_OPTIONS;
}

// atExit gives what a runner has to say when its process ends, however it does.
function atExit(runner, records) {
  adopt(runner);
  process.on('exit', () => {
    try {
      write(runner, records());
    } catch {}
  });
}

// tell gives the records of the form that jest and vitest write with --json.
function tell(file) {
  let result;
  try {
    result = JSON.parse(readFileSync(file, 'utf8'));
    unlinkSync(file);
  } catch {
    return []; // it ended early
  }
  const outcomes = { passed: 'passed', failed: 'failed', pending: 'skipped', skipped: 'skipped', disabled: 'skipped', todo: 'skipped' };
  const records = [];
  for (const suite of result.testResults) {
    const name = place(suite.name);
    for (const test of suite.assertionResults) {
      if (outcomes[test.status]) {
        records.push({ test: [name, ...test.ancestorTitles.filter(Boolean), test.title].join(' > '), how: outcomes[test.status] });
      }
    }
    if (suite.status === 'failed' && suite.assertionResults.length === 0) records.push({ test: name || '?', how: 'broken' });
  }
  records.push({ end: 0 });
  return records;
}

function start() {
  const args = process.argv.slice(2);
  const has = (...flags) => args.some((a) => flags.some((f) => a === f || a.startsWith(f + '=')));
  let main = process.argv[1] || '';
  try {
    main = fs.realpathSync(main);
  } catch {}
  main = main.split(path.sep).join('/');
  const file = path.join(out, `json-${process.pid}`);
  if (/\/jest(-cli)?\/bin\/jest\.js$/.test(main)) {
    if (has('--json', '--outputFile', '--listTests', '--showConfig', '--watch', '--watchAll', '--version', '--help', '--init', '--clearCache')) return;
    process.argv.splice(2, 0, '--json', '--outputFile=' + file);
    atExit('jest', () => tell(file));
  } else if (/\/vitest\/(vitest\.mjs|dist\/cli(-wrapper)?\.js)$/.test(main)) {
    if (['bench', 'list', 'init', 'typecheck'].includes(args[0]) || has('--outputFile', '--version', '--help', '--watch', '-w')) return;
    const more = [...(has('--reporter') ? [] : ['--reporter=default']), '--reporter=json', '--outputFile.json=' + file];
    const end = process.argv.indexOf('--');
    process.argv.splice(end < 0 ? process.argv.length : end, 0, ...more);
    atExit('vitest', () => tell(file));
  } else if (/\/ava\/(entrypoints\/)?cli\.m?js$/.test(main)) {
    if (has('--tap', '-t', '--watch', '-w', '--version', '--help')) return;
    process.argv.splice(2, 0, '--tap');
    adopt('ava');
  } else if (/\/mocha\/(bin\/_?mocha(\.c?js)?|lib\/cli\/cli\.js)$/.test(main)) {
    process.argv.splice(2, 0, '--require', path.join(__dirname, 'mocha.cjs'));
  }
}

module.exports = { atExit, place };
if (!inner) {
  try {
    start();
  } catch {}
}
