package archivetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"hortus.dev/test/patience"
)

// Bucket is the name of the bucket of a server.
const Bucket = "layers"

// Server starts an S3-compatible server in memory, with an empty bucket, and sets credentials in
// the environment. Each request passes through around, unless it is nil.
func Server(t testing.TB, around func(http.Handler) http.Handler) *httptest.Server {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "name-of-a-test-key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test-key")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	memory := s3mem.New()
	must(t, memory.CreateBucket(Bucket))
	h := gofakes3.New(memory, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	if around != nil {
		h = around(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// Gateway starts a server that others use in production, versitygw, over a directory, with an empty bucket, and sets credentials in the environment. It
// returns the URL. The server is built by the first test that needs it, which takes minutes.
func Gateway(t testing.TB) string {
	t.Helper()
	program := GatewayProgram(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	must(t, l.Close())
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, Bucket), 0o755))
	t.Setenv("AWS_ACCESS_KEY_ID", "name-of-a-test-key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test-key")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	var log bytes.Buffer
	cmd := exec.Command(program, "--port", address, "--access", "name-of-a-test-key", "--secret", "secret-of-a-test-key", "posix", dir)
	cmd.Stdout, cmd.Stderr = &log, &log
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of the S3 server:\n%s", &log)
		}
	})
	url := "http://" + address
	for until := time.Now().Add(patience.Of(time.Minute)); ; {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			return url
		}
		if time.Now().After(until) {
			t.Fatalf("the S3 server does not answer: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// GatewayProgram returns the path of that server's program.
func GatewayProgram(t testing.TB) string {
	t.Helper()
	program, err := gateway()
	must(t, err)
	return program
}

// gateway builds the server, or finds the one that was built before, and returns its path.
var gateway = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	_, here, _, _ := runtime.Caller(0)
	module := filepath.Join(filepath.Dir(here), "gateway")
	sums, err := os.ReadFile(filepath.Join(module, "go.sum")) // it names the version
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "hortus-tests", fmt.Sprintf("versitygw-%.16x", sha256.Sum256(sums)))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	built := fmt.Sprintf("%s.%d", program, os.Getpid())
	cmd := exec.Command("go", "build", "-o", built, "github.com/versity/versitygw/cmd/versitygw")
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the S3 server: %w\n%s", err, out)
	}
	return program, os.Rename(built, program)
})
