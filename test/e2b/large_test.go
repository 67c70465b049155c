package e2b

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"testing"
	"time"
)

// LargeVariable has the test of large uploads run, which writes two gigabytes.
const LargeVariable = "HORTUS_TEST_LARGE"

// slack is what the daemon's memory may grow by while gigabytes pass through it.
const slack = 64 << 20

// TestLarge uploads a gigabyte, and as much again for which there is no room, through
// the daemon: the one is there whole, the other is answered 507, and the daemon's memory
// does not grow with either.
func TestLarge(t *testing.T) {
	if os.Getenv(LargeVariable) == "" {
		t.Skipf("it writes two gigabytes; set %s=1", LargeVariable)
	}
	s := serve(t, "container", "HORTUS_DISK=1280M", "HORTUS_MEMORY=3G")
	box := s.sandbox(t)
	ask := func(method, path string, body io.Reader) (code int, size int64, begin []byte) {
		t.Helper()
		req, err := http.NewRequest(method, s.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"E2b-Sandbox-Id": box.SandboxID, "E2b-Sandbox-Port": "49983", "X-Access-Token": box.EnvdAccessToken, "Content-Type": "application/octet-stream"} {
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
		code, _, body := ask(http.MethodPost, "/files?path="+tt.name, io.LimitReader(zeros{}, 1<<30))
		t.Logf("1 GiB to %s: %d in %s", tt.name, code, time.Since(began).Round(time.Millisecond))
		if code != tt.want {
			t.Errorf("%s: %d %s", tt.name, code, body)
		}
		if most := s.memory(t, "VmHWM"); most > before+slack {
			t.Errorf("the daemon had %d MiB, and then %d", before>>20, most>>20)
		}
	}
	s.forget(t)
	if _, n, body := ask(http.MethodGet, "/files?path=/tmp/large", nil); n != 1<<30 || len(bytes.Trim(body, "\x00")) != 0 {
		t.Errorf("%d bytes came back", n)
	}
	if most := s.memory(t, "VmHWM"); most > before+slack {
		t.Errorf("the daemon had %d MiB, and %d when all came back", before>>20, most>>20)
	}
}

// zeros never ends.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
