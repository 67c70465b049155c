package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive/archivetest"
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
		a, err := openArchive(text)
		if err != nil {
			t.Fatal(err)
		}
		r := (&System{archive: a}).archiveReport(t.Context())
		if r.OK != (fix == "") || r.OK != (r.Reason == "") || !strings.Contains(r.Fix, fix) {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if r := (&System{}).archiveReport(t.Context()); r != nil {
		t.Errorf("without an archive: %+v", r)
	}
}

// TestArchiveSettings: an archive that makes no sense keeps the daemon from starting, and says why.
func TestArchiveSettings(t *testing.T) {
	for text, want := range map[string]string{
		"layers": "absolute path", "gs://x": "s3://", "s3://builds": "region", "s3://key:secret@builds?region=r": "password",
	} {
		t.Setenv("HOME", t.TempDir())
		t.Setenv("HORTUS_LAYER_ARCHIVE", text)
		_, err := loadSettings("", nil)
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "daemon.layer-archive") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
