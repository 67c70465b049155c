package embedded

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Packed is a compressed executable of gVisor. In bytes it is a line of JSON, with its fields, and a zstd
// frame.
type Packed struct {
	// GVisor is the version of gVisor; see [GVisor].
	GVisor string `json:"gvisor"`
	// SHA256 is the digest of the executable, in hexadecimal, and Size its length in bytes.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`

	frame []byte
}

// Pack compresses an executable of gVisor.
func Pack(executable []byte) ([]byte, error) {
	sum := sha256.Sum256(executable)
	p := Packed{GVisor: GVisor(bytes.NewReader(executable)), SHA256: hex.EncodeToString(sum[:]), Size: int64(len(executable))}
	if p.GVisor == "" {
		return nil, errors.New("the executable has no gVisor in it")
	}
	head, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	// One goroutine, so that two builds give the same bytes.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	return enc.EncodeAll(executable, append(head, '\n')), nil
}

// Parse reads what Pack returned.
func Parse(packed []byte) (*Packed, error) {
	head, frame, _ := bytes.Cut(packed, []byte("\n"))
	p := &Packed{frame: frame}
	return p, json.Unmarshal(head, p)
}

// Open returns a reader of the executable. It takes tens of milliseconds to read.
func (p *Packed) Open() (io.ReadCloser, error) {
	d, err := zstd.NewReader(bytes.NewReader(p.frame))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// GVisor returns the version of the gVisor that is linked into a Go executable; empty
// when there is none, or the file is something else.
func GVisor(executable io.ReaderAt) string {
	info, err := buildinfo.Read(executable)
	if err != nil {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path != "gvisor.dev/gvisor" {
			continue
		}
		if m.Replace == nil {
			return m.Version
		}
		// cmd/hortus-runsc/patch calls the changed copy by the digest of its changes.
		if digest, ok := strings.CutPrefix(path.Base(m.Replace.Path), "gvisor-"); ok {
			return m.Version + "+" + digest
		}
		return m.Version + " (replaced)"
	}
	return ""
}
