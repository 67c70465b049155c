package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"time"

	"hortus.dev/api"
)

// removeWithin is the maximum time to remove an archive that no record names.
const removeWithin = 30 * time.Second

// Replace stores the archive of a tree in the place of one that cannot be restored, or where there
// is none. It restores what is there into scratch, an empty directory, of which the caller removes
// what is left: an archive that can be restored stays.
//
// The new archive is stored under a name of its own and read again before the record names it, so
// anyone who restores meanwhile, or after a crash, finds the old one or the new one. If several
// hosts replace an archive, each stores a whole one, and the last record counts.
//
// Errors: as for Save, KindUnavailable if the new archive is not what was stored, and KindInternal
// if it is in its place and the damaged one could not be removed.
func (a Archive) Replace(ctx context.Context, name, root, scratch string) error {
	if err := checkName(name); err != nil {
		return err
	}
	old, err := a.names(ctx, name)
	if err != nil {
		return err
	}
	switch err := a.Restore(ctx, name, scratch); api.KindOf(err) {
	case "":
		return nil // what failed has passed, or another host has replaced it
	case api.KindInvalid, api.KindNotFound:
	default:
		return err
	}
	r, err := a.stream(ctx, newBlob(name), root)
	if err == nil {
		err = a.compare(ctx, r)
	}
	if err != nil {
		return about(name, errors.Join(err, a.discard(ctx, r.Blob)))
	}
	now, err := a.names(ctx, name)
	if err != nil || now != old { // another host was faster
		return about(name, errors.Join(err, a.discard(ctx, r.Blob)))
	}
	b, err := json.Marshal(r)
	if err == nil {
		err = a.Blobs.Put(ctx, recordOf(name), bytes.NewReader(append(b, '\n')))
	}
	if err != nil {
		// The record may have been stored all the same: its archive stays.
		return about(name, err)
	}
	if old == "" {
		return nil
	}
	return about(name, a.discard(ctx, old))
}

// names returns the archive that the record of a tree names; "" if there is no record that can
// be read.
func (a Archive) names(ctx context.Context, name string) (blob string, err error) {
	r, err := a.read(ctx, name)
	switch api.KindOf(err) {
	case "":
		return r.Blob, nil
	case api.KindInvalid, api.KindNotFound:
		return "", nil
	}
	return "", err
}

// discard removes an archive that no record names.
func (a Archive) discard(ctx context.Context, blob string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
	defer cancel()
	if err := a.Blobs.Remove(ctx, blob); err != nil {
		// Its kind is not that of err: the archive can be read and written.
		return api.Errorf(api.KindInternal, "%s is left, which no record names: %w", blob, err).WithHint("remove it from the archive")
	}
	return nil
}

// compare reads an archive that was stored and compares it with its record.
func (a Archive) compare(ctx context.Context, r record) error {
	f, size, err := a.Blobs.Get(ctx, r.Blob)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(f, r.Bytes+1))
	if err == nil && (size != r.Bytes || n != r.Bytes || hex.EncodeToString(sum.Sum(nil)) != r.SHA256) {
		err = api.Errorf(api.KindUnavailable, "what was stored as %s is not what is read", r.Blob).
			WithHint("check the disk or the server of the archive (daemon.layer-archive)")
	}
	return err
}
