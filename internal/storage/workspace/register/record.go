package register

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
	"hortus.dev/internal/storage/layer"
)

const (
	// maxRecord bounds a record while it is read, in bytes.
	maxRecord = 16 << 10
	// maxRecords is the maximum number of records of one workspace that are listed.
	maxRecords = 10_000
	// maxNumber is the maximum number of a version or lease.
	maxNumber = 1_000_000_000
)

// Entry is a workspace that hosts share, under its name.
type Entry struct {
	Workspace api.WorkspaceID `json:"workspace"`
	Account   string          `json:"account,omitempty"`
	Name      string          `json:"name"`
	// QuotaBytes is the quota that hosts give their copies.
	QuotaBytes int64     `json:"quotaBytes,omitempty"`
	Host       string    `json:"host"`
	CreatedAt  time.Time `json:"createdAt"`
}

func (e *Entry) check() error {
	if !e.Workspace.Valid() || api.CheckWorkspaceName(e.Name) != nil || e.QuotaBytes < 0 || !hostForm.MatchString(e.Host) {
		return errMalformed
	}
	return nil
}

// Version is the files of a workspace at one time.
type Version struct {
	Number int `json:"number"`
	// Lease is the number of the lease under which it was stored.
	Lease int `json:"lease"`
	// Layers are its files, the lowest first.
	Layers []string `json:"layers"`
	// Bytes is the size of what was written since the version before.
	Bytes    int64     `json:"bytes"`
	Host     string    `json:"host"`
	Copy     string    `json:"copy"`
	StoredAt time.Time `json:"storedAt"`
}

func (v *Version) check() error {
	if !numbered(v.Number) || !numbered(v.Lease) || len(v.Layers) == 0 || len(v.Layers) > MaxLayers || v.Bytes < 0 ||
		!hostForm.MatchString(v.Host) || !copyForm.MatchString(v.Copy) {
		return errMalformed
	}
	for _, d := range v.Layers {
		if !layer.Digest(d).Valid() || !strings.HasPrefix(d, "sha256-") {
			return fmt.Errorf("layer %.100q is malformed", d)
		}
	}
	return nil
}

// MaxLayers is the maximum number of layers of a version.
const MaxLayers = 16

// lease is the record of a Lease.
type lease struct {
	Number int `json:"number"`
	// Copy is the copy of the workspace, on one host, that has the lease.
	Copy string `json:"copy"`
	Host string `json:"host"`
	// Beats counts the renewals: each changes the record.
	Beats     int64     `json:"beats"`
	RenewedAt time.Time `json:"renewedAt"`
	Released  bool      `json:"released,omitempty"`
}

func (l *lease) check() error {
	if !numbered(l.Number) || l.Beats < 0 || !hostForm.MatchString(l.Host) || !copyForm.MatchString(l.Copy) {
		return errMalformed
	}
	return nil
}

func numbered(n int) bool { return n > 0 && n <= maxNumber }

var (
	errMalformed = errors.New("it is malformed")
	hostForm     = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	copyForm     = lazyregexp.New(`^[A-Z2-7]{26}$`) // of rand.Text
)

// checker is a record that was read.
type checker interface{ check() error }

// parse reads a record.
func parse(b []byte, into checker) error {
	if len(b) > maxRecord {
		return fmt.Errorf("longer than %d bytes", maxRecord)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(into); err != nil {
		return err
	}
	return into.check()
}

// Names of blobs.

const namesPrefix = "workspace-name-"

func nameBlob(account, name string) string {
	sum := sha256.Sum256([]byte(account + "\x00" + name))
	return namesPrefix + hex.EncodeToString(sum[:]) + ".json"
}

func prefixOf(id api.WorkspaceID) string { return "workspace-" + string(id) + "-" }
func versionBlob(id api.WorkspaceID, n int) string {
	return prefixOf(id) + "version-" + strconv.Itoa(n) + ".json"
}
func leaseBlob(id api.WorkspaceID, n int) string {
	return prefixOf(id) + "lease-" + strconv.Itoa(n) + ".json"
}

// numbers are the records of a workspace that are there, in no order.
type numbers struct{ versions, leases []int }

// list lists the records of a workspace.
func (r *Register) list(ctx context.Context, id api.WorkspaceID) (out numbers, err error) {
	if !id.Valid() {
		return out, api.Errorf(api.KindInvalid, "workspace id %q is malformed", string(id))
	}
	prefix := prefixOf(id)
	names, err := r.cfg.Blobs.List(ctx, prefix, maxRecords)
	if err != nil {
		return out, err
	}
	for _, name := range names {
		rest := strings.TrimSuffix(strings.TrimPrefix(name, prefix), ".json")
		if n, ok := number(rest, "version-"); ok {
			out.versions = append(out.versions, n)
		}
		if n, ok := number(rest, "lease-"); ok {
			out.leases = append(out.leases, n)
		}
	}
	return out, nil
}

// number reads the number of a record, in its only form.
func number(text, kind string) (int, bool) {
	digits, ok := strings.CutPrefix(text, kind)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && numbered(n) && strconv.Itoa(n) == digits
}

// read reads the blob of a record.
func (r *Register) read(ctx context.Context, blob string) ([]byte, error) {
	f, _, err := r.cfg.Blobs.Get(ctx, blob)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecord+1))
}

// damaged is the error for a record that cannot be read.
func (r *Register) damaged(blob, instead string, err error) error {
	return api.Errorf(api.KindInvalid, "the record %s in %s is damaged: %w", blob, r.cfg.Blobs, err).
		WithHint("restore it from a backup, or remove it: %s", instead)
}
