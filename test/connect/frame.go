package connect

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"testing"
)

// maxFrame is the maximum size of a frame that Read accepts, in bytes.
const maxFrame = 1 << 20

// Frame returns a frame that contains v as JSON.
func Frame(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// Read reads one frame and returns its content.
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

// StartHead returns the head of a request, in E2B's protocol, that starts a command in a
// sandbox. The Content-Length header and the empty line are missing.
func StartHead(host, sandbox, token string) string {
	return fmt.Sprintf("POST /process.Process/Start HTTP/1.1\r\nHost: %s\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\n"+
		"Content-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n", host, sandbox, token)
}
