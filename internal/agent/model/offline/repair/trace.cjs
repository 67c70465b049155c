'use strict';
// Node loads this file before a program. It records which lines the failing and the
// passing tests execute.
const { isMainThread } = require('node:worker_threads');
const out = process.env.HORTUS_TRACE;
if (out && isMainThread && process.argv[1] && !process.execArgv.includes('--test')) {
  const fs = require('node:fs');
  const { fileURLToPath } = require('node:url');
  const { Session } = require('node:inspector');
  const root = process.cwd() + '/';
  const failed = new Set((process.env.HORTUS_TRACE_FAILED || '').split('\n'));
  const session = new Session();
  session.connect();
  const post = (method, params) => {
    let result;
    session.post(method, params, (err, value) => { result = value; });
    return result;
  };
  post('Profiler.enable');
  post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const texts = new Map();
  const textOf = (file) => {
    if (!texts.has(file)) texts.set(file, fs.readFileSync(file, 'utf8'));
    return texts.get(file);
  };
  // take gives the lines that were executed since the last take.
  const take = () => {
    const lines = new Set();
    const coverage = post('Profiler.takePreciseCoverage');
    for (const script of coverage ? coverage.result : []) {
      const file = script.url.startsWith('file://') ? fileURLToPath(script.url) : script.url;
      if (!file.startsWith(root) || file.includes('/node_modules/') || file.includes(' ')) continue;
      const text = textOf(file);
      const ran = new Uint8Array(text.length);
      for (const fn of script.functions) {
        for (const r of fn.ranges) ran.fill(r.count > 0 ? 1 : 0, r.startOffset, r.endOffset);
      }
      let line = 1;
      for (let i = 0; i < text.length; i++) {
        const c = text.charCodeAt(i);
        if (c === 10) line++;
        else if (c > 32 && ran[i]) lines.add(line + ' ' + file.slice(root.length));
      }
    }
    return lines;
  };
  const common = new Set();
  const tests = [];
  const load = () => { for (const l of take()) common.add(l); };
  const hooks = require('node:test');
  hooks.beforeEach(load);
  hooks.afterEach((t) => { tests.push([t && failed.has(t.name), take()]); });
  process.on('exit', (code) => {
    load();
    let failing = tests.filter((t) => t[0]).map((t) => t[1]);
    let passing = tests.filter((t) => !t[0]).map((t) => t[1]);
    if (failing.length === 0 && code !== 0) {
      failing = [new Set(passing.flatMap((t) => [...t]))];
      passing = [];
    }
    const records = ['total ' + failing.length + ' ' + passing.length];
    const hits = (part, l) => part.filter((t) => t.has(l) || common.has(l)).length;
    for (const l of new Set([...common, ...failing.flatMap((t) => [...t])])) {
      records.push('line ' + hits(failing, l) + ' ' + hits(passing, l) + ' ' + l);
    }
    fs.writeFileSync(out + '.' + process.pid, records.join('\n') + '\n');
  });
}
