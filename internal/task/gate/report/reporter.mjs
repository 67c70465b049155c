// A reporter of node --test: one record for each test as it ends.
//
// The host writes this file outside of the repository and fills in the key. It runs in
// the process that starts the test files, not in theirs.
import { createHash } from 'node:crypto';
import { unlinkSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const key = Buffer.from('KEY', 'hex');
unlinkSync(fileURLToPath(import.meta.url));

let count = 0;
// line gives a record. Its sum shows the host that this function made it, and where.
function line(record) {
  const text = JSON.stringify(record);
  const sum = createHash('sha256').update(key).update(`${count++} ${text}`).update(key).digest('hex');
  return `${sum.slice(0, 32)} ${text}\n`;
}

const place = (e) => (e.file ? relative(process.cwd(), e.file) : '');
const identity = (e) => JSON.stringify([e.file, e.line, e.column, e.nesting, e.name]);

function outcome(type, e) {
  if (e.skip !== undefined && e.skip !== false) return 'skipped';
  if (e.todo !== undefined && e.todo !== false) return 'expected';
  return type === 'test:pass' ? 'passed' : 'failed';
}

export default async function* (source) {
  yield line({ begin: 'node --test' });
  const parents = [];
  const open = new Map(); // tests that were put in line and have not ended
  for await (const { type, data: e } of source) {
    switch (type) {
      case 'test:enqueue':
        open.set(identity(e), (open.get(identity(e)) ?? 0) + 1);
        break;
      case 'test:start':
        parents.length = e.nesting;
        parents[e.nesting] = e.name;
        break;
      case 'test:pass':
      case 'test:fail': {
        const left = (open.get(identity(e)) ?? 0) - 1;
        if (left > 0) open.set(identity(e), left);
        else open.delete(identity(e));
        const own = e.nesting === 0 && e.name === e.file; // a file without tests
        const name = own ? [] : [...parents.slice(0, e.nesting), e.name];
        const how = own && type === 'test:fail' ? 'broken' : outcome(type, e);
        yield line({ test: [place(e), ...name].join(' > '), how });
        break;
      }
      case 'test:stdout': case 'test:stderr': case 'test:diagnostic': case 'test:plan': case 'test:dequeue': case 'test:complete':
        break;
    }
  }
  for (const id of open.keys()) {
    const [file, , , , name] = JSON.parse(id);
    if (name !== file) yield line({ lost: [relative(process.cwd(), file ?? ''), name].join(' > ') });
  }
  yield line({ end: 0 });
}
