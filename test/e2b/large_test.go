package e2b

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"hortus.dev/test/tier"
)

// slack is what the daemon's memory may grow by while much more passes through it.
const slack = 64 << 20

// TestLarge uploads a large file, in T2 of a gigabyte, and as much again, which the disk
// cannot hold, through the daemon: the one is there whole, the other is answered 507, and
// the daemon's memory does not grow with either.
func TestLarge(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	mib := tier.Count(256, 1024)
	size := int64(mib) << 20
	s := serve(t, "container", fmt.Sprintf("HORTUS_DISK=%dM", mib+mib/4), "HORTUS_MEMORY=3G")
	sb := s.sandbox(t)
	ask := func(method, path string, body io.Reader) (code int, size int64, begin []byte) {
		t.Helper()
		req, err := http.NewRequest(method, s.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"E2b-Sandbox-Id": sb.SandboxID, "E2b-Sandbox-Port": "49983", "X-Access-Token": sb.EnvdAccessToken, "Content-Type": "application/octet-stream"} {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		n, cerr := io.Copy(io.Discard, resp.Body)
		if err != nil || cerr != nil {
			t.Fatal(err, cerr)
		}
		return resp.StatusCode, int64(len(b)) + n, b
	}
	before := s.memory(t, "VmRSS")
	for _, tt := range []struct {
		name string
		want int
	}{{"/tmp/large", http.StatusOK}, {"/tmp/too-much", http.StatusInsufficientStorage}} {
		s.forget(t)
		began := time.Now()
		code, _, body := ask(http.MethodPost, "/files?path="+tt.name, io.LimitReader(ones{}, size))
		t.Logf("%d MiB to %s: %d in %s", mib, tt.name, code, time.Since(began).Round(time.Millisecond))
		if code != tt.want {
			t.Errorf("%s: %d %s", tt.name, code, body)
		}
		if most := s.memory(t, "VmHWM"); most > before+slack {
			t.Errorf("the daemon had %d MiB, and then %d", before>>20, most>>20)
		}
	}
	s.forget(t)
	if _, n, body := ask(http.MethodGet, "/files?path=/tmp/large", nil); n != size || len(bytes.Trim(body, "\x01")) != 0 {
		t.Errorf("%d bytes came back", n)
	}
	if most := s.memory(t, "VmHWM"); most > before+slack {
		t.Errorf("the daemon had %d MiB, and %d when all came back", before>>20, most>>20)
	}
}

// ones never ends. Zeros would become holes, which need no disk.
type ones struct{}

// Read implements io.Reader.
func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 1
	}
	return len(p), nil
}
