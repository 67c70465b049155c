package trust

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// A keystore in Java's format JKS: a magic number, a version, entries, and a digest with a
// password. All numbers are big-endian.
const (
	jksMagic   = 0xfeedfeed
	jksVersion = 2
	// jksPassword is the password of every trust store of the system. It protects nothing.
	jksPassword = "changeit"
	// maxEntries is the maximum number of entries of a keystore that is changed.
	maxEntries = 10_000
	// aliasPrefix begins the names of our entries.
	aliasPrefix = "hortus-sandbox-"

	jksKey         = 1 // tag of an entry with a private key
	jksCertificate = 2 // tag of an entry with a certificate
)

var (
	errNotJKS      = errors.New("not a keystore in the format JKS")
	errKeystore    = errors.New("the keystore is damaged")
	errJKSPassword = errors.New("the keystore is damaged, or its password is not " + jksPassword)
)

// entry is an entry of a keystore.
type entry struct {
	raw   []byte
	alias string
	der   []byte // of the certificate; nil for a private key
}

// mergeKeystore replaces our entries of a keystore. It returns the keystore itself if they are
// the same already.
func mergeKeystore(old []byte, ders [][]byte, now time.Time) ([]byte, error) {
	entries, err := parseKeystore(old)
	if err != nil {
		return nil, err
	}
	var ours, others []entry
	for _, e := range entries {
		if strings.HasPrefix(e.alias, aliasPrefix) {
			ours = append(ours, e)
		} else {
			others = append(others, e)
		}
	}
	same := len(ours) == len(ders)
	for i := 0; same && i < len(ders); i++ {
		same = bytes.Equal(ours[i].der, ders[i])
	}
	if same {
		return old, nil
	}
	return newKeystore(append(others, newEntries(aliasPrefix, ders, now)...)), nil
}

// newEntries makes entries with the names prefix-1, prefix-2 and so on.
func newEntries(prefix string, ders [][]byte, now time.Time) []entry {
	out := make([]entry, len(ders))
	for i, der := range ders {
		alias := prefix + strconv.Itoa(i+1)
		b := binary.BigEndian.AppendUint32(nil, jksCertificate)
		b = appendJKSText(b, alias)
		b = binary.BigEndian.AppendUint64(b, uint64(now.UnixMilli()))
		b = appendJKSText(b, "X.509")
		b = binary.BigEndian.AppendUint32(b, uint32(len(der)))
		out[i] = entry{raw: append(b, der...), alias: alias, der: der}
	}
	return out
}

func appendJKSText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func newKeystore(entries []entry) []byte {
	size := 12 + sha1.Size
	for _, e := range entries {
		size += len(e.raw)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, size), jksMagic)
	b = binary.BigEndian.AppendUint32(b, jksVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		b = append(b, e.raw...)
	}
	return append(b, jksDigest(b)...)
}

// jksDigest is the digest of a keystore's content.
func jksDigest(content []byte) []byte {
	h := sha1.New()
	for _, c := range utf16.Encode([]rune(jksPassword)) {
		h.Write([]byte{byte(c >> 8), byte(c)})
	}
	h.Write([]byte("Mighty Aphrodite"))
	h.Write(content)
	return h.Sum(nil)
}

func parseKeystore(data []byte) ([]entry, error) {
	if len(data) < 4 || binary.BigEndian.Uint32(data) != jksMagic {
		return nil, errNotJKS
	}
	if len(data) < 12+sha1.Size {
		return nil, errKeystore
	}
	content := data[:len(data)-sha1.Size]
	if !bytes.Equal(jksDigest(content), data[len(content):]) {
		return nil, errJKSPassword
	}
	r := &jksReader{b: content[4:]}
	// Java has not written another version since 1998.
	version, count := r.number(), r.number()
	if version != jksVersion || count > maxEntries {
		return nil, errKeystore
	}
	entries := make([]entry, 0, min(count, 512))
	for range count {
		start := len(content) - len(r.b)
		tag := r.number()
		e := entry{alias: string(r.text())}
		r.take(8) // the date
		switch tag {
		case jksCertificate:
			e.der = r.certificate()
		case jksKey:
			r.take(r.number())
			for n := r.number(); n > 0 && !r.failed; n-- {
				r.certificate()
			}
		default:
			r.failed = true
		}
		if r.failed {
			return nil, errKeystore
		}
		e.raw = content[start : len(content)-len(r.b)]
		entries = append(entries, e)
	}
	if len(r.b) > 0 {
		return nil, errKeystore
	}
	return entries, nil
}

// jksReader reads a keystore. After an error it returns nothing.
type jksReader struct {
	b      []byte
	failed bool
}

func (r *jksReader) take(n uint32) []byte {
	if r.failed || uint64(n) > uint64(len(r.b)) {
		r.failed = true
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *jksReader) number() uint32 {
	if p := r.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (r *jksReader) text() []byte {
	if p := r.take(2); p != nil {
		return r.take(uint32(binary.BigEndian.Uint16(p)))
	}
	return nil
}

func (r *jksReader) certificate() []byte {
	r.text() // its type
	return r.take(r.number())
}
