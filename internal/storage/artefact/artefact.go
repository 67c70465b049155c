package artefact

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// The units of an artefact, in bytes: files are compared by pages, and stored in chunks.
const (
	pageSize     = 4 << 10
	defaultChunk = 1 << 20
	maxChunk     = 16 << 20
)

// workers is the number of chunks that are stored or fetched at the same time.
const workers = 4

// SaveWithin is the maximum time of a Save, and Grace how long an object that no manifest names is kept. A Save that refers to
// objects of another artefact has ended when they can be removed.
const (
	SaveWithin = 30 * time.Minute
	Grace      = time.Hour
)

// Ref names an artefact: the SHA-256 of its manifest.
type Ref string

// Valid reports whether a text is a name of an artefact.
func (r Ref) Valid() bool {
	b, err := hex.DecodeString(string(r))
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == string(r)
}

// Config is what a Store needs. Blobs and Key are required.
type Config struct {
	Blobs archive.Blobs
	// Key encrypts what is stored. It has KeyBytes bytes, and all hosts that share artefacts have it.
	Key []byte
	// Kind begins the names of objects, and says what the artefacts are of; empty is "snapshot". Stores of different kinds do not touch what the
	// others have.
	Kind string
	// ChunkBytes is the size of a chunk before it is compressed, a multiple of 4096; 0 is 1 MiB.
	ChunkBytes int
	Now        func() time.Time
	// At, unless it is nil, is called at points of Save and Restore, in tests of crashes.
	At func(point string) error
}

// Store keeps artefacts in blobs. Its methods may be called from several goroutines and processes.
type Store struct {
	cfg    Config
	aead   cipher.AEAD
	prefix string // of the names of all objects

	zip   *zstd.Encoder
	unzip *zstd.Decoder

	// collecting is held by Collect, which has the fields below.
	collecting sync.Mutex
	unnamed    map[string]time.Time // since when an object has been seen without a name
	chunksOf   map[Ref][]string     // what manifests name, which never changes
}

// New creates a store. It reaches no blobs.
func New(cfg Config) (*Store, error) {
	if cfg.Blobs == nil || len(cfg.Key) != KeyBytes {
		return nil, api.Errorf(api.KindInvalid, "artefacts need blobs and a key of %d bytes", KeyBytes)
	}
	if cfg.ChunkBytes == 0 {
		cfg.ChunkBytes = defaultChunk
	}
	if cfg.ChunkBytes%pageSize != 0 || cfg.ChunkBytes < pageSize || cfg.ChunkBytes > maxChunk {
		return nil, api.Errorf(api.KindInvalid, "chunks of %d bytes: use a multiple of %d, and at most %d", cfg.ChunkBytes, pageSize, maxChunk)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{cfg: cfg, unnamed: map[string]time.Time{}, chunksOf: map[Ref][]string{}}
	// Stores with other keys neither read nor collect what this one has.
	secret, err := hkdf.Key(sha256.New, cfg.Key, nil, "hortus artefact content", KeyBytes)
	if err != nil {
		return nil, err
	}
	id, err := hkdf.Key(sha256.New, cfg.Key, nil, "hortus artefact names", 8)
	if err != nil {
		return nil, err
	}
	s.prefix = cmp.Or(cfg.Kind, "snapshot") + "-" + hex.EncodeToString(id) + "-"
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	if s.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	// The fastest level takes as long for memory, and stores 1% more. A single segment has its size in the header, however small it is.
	if s.zip, err = zstd.NewWriter(nil, zstd.WithSingleSegment(true), zstd.WithEncoderConcurrency(workers), zstd.WithEncoderLevel(zstd.SpeedDefault)); err != nil {
		return nil, err
	}
	s.unzip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxMemory(maxManifest))
	return s, err
}

// String says where the artefacts are, without secrets.
func (s *Store) String() string { return s.cfg.Blobs.String() }

const (
	chunkSuffix    = ".chunk"
	manifestSuffix = ".manifest"
)

func (s *Store) chunkBlob(digest string) string { return s.prefix + digest + chunkSuffix }
func (s *Store) manifestBlob(r Ref) string      { return s.prefix + string(r) + manifestSuffix }

func (s *Store) pass(point string) error {
	if s.cfg.At == nil {
		return nil
	}
	return s.cfg.At(point)
}

// seal compresses and encrypts an object, and returns its digest. kind is what the object is: one of another kind is not opened
// in its place.
func (s *Store) seal(plain []byte, kind string) (object []byte, digest string) {
	n := s.aead.NonceSize()
	object = make([]byte, n, n+len(plain)+len(plain)/64+1<<10)
	rand.Read(object)
	packed := s.zip.EncodeAll(plain, nil)
	object = s.aead.Seal(object, object, packed, []byte(kind))
	sum := sha256.Sum256(object)
	return object, hex.EncodeToString(sum[:])
}

// open is the opposite of seal for an object of a known digest, which has at most so many bytes.
func (s *Store) open(object []byte, digest, kind string, limit int) ([]byte, error) {
	sum := sha256.Sum256(object)
	if hex.EncodeToString(sum[:]) != digest {
		return nil, errors.New("its content is not what its name says")
	}
	n := s.aead.NonceSize()
	if len(object) < n {
		return nil, errors.New("it is too short")
	}
	packed, err := s.aead.Open(nil, object[:n], object[n:], []byte(kind))
	if err != nil {
		return nil, errors.New("it was encrypted with another key, or is another object")
	}
	var h zstd.Header
	if err := h.Decode(packed); err != nil || !h.HasFCS || h.FrameContentSize > uint64(limit) {
		return nil, errors.New("it is larger than it may be, or does not say how large it is")
	}
	plain, err := s.unzip.DecodeAll(packed, make([]byte, 0, h.FrameContentSize))
	if err != nil || len(plain) > limit {
		return nil, errors.New("it cannot be decompressed, or is larger than it may be")
	}
	return plain, nil
}

// read reads an object of a known name, which has at most so many bytes.
func (s *Store) read(ctx context.Context, blob string, limit int64) ([]byte, error) {
	f, size, err := s.cfg.Blobs.Get(ctx, blob)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size <= 0 || size > limit {
		return nil, api.Errorf(api.KindInvalid, "%s has %d bytes; at most %d are expected", blob, size, limit)
	}
	object := make([]byte, size)
	if _, err := io.ReadFull(f, object); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = api.Errorf(api.KindUnavailable, "%s ends before its %d bytes", blob, size)
		}
		return nil, err
	}
	return object, nil
}

func (s *Store) put(ctx context.Context, blob string, object []byte) error {
	return s.cfg.Blobs.Put(ctx, blob, bytes.NewReader(object))
}

// Remove removes an artefact. Its objects are removed by Collect; nil if it is not there.
func (s *Store) Remove(ctx context.Context, r Ref) error {
	if !r.Valid() {
		return badRef(r)
	}
	return s.cfg.Blobs.Remove(ctx, s.manifestBlob(r))
}

// Has reports whether there is an artefact.
func (s *Store) Has(ctx context.Context, r Ref) (bool, error) {
	if !r.Valid() {
		return false, badRef(r)
	}
	return s.cfg.Blobs.Has(ctx, s.manifestBlob(r))
}

func badRef(r Ref) error {
	return api.Errorf(api.KindInvalid, "%.100q is not the name of an artefact", string(r))
}
