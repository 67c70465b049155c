package archivetest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
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
