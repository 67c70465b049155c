package export

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func layerOf(text string) Layer {
	return func(_ context.Context, w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

// TestWrite: an archive has each file once, though an image may have a layer twice.
func TestWrite(t *testing.T) {
	var out bytes.Buffer
	img := Image{Name: "app:latest", Architecture: "amd64", Layers: []Layer{layerOf("one"), layerOf("two"), layerOf("one"), layerOf("")}}
	if err := Write(t.Context(), &out, img); err != nil {
		t.Fatal(err)
	}
	var names []string
	for tr := tar.NewReader(&out); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(names, h.Name) {
			t.Errorf("%s is in it twice", h.Name)
		}
		names = append(names, h.Name)
	}
	if len(names) != 3+2+3 || !slices.Equal(names[:3], []string{"oci-layout", "index.json", "manifest.json"}) {
		t.Errorf("%q", names)
	}
}

// TestWriteFails: a layer that fails in the first pass leaves nothing written, and one that is not
// the same in the second is an error.
func TestWriteFails(t *testing.T) {
	lost := errors.New("lost")
	changing := func(texts ...string) Layer {
		return func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, texts[0])
			texts = texts[1:]
			return err
		}
	}
	for name, tc := range map[string]struct {
		layer Layer
		empty bool
	}{
		"fails":           {func(context.Context, io.Writer) error { return lost }, true},
		"another content": {changing("one", "two"), false},
		"longer":          {changing("one", "longer"), false},
		"shorter":         {changing("one", "o"), false},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := Write(t.Context(), &out, Image{Name: "a:b", Layers: []Layer{layerOf("good"), tc.layer}})
			if err == nil || (out.Len() == 0) != tc.empty {
				t.Errorf("%v, %d bytes", err, out.Len())
			}
		})
	}
	// It ends with its context, in the middle of a layer.
	ctx, cancel := context.WithCancel(t.Context())
	endless := func(_ context.Context, w io.Writer) error {
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 100)); err != nil {
				return err
			}
			cancel()
		}
	}
	if err := Write(ctx, io.Discard, Image{Layers: []Layer{endless}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
