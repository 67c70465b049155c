package export

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
)

// The media types of the documents.
const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Image is an image to write.
type Image struct {
	// Name has a tag, such as "py:latest". Tools that load the archive give it to the image.
	Name         string
	Architecture string
	Created      time.Time
	Config
	// Layers are the lowest first.
	Layers []Layer
}

// Config is what an image says about its containers. Env has the form NAME=VALUE.
type Config struct {
	Env          []string
	Entrypoint   []string `json:",omitempty"`
	Cmd          []string
	User         string
	WorkingDir   string
	Labels       map[string]string   `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Volumes      map[string]struct{} `json:",omitempty"`
	StopSignal   string              `json:",omitempty"`
}

// Layer writes the tar archive of a layer. It is called twice and must write the same.
type Layer func(ctx context.Context, w io.Writer) error

// blob is a file of the archive that is named by its digest.
type blob struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`

	write Layer
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

func (b blob) file() string { return "blobs/sha256/" + strings.TrimPrefix(b.Digest, "sha256:") }

// Write writes an image. The errors are those of its layers, of w and of ctx.
func Write(ctx context.Context, w io.Writer, img Image) error {
	layers := make([]blob, len(img.Layers))
	for i, write := range img.Layers {
		m := &meter{ctx: ctx, w: io.Discard, hash: sha256.New()}
		if err := write(ctx, m); err != nil {
			return err
		}
		layers[i] = blob{MediaType: typeLayer, Digest: m.digest(), Size: m.n, write: write}
	}
	files, blobs, err := img.documents(layers)
	if err != nil {
		return err
	}
	out := tar.NewWriter(&meter{ctx: ctx, w: w})
	for _, f := range files {
		if err := header(out, f.name, int64(len(f.text))); err != nil {
			return err
		}
		if _, err := out.Write(f.text); err != nil {
			return err
		}
	}
	written := map[string]bool{} // an image may have a layer twice
	for _, b := range append(blobs, layers...) {
		if written[b.Digest] {
			continue
		}
		written[b.Digest] = true
		if err := b.copy(ctx, out); err != nil {
			return err
		}
	}
	return out.Close()
}

type document struct {
	name string
	text []byte
}

// documents returns the files of an archive that are not blobs, and the blobs that are not
// layers.
func (img Image) documents(layers []blob) (files []document, blobs []blob, err error) {
	type history struct {
		Created time.Time `json:"created"`
		By      string    `json:"created_by"`
	}
	diffs, paths, steps := []string{}, []string{}, []history{}
	for _, l := range layers {
		diffs, paths = append(diffs, l.Digest), append(paths, l.file())
		steps = append(steps, history{img.Created.UTC(), "hortus template export"})
	}
	on := platform{img.Architecture, "linux"}
	config, err := documentBlob(typeConfig, map[string]any{
		"created": img.Created.UTC(), "architecture": on.Architecture, "os": on.OS,
		"config":  img.Config,
		"rootfs":  map[string]any{"type": "layers", "diff_ids": diffs},
		"history": steps,
	})
	if err != nil {
		return nil, nil, err
	}
	manifest, err := documentBlob(typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": layers,
	})
	if err != nil {
		return nil, nil, err
	}
	blobs = []blob{config, manifest}
	_, tag, _ := strings.Cut(img.Name, ":")
	manifest.Platform = &on
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": "docker.io/library/" + img.Name}
	for _, d := range []struct {
		name    string
		content any
	}{
		{"oci-layout", map[string]any{"imageLayoutVersion": "1.0.0"}},
		{"index.json", map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []blob{manifest}}},
		{"manifest.json", []any{map[string]any{"Config": config.file(), "RepoTags": []string{img.Name}, "Layers": paths}}},
	} {
		text, err := json.Marshal(d.content)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, document{d.name, text})
	}
	return files, blobs, nil
}

func documentBlob(mediaType string, content any) (blob, error) {
	text, err := json.Marshal(content)
	sum := sha256.Sum256(text)
	return blob{
		MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(text)),
		write: func(_ context.Context, w io.Writer) error { _, err := w.Write(text); return err },
	}, err
}

// copy writes a blob into the archive, and verifies that it is what its digest says.
func (b blob) copy(ctx context.Context, out *tar.Writer) error {
	if err := header(out, b.file(), b.Size); err != nil {
		return err
	}
	m := &meter{ctx: ctx, w: out, hash: sha256.New()}
	if err := b.write(ctx, m); err != nil {
		return err
	}
	if m.digest() != b.Digest {
		return fmt.Errorf("layer %s changed while it was exported", b.Digest)
	}
	return nil
}

func header(out *tar.Writer, name string, size int64) error {
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)})
}

// meter counts and hashes what is written, and ends with its context.
type meter struct {
	ctx  context.Context
	w    io.Writer
	hash hash.Hash // nil for none
	n    int64
}

func (m *meter) Write(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.w.Write(p)
	m.n += int64(n)
	if m.hash != nil {
		m.hash.Write(p[:n])
	}
	return n, err
}

func (m *meter) digest() string { return "sha256:" + hex.EncodeToString(m.hash.Sum(nil)) }
