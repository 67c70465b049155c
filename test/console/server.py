# A server inside a sandbox: a page that attacks the console, a WebSocket that answers, and what was seen of each request.
import base64, hashlib, http.server, json, sys

CONSOLE = sys.argv[1]
seen = []
PAGE = """<!doctype html><title>preview</title><h1>preview</h1><iframe id=own src=/seen></iframe><iframe id=other src="%s/"></iframe><script>
document.cookie = "mine=1";
const result = { cookie: document.cookie, storage: Object.keys(localStorage).concat(Object.keys(sessionStorage)), opener: window.opener !== null };
const socket = new Promise((resolve) => {
  const s = new WebSocket("ws://" + location.host + "/socket");
  s.onopen = () => s.send("knock");
  s.onmessage = (m) => resolve(m.data);
  s.onerror = () => resolve("error");
});
const api = fetch("%s/v1/info", { credentials: "include" }).then((r) => "read " + r.status, () => "refused");
Promise.all([socket, api]).then(([s, a]) => { window.result = { ...result, socket: s, api: a }; });
</script>""" % (CONSOLE, CONSOLE)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        seen.append({"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}})
        if self.path == "/socket":
            return self.socket()
        body, kind = (json.dumps(seen), "application/json") if self.path == "/seen" else (PAGE, "text/html")
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        length = self.rfile.read(2)[1] & 127
        mask = self.rfile.read(4)
        text = b"you said " + bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(length)))
        self.wfile.write(bytes([0x81, len(text)]) + text)
        self.close_connection = True

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
