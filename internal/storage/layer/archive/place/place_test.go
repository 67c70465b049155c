package place_test

import (
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/layer/archive/place"
	"hortus.dev/test/archivetest"
)

// TestArchiveReport: hortus doctor says whether the archive can be used, and what to do.
func TestArchiveReport(t *testing.T) {
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
	server := archivetest.Server(t, nil)
	gone := archivetest.Server(t, nil)
	gone.Close()
	for text, fix := range map[string]string{
		t.TempDir():                        "",
		filepath.Join(t.TempDir(), "none"): "create or mount the directory",
		"s3://" + archivetest.Bucket + "?endpoint=" + server.URL: "",
		"s3://another?endpoint=" + server.URL:                    "create the bucket",
		"s3://" + archivetest.Bucket + "?endpoint=" + gone.URL:   "can reach the endpoint",
	} {
		a, err := place.Open(text)
		if err != nil {
			t.Fatal(err)
		}
		r := a.Report(t.Context())
		if r.OK != (fix == "") || r.OK != (r.Reason == "") || !strings.Contains(r.Fix, fix) {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if r := (*archive.Archive)(nil).Report(t.Context()); r != nil {
		t.Errorf("without an archive: %+v", r)
	}
}
