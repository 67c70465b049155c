package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/minio/minio-go/v7"

	"hortus.dev/api"
)

// Put stores an object, in parts if it is larger than one. The server shows it when it has all
// parts. The parts of an upload that fails are removed, if the server can be reached.
func (b *Bucket) Put(ctx context.Context, name string, r io.Reader) error {
	object, err := b.ready(name)
	if err != nil {
		return err
	}
	select {
	case b.uploads <- struct{}{}:
		defer func() { <-b.uploads }()
	case <-ctx.Done():
		return ctx.Err()
	}
	size := b.cfg.PartSize
	if known, ok := r.(*bytes.Reader); ok {
		size = min(size, known.Len()+1) // one more than it has, to find its end
	}
	part := make([]byte, size)
	n, last, err := fill(r, part)
	if err != nil {
		return err
	}
	if !last {
		return b.putParts(ctx, name, object, part, r)
	}
	_, err = b.client.PutObject(ctx, b.cfg.Location.Bucket, object, bytes.NewReader(part[:n]), int64(n), "", sum(part[:n]), minio.PutObjectOptions{})
	return b.notStored(ctx, name, err)
}

// Create stores an object with the condition that there is none. A server that does not know the condition replaces the object.
func (b *Bucket) Create(ctx context.Context, name string, content []byte) error {
	object, err := b.ready(name)
	if err != nil {
		return err
	}
	var once minio.PutObjectOptions
	once.SetMatchETagExcept("*")
	_, err = b.client.PutObject(ctx, b.cfg.Location.Bucket, object, bytes.NewReader(content), int64(len(content)), "", sum(content), once)
	return b.notStored(ctx, name, err)
}

// notStored is failed for what stores: nothing is missing but the bucket.
func (b *Bucket) notStored(ctx context.Context, name string, err error) error {
	if err = b.failed(ctx, name, err); api.KindOf(err) == api.KindNotFound {
		return api.Errorf(api.KindUnavailable, "object store %s: there is no such bucket", b).WithHint("create the bucket, or change the setting daemon.layer-archive")
	}
	return err
}

// fill reads until p is full or r ends. Unlike io.ReadFull it tells the end of a reader from
// its error io.ErrUnexpectedEOF.
func fill(r io.Reader, p []byte) (n int, last bool, err error) {
	for n < len(p) {
		m, err := r.Read(p[n:])
		n += m
		switch {
		case err == io.EOF:
			return n, true, nil
		case err != nil:
			return n, false, err
		}
	}
	return n, false, nil
}

func sum(p []byte) string {
	s := sha256.Sum256(p)
	return hex.EncodeToString(s[:])
}

// putParts stores an object in parts; part is the first, and the buffer of the others.
func (b *Bucket) putParts(ctx context.Context, name, object string, part []byte, r io.Reader) (err error) {
	bucket := b.cfg.Location.Bucket
	id, err := b.client.NewMultipartUpload(ctx, bucket, object, minio.PutObjectOptions{})
	if err != nil {
		return b.notStored(ctx, name, err)
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
			defer cancel()
			_ = b.client.AbortMultipartUpload(ctx, bucket, object, id) // the error above says more
		}
	}()
	var parts []minio.CompletePart
	for n, last := len(part), false; ; {
		if n > 0 {
			if len(parts) == maxParts {
				return api.Errorf(api.KindUnsupported, "the archive is larger than %d bytes", int64(maxParts)*int64(len(part)))
			}
			p, err := b.client.PutObjectPart(ctx, bucket, object, id, len(parts)+1, bytes.NewReader(part[:n]), int64(n),
				minio.PutObjectPartOptions{Sha256Hex: sum(part[:n]), DisableContentSha256: true}) // one hash of the part, not one of each piece
			if err != nil {
				return b.failed(ctx, name, err)
			}
			parts = append(parts, minio.CompletePart{PartNumber: p.PartNumber, ETag: p.ETag})
		}
		if last {
			break
		}
		if n, last, err = fill(r, part); err != nil {
			return err
		}
	}
	_, err = b.client.CompleteMultipartUpload(ctx, bucket, object, id, parts, minio.PutObjectOptions{})
	return b.notStored(ctx, name, err)
}
