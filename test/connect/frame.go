package connect

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"testing"
)

// maxFrame bounds what Read takes for a frame, in bytes.
const maxFrame = 1 << 20

// Frame is a frame that holds v as JSON.
func Frame(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// Read reads one frame and gives what it holds.
func Read(t testing.TB, r io.Reader) []byte {
	t.Helper()
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		t.Fatal(err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		t.Fatalf("a frame of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		t.Fatal(err)
	}
	return body
}

// StartHead is the head of a request to E2B's wire that starts a command in a sandbox,
// but for the length of its body and the empty line.
func StartHead(host, sandbox, token string) string {
	return fmt.Sprintf("POST /process.Process/Start HTTP/1.1\r\nHost: %s\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\n"+
		"Content-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n", host, sandbox, token)
}
