const fs = require('fs'), path = require('path'), Module = require('module');
const source = fs.readFileSync(0, 'utf8');
const file = path.join(process.env.HOME || '/tmp', '.hortus-env');
const base = { ...process.env };
let records = [];
try { records = fs.readFileSync(file, 'utf8').split('\0'); } catch {}
for (const r of records) {
  const i = r.indexOf('=');
  if (i > 0) process.env[r.slice(0, i)] = r.slice(i + 1);
  else if (r) delete process.env[r];
}
process.on('exit', () => {
  const skip = ['PWD', 'OLDPWD', 'SHLVL', '_'];
  let out = '';
  for (const [k, v] of Object.entries(process.env)) if (base[k] !== v && !skip.includes(k)) out += k + '=' + v + '\0';
  for (const k of Object.keys(base)) if (!(k in process.env) && !skip.includes(k)) out += k + '\0';
  const part = file + '.' + process.pid;
  try {
    fs.writeFileSync(part, out);
    fs.renameSync(part, file);
  } catch (e) {
    console.error('hortus: the environment is not kept:', e.message);
  }
});
const main = new Module(path.join(process.cwd(), '[code]'));
main.filename = main.id;
main.paths = Module._nodeModulePaths(process.cwd());
process.mainModule = main;
main._compile(source, main.filename);
