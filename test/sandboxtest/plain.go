package sandboxtest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"hortus.dev/test/patience"
)

// writePlain writes "x" to a file as a client of E2B's does, and gives the status.
func (b *Sandbox) writePlain(t *testing.T, path string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(20*time.Second))
	defer cancel()
	c, err := b.Machine.Link().Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintf(c, "POST /files?path=%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx", path)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
