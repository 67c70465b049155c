package source

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

const zeros = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// saved makes an archive of files.
func saved(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openBytes(t testing.TB, b []byte) (*Image, error) {
	p := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return openPath(p, Config{Architecture: "amd64"})
}

func TestMalformed(t *testing.T) {
	manifest := `[{"Config":"c","Layers":["l"]}]`
	config := `{"os":"linux","architecture":"amd64","rootfs":{"diff_ids":["` + zeros + `"]}}`
	for name, tc := range map[string]struct {
		files []string
		want  api.Kind
		text  string
	}{
		"whole":            {[]string{"manifest.json", manifest, "c", config, "l", "x"}, "", ""},
		"two images":       {[]string{"manifest.json", `[{},{}]`}, api.KindInvalid, "2 images"},
		"no configuration": {[]string{"manifest.json", manifest, "l", "x"}, api.KindNotFound, `"c"`},
		"no layer":         {[]string{"manifest.json", manifest, "c", config}, api.KindNotFound, `"l"`},
		"layer outside":    {[]string{"manifest.json", `[{"Config":"c","Layers":["../../../etc/passwd"]}]`, "c", config}, api.KindNotFound, "passwd"},
		"too few layers":   {[]string{"manifest.json", `[{"Config":"c","Layers":[]}]`, "c", config}, api.KindInvalid, "0 layers"},
		"malformed digest": {[]string{"manifest.json", manifest, "c", `{"rootfs":{"diff_ids":["sha256:../x"]}}`, "l", "x"}, api.KindInvalid, "malformed"},
		"for Windows":      {[]string{"manifest.json", manifest, "c", `{"os":"windows"}`, "l", "x"}, api.KindUnsupported, "windows"},
		"a file twice":     {[]string{"manifest.json", manifest, "l", "x", "l", "y"}, api.KindInvalid, "twice"},
		"large manifest":   {[]string{"manifest.json", strings.Repeat(" ", maxDocument+1)}, api.KindInvalid, "maximum"},
		"nested indexes":   {[]string{"index.json", `{"manifests":[{"digest":"` + zeros + `"}]}`}, api.KindNotFound, "blobs/sha256"},
		"no JSON":          {[]string{"manifest.json", "x"}, api.KindInvalid, "manifest.json"},
	} {
		t.Run(name, func(t *testing.T) {
			img, err := openBytes(t, saved(t, tc.files...))
			if err == nil {
				img.Close()
			}
			if api.KindOf(err) != tc.want || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%v (%s), want %s and %q", err, api.KindOf(err), tc.want, tc.text)
			}
		})
	}
}

// TestLinks reads a layout whose blob is a link to a file outside.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(`{"manifests":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "index.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := openPath(dir, Config{Architecture: "amd64"}); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "link") {
		t.Errorf("a link in a layout: %v", err)
	}
	// Control: without the link it is read.
	if err := os.Rename(secret, filepath.Join(dir, "index.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := openPath(dir, Config{Architecture: "amd64"}); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("a layout without images: %v", err)
	}
}

// FuzzArchive opens any bytes: the result is an image whose layers lie in the file, or an error.
func FuzzArchive(f *testing.F) {
	f.Add(saved(f, "manifest.json", `[{"Config":"c","Layers":["l"]}]`, "c", `{"rootfs":{"diff_ids":["`+zeros+`"]}}`, "l", "x"))
	f.Add(saved(f, "index.json", `{"manifests":[{"digest":"`+zeros+`"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := openBytes(t, b)
		if err != nil {
			return
		}
		defer img.Close()
		for _, l := range img.Layers {
			if l.Size < 0 || l.Size > int64(len(b)) || !digestForm.MatchString(l.DiffID) {
				t.Errorf("layer %+v of an archive of %d bytes", l, len(b))
			}
		}
	})
}
