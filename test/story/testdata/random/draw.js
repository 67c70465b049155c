// Answers each connection with random numbers of Node, one "name value" a line. A connection
// that sends "hook" has what can be seeded seeded first.
const crypto = require('node:crypto'), fs = require('node:fs'), net = require('node:net');
const hex = b => Buffer.from(b).toString('hex');
let hooked = false; // UUIDs that are there already are not those to use then
function draw() {
  const ecdh = crypto.createECDH('prime256v1');
  return {
    'fs.readSync(urandom)': (() => { const b = Buffer.alloc(16), f = fs.openSync('/dev/urandom'); fs.readSync(f, b); fs.closeSync(f); return hex(b); })(),
    'crypto.randomBytes': hex(crypto.randomBytes(16)),
    'crypto.getRandomValues': hex(crypto.webcrypto.getRandomValues(new Uint8Array(16))),
    'crypto.randomUUID': crypto.randomUUID({ disableEntropyCache: hooked }),
    'ECDH': hex(ecdh.generateKeys()),
    'Math.random': String(Math.random()),
  };
}
draw();
net.createServer(c => c.once('data', d => {
  if (d.toString().trim() === 'hook') {
    require('./reseed.node')();
    hooked = true;
  }
  c.end(Object.entries(draw()).map(([k, v]) => k + ' ' + v + '\n').join(''));
})).listen(7301, '127.0.0.1', () => fs.writeFileSync('node.ready', ''));
