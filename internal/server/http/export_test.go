package http_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
)

// exports plays templates: the name says what becomes of an export.
type exports struct{ ended chan error }

func (e exports) Export(ctx context.Context, name string, w io.Writer) error {
	switch name {
	case "none":
		return api.Errorf(api.KindNotFound, "template none not found")
	case "cut":
		if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			return err
		}
		return errors.New("the disk failed")
	case "endless":
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				e.ended <- err
				return err
			}
		}
	}
	_, err := io.WriteString(w, "archive of "+name)
	return err
}

// TestExportTemplate: a client can tell a complete archive from one that was cut off, and only an
// admin exports.
func TestExportTemplate(t *testing.T) {
	e := exports{make(chan error, 1)}
	c, socket := serve(t, &fakes{exports: e, saves: newSaves()})
	for _, name := range []string{"py", "docker.io/library/python:3.12"} {
		var out bytes.Buffer
		if err := c.Templates.Export(t.Context(), name, &out); err != nil || out.String() != "archive of "+name {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
	resp, _ := send(t, socket, "GET", "/v1/templates/py/export", "")
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "application/x-tar" || resp.Header.Get("Trailer") != "" {
		t.Errorf("%s %s", resp.Status, got)
	}
	var out bytes.Buffer
	if err := c.Templates.Export(t.Context(), "none", &out); api.KindOf(err) != api.KindNotFound || out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	if err := c.Templates.Export(t.Context(), "cut", &out); api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("an archive that is cut off: %v", err)
	}
	if err := c.Templates.Export(t.Context(), "a\nb", &out); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
	if resp, text := send(t, socket, "GET", "/v1/templates/py/export", "", "Test-Account", "alice"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a user: %s %s", resp.Status, text)
	}
	// The export ends with its client.
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Templates.Export(ctx, "endless", writer(func(p []byte) (int, error) { cancel(); return len(p), nil })); api.KindOf(err) != api.KindCanceled {
		t.Errorf("cancelled: %v", err)
	}
	if err := <-e.ended; err == nil {
		t.Error("the export did not end")
	}
	full := errors.New("no space")
	if err := c.Templates.Export(t.Context(), "py", writer(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) {
		t.Errorf("a file that cannot be written: %v", err)
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
