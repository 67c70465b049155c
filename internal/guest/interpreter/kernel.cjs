// Runs the code of one context: requests come as lines of JSON on descriptor 3, events go to
// descriptor 4. The inspector evaluates, since it knows top-level await and repeated declarations.
// A worker reads the requests, and ends a loop in the main thread if it is asked to.
'use strict';
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const { Session } = require('node:inspector');
const fs = require('node:fs');

if (isMainThread) {
  const path = require('node:path');
  const { createRequire, isBuiltin } = require('node:module');
  const { pathToFileURL } = require('node:url');
  const util = require('node:util');
  const send = (event) => fs.writeSync(4, JSON.stringify(event) + '\n');

  const looks = (value) => {
    const out = { text: typeof value === 'string' ? value : util.inspect(value, { depth: 4 }) };
    if (value !== null && typeof value === 'object' && !util.types.isProxy(value)) {
      if (Buffer.isBuffer(value)) {
        const kind = value.subarray(0, 4).toString('latin1');
        if (kind === '\x89PNG') out.png = value.toString('base64');
        else if (kind.startsWith('\xff\xd8')) out.jpeg = value.toString('base64');
        return out;
      }
      const custom = value[Symbol.for('Jupyter.display')];
      if (typeof custom === 'function') {
        const names = { 'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpeg', 'application/json': 'json', 'text/latex': 'latex' };
        for (const [kind, data] of Object.entries(custom.call(value))) out[names[kind] ?? kind] = data;
        return out;
      }
      if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) {
        try {
          out.json = JSON.parse(JSON.stringify(value));
        } catch {} // circular, or what JSON has no form for
      }
    }
    return out;
  };

  const from = path.join(process.cwd(), 'cell.js');
  const own = createRequire(from);
  globalThis.require = createRequire(from);
  globalThis.__import__ = (name) => {
    if (isBuiltin(name)) return import(name);
    return import(pathToFileURL(/^\.{0,2}\//.test(name) ? path.resolve(name) : own.resolve(name)).href);
  };
  globalThis.display = (...values) => values.forEach((value) => send({ type: 'result', is_main_result: false, ...looks(value) }));

  // Static imports become dynamic ones, for which the inspector has no loader of its own.
  const names = (list) => list.replace(/\bas\b/g, ':');
  const imports = (code) => code
    .replace(/^[ \t]*import[ \t]+(['"][^'"]+['"]);?[ \t]*$/gm, 'await __import__($1);')
    .replace(/^[ \t]*import[ \t]+\*[ \t]+as[ \t]+([\w$]+)[ \t]+from[ \t]+(['"][^'"]+['"]);?/gm, 'const $1 = await __import__($2);')
    .replace(/^[ \t]*import[ \t]+([\w$]+)[ \t]*,[ \t]*\{([^}]*)\}[ \t]*from[ \t]+(['"][^'"]+['"]);?/gm, (_, name, list, at) => `const { default: ${name}, ${names(list)} } = await __import__(${at});`)
    .replace(/^[ \t]*import[ \t]+([\w$]+)[ \t]+from[ \t]+(['"][^'"]+['"]);?/gm, 'const { default: $1 } = await __import__($2);')
    .replace(/^[ \t]*import[ \t]+\{([^}]*)\}[ \t]*from[ \t]+(['"][^'"]+['"]);?/gm, (_, list, at) => `const { ${names(list)} } = await __import__(${at});`)
    .replace(/\bimport\(/g, '__import__(');

  const session = new Session();
  session.connect();
  const post = (method, params) => new Promise((done) => session.post(method, params, (error, value) => done({ error, ...value })));
  let taken; // the value that a function of the inspector's gives here
  const take = async ({ objectId, unserializableValue, value }) => {
    const argument = objectId ? { objectId } : unserializableValue !== undefined ? { unserializableValue } : { value };
    const { result } = await post('Runtime.evaluate', { expression: 'globalThis' });
    globalThis.__take__ = (v) => { taken = v; };
    await post('Runtime.callFunctionOn', { objectId: result.objectId, functionDeclaration: 'function (value) { __take__(value) }', arguments: [argument] });
    delete globalThis.__take__;
    return taken;
  };
  const failed = (error) => {
    const known = error !== null && typeof error === 'object' && 'message' in error;
    const stack = known ? String(error.stack ?? error).replace(/\n\s+at (new Promise|Session|node:|.*code-interpreter-)[^]*$/, '') : 'Uncaught ' + util.inspect(error);
    send({ type: 'error', name: known ? String(error.name) : 'Error', value: known ? String(error.message) : util.inspect(error), traceback: stack });
  };
  const interrupted = { name: 'Interrupted', message: 'the execution was interrupted', stack: 'Interrupted: the execution was interrupted' };

  let count = 0;
  let stop = () => {};
  const execute = async ({ code, env, language }) => {
    if (language === 'typescript') {
      const { stripTypeScriptTypes: strip } = require('node:module');
      if (!strip) {
        const message = `TypeScript needs Node 22.13 or newer, and this sandbox has ${process.version}: use javascript, or an image with a newer Node`;
        return failed({ name: 'Unsupported', message, stack: message });
      }
      try {
        code = strip(code);
      } catch (e) {
        return failed({ name: e.name, message: e.message, stack: `${e.name}: ${e.message}` });
      }
    }
    const evaluated = post('Runtime.evaluate', { expression: `${imports(code)}\n//# sourceURL=cell-${count}.js`, replMode: true, awaitPromise: true });
    const stopped = new Promise((done) => { stop = () => setTimeout(done, 300, { error: interrupted }); });
    const { error, result, exceptionDetails: thrown } = await Promise.race([evaluated, stopped]);
    if (error || thrown && !thrown.exception) return failed(interrupted);
    if (thrown) return failed(await take(thrown.exception));
    const value = await take(result);
    if (value !== undefined) send({ type: 'result', is_main_result: true, ...looks(value) });
  };

  for (const event of ['uncaughtException', 'unhandledRejection']) {
    process.on(event, (error) => process.stderr.write('Uncaught ' + util.inspect(error) + '\n'));
  }
  process.on('SIGINT', () => {}); // it is for what the code has started
  const worker = new Worker(__filename);
  worker.on('exit', () => process.exit(0));
  worker.on('message', async (request) => {
    if (request.interrupt) return stop();
    count++;
    const before = Object.keys(request.env).map((name) => [name, process.env[name]]);
    Object.assign(process.env, request.env);
    await execute(request).catch(failed);
    stop = () => {};
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    for (const fd of [1, 2]) fs.writeSync(fd, request.mark);
    send({ type: 'end' });
  });
} else {
  const session = new Session();
  session.connectToMainThread();
  require('node:readline').createInterface({ input: fs.createReadStream(null, { fd: 3 }) })
    .on('line', (line) => {
      const request = JSON.parse(line);
      if (request.interrupt) session.post('Runtime.terminateExecution', () => {});
      parentPort.postMessage(request);
    })
    .on('close', () => process.exit(0));
}
