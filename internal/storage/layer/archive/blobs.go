package archive

import (
	"context"
	"io"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// Blobs stores bytes under names: [Dir] in a directory, package s3 in an object store. Its
// methods may be called from several goroutines and processes. What it returns is untrusted.
type Blobs interface {
	// Put stores what r has, at least one byte, under a name. Nobody sees a part of it: after an error the name
	// has what it had before. It replaces a blob.
	Put(ctx context.Context, name string, r io.Reader) error
	// Create stores a short blob unless there is one of that name: KindExists. Of several callers at the same time, on any
	// hosts, one succeeds. After another error the blob may be there.
	Create(ctx context.Context, name string, content []byte) error
	// Get opens a blob and returns its size: KindNotFound if there is none. The context ends
	// reading too.
	Get(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// Has reports whether there is a blob.
	Has(ctx context.Context, name string) (bool, error)
	// Remove removes a blob; nil if there is none.
	Remove(ctx context.Context, name string) error
	// List returns at most limit names that begin with prefix, in any order.
	List(ctx context.Context, prefix string, limit int) ([]string, error)
	// String says where the blobs are, without secrets.
	String() string
}

var blobForm = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{0,199}$`)

// CheckBlob reports whether a text is the name of a blob: lower case letters, digits, "-" and
// ".", and no path.
func CheckBlob(name string) error {
	if !blobForm.MatchString(name) {
		return api.Errorf(api.KindInvalid, "%.100q is not the name of a blob", name)
	}
	return nil
}

// Exists is the error of Create for a blob that is there.
func Exists(name string) error {
	return api.Errorf(api.KindExists, "there is a %s in the archive of layers already", name)
}

// NotFound is the error for a blob that is not there.
func NotFound(name string) error {
	return api.Errorf(api.KindNotFound, "there is no %s in the archive of layers", name)
}
