package daemon

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

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
