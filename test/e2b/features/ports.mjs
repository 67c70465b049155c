import http from 'node:http'

export const name = 'ports by host and by header, WebSockets, traffic tokens'

const server = `
import base64, hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class H(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade"):
            key = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
            self.send_response(101)
            for k, v in {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": key}.items(): self.send_header(k, v)
            self.end_headers()
            self.wfile.flush()
            self.wfile.write(self.rfile.read(3).upper())
            self.close_connection = True
            return
        secret = [k for k in self.headers if k.lower() in ("x-access-token", "x-api-key", "e2b-traffic-access-token")]
        body = (self.command + " " + self.path + " " + self.headers["Host"] + " " + ",".join(secret)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
ThreadingHTTPServer(("127.0.0.1", 3000), H).serve_forever()
`

/** ask sends one request to Hortus, with a host of its own. */
function ask(path, headers) {
  const u = new URL(process.env.E2B_SANDBOX_URL)
  return new Promise((ok, bad) => {
    const req = http.request({ host: u.hostname, port: u.port, path, headers, agent: false }, (res) => {
      let body = ''
      res.on('data', (d) => { body += d })
      res.on('end', () => ok({ status: res.statusCode, body, headers: res.headers }))
      res.on('error', bad)
    })
    req.on('upgrade', (res, socket) => {
      let body = ''
      socket.on('data', (d) => { body += d })
      socket.on('end', () => ok({ status: res.statusCode, body }))
      socket.on('error', bad)
      socket.write('abc')
    })
    req.on('error', bad)
    req.end()
  })
}

export async function run(t) {
  const box = await t.create()
  const host = box.getHost(3000)
  t.assert.match(host, new RegExp(`^3000-${box.sandboxId}\\.`))
  const closed = await ask('/', { host })
  t.assert.equal(closed.status, 502)
  t.assert.deepEqual(JSON.parse(closed.body), { sandboxId: box.sandboxId, message: 'The sandbox is running but port is not open', port: 3000, code: 502 })

  await box.files.write('/tmp/serve.py', server)
  await box.commands.run('python3 /tmp/serve.py', { background: true, timeoutMs: 0 })
  await t.until('the port is open', async () => (await ask('/', { host })).status === 200)
  let r = await ask('/a?b=c', { host, 'X-Access-Token': 'secret', 'X-API-KEY': 'secret' })
  t.assert.equal(r.body, `GET /a?b=c ${host} `)
  r = await ask('/h', { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '3000', host: 'localhost' })
  t.assert.equal(r.body, 'GET /h localhost ')
  r = await ask('/ws', { host, Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version': '13' })
  t.assert.deepEqual([r.status, r.body], [101, 'ABC'])

  await box.kill()
  r = await ask('/', { host })
  t.assert.deepEqual(JSON.parse(r.body), { sandboxId: box.sandboxId, message: 'The sandbox was not found', code: 502 })

  const own = await t.create({ network: { allowPublicTraffic: false } })
  t.assert.ok(own.trafficAccessToken)
  const at = own.getHost(3000)
  t.assert.equal((await ask('/', { host: at })).status, 403)
  t.assert.equal((await ask('/', { host: at, 'e2b-traffic-access-token': 'wrong' })).status, 403)
  t.assert.equal((await ask('/', { host: at, 'e2b-traffic-access-token': own.trafficAccessToken })).status, 502)
}
