package trust

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"hortus.dev/api"
	"hortus.dev/api/envd"
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

const pemCertificate = "CERTIFICATE"

// Parse parses a bundle of CA certificates. An empty one has none. It refuses a bundle that is
// larger than envd.MaxTrust, or contains something else: above all a private key, which a
// sandbox must not have.
func Parse(bundle []byte) ([]*x509.Certificate, error) {
	if len(bundle) > envd.MaxTrust {
		return nil, api.Errorf(api.KindInvalid, "the bundle has %d bytes; the maximum is %d", len(bundle), envd.MaxTrust)
	}
	var out []*x509.Certificate
	rest := bytes.TrimSpace(bundle)
	for len(rest) > 0 {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil, api.Errorf(api.KindInvalid, "the bundle contains text that is not in PEM format")
		}
		if b.Type != pemCertificate {
			return nil, api.Errorf(api.KindInvalid, "the bundle contains a block of type %.40q; only certificates are accepted", b.Type)
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "certificate %d: %w", len(out)+1, err)
		}
		if !c.BasicConstraintsValid || !c.IsCA {
			return nil, api.Errorf(api.KindInvalid, "certificate %d is not that of an authority", len(out)+1)
		}
		if len(out) == envd.MaxTrustCertificates {
			return nil, api.Errorf(api.KindInvalid, "the bundle has more than %d certificates", envd.MaxTrustCertificates)
		}
		out = append(out, c)
		rest = bytes.TrimSpace(rest)
	}
	return out, nil
}

// encode returns a certificate in PEM.
func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.Raw})
}

// The marks around the certificates in a bundle. Programs ignore text outside of PEM blocks.
const (
	beginMark = "# BEGIN certificate authority of this sandbox (hortus)\n"
	endMark   = "# END certificate authority of this sandbox (hortus)\n"
)

// section returns what is added to bundles; nothing for no certificates.
func section(certs []*x509.Certificate) []byte {
	if len(certs) == 0 {
		return nil
	}
	out := []byte(beginMark)
	for _, c := range certs {
		out = append(out, encode(c)...)
	}
	return append(out, endMark...)
}

// merge replaces the sections of a bundle by one at its end. Marks without a counterpart are
// kept, with all that is around them.
func merge(bundle, section []byte) []byte {
	out := make([]byte, 0, len(bundle)+len(section)+1)
	for {
		end := lineIndex(bundle, endMark)
		if end < 0 {
			break
		}
		begin := lineLastIndex(bundle[:end], beginMark)
		if begin < 0 {
			begin = end + len(endMark)
		}
		out = append(out, bundle[:begin]...)
		bundle = bundle[end+len(endMark):]
	}
	out = append(out, bundle...)
	if len(section) > 0 && len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, section...)
}

// lineIndex returns the index of the first line that is mark, and lineLastIndex that of the
// last one; -1 for none.
func lineIndex(text []byte, mark string) int {
	for from := 0; ; from++ {
		i := bytes.Index(text[from:], []byte(mark))
		if i < 0 {
			return -1
		}
		if from += i; from == 0 || text[from-1] == '\n' {
			return from
		}
	}
}

func lineLastIndex(text []byte, mark string) int {
	for {
		i := bytes.LastIndex(text, []byte(mark))
		if i <= 0 || text[i-1] == '\n' {
			return i
		}
		text = text[:i+len(mark)-1]
	}
}

// ders returns the certificates of a bundle, at most limit. It ignores what is not one.
func ders(bundle []byte, limit int) [][]byte {
	var out [][]byte
	for len(out) < limit {
		var b *pem.Block
		if b, bundle = pem.Decode(bundle); b == nil {
			break
		}
		if b.Type == pemCertificate {
			out = append(out, b.Bytes)
		}
	}
	return out
}

var errSubject = errors.New("the subject has a form whose OpenSSL hash is unknown")

// subjectHash returns the hash by which OpenSSL finds a certificate in a directory, eight
// hexadecimal digits. It is that of a canonical form of the subject: texts in UTF-8 and lower
// case, with single spaces.
func subjectHash(subject []byte) (string, error) {
	var sets []asn1.RawValue
	if rest, err := asn1.Unmarshal(subject, &sets); err != nil || len(rest) > 0 {
		return "", errSubject
	}
	var canonical []byte // without the outer sequence
	for _, set := range sets {
		var attributes [][]byte
		for rest := set.Bytes; len(rest) > 0; {
			var a struct{ Type, Value asn1.RawValue }
			var err error
			if rest, err = asn1.Unmarshal(rest, &a); err != nil {
				return "", errSubject
			}
			value, err := canonicalValue(a.Value)
			if err != nil {
				return "", err
			}
			b, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: slices.Concat(a.Type.FullBytes, value)})
			if err != nil {
				return "", err
			}
			attributes = append(attributes, b)
		}
		slices.SortFunc(attributes, bytes.Compare) // as DER orders a set
		b, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: slices.Concat(attributes...)})
		if err != nil {
			return "", err
		}
		canonical = append(canonical, b...)
	}
	sum := sha1.Sum(canonical)
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(sum[:4])), nil
}

// canonicalValue returns a value in its canonical form. Values that are not texts stay.
func canonicalValue(v asn1.RawValue) ([]byte, error) {
	const visible, universal = 26, 28
	if v.Class != asn1.ClassUniversal {
		return v.FullBytes, nil
	}
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, visible:
	case asn1.TagT61String, asn1.TagBMPString, universal:
		return nil, errSubject // nobody makes such certificates any more
	default:
		return v.FullBytes, nil
	}
	text := bytes.FieldsFunc(v.Bytes, func(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' })
	out := bytes.Join(text, []byte(" "))
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return asn1.Marshal(asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: out})
}

// Dir contains the files of this package whose paths do not depend on the sandbox's system.
const Dir = "/etc/ssl/hortus"

const (
	// AuthorityFile contains only the certificates of the authority. It exists while the
	// sandbox trusts one.
	AuthorityFile = Dir + "/ca.pem"
	// BundleFile contains the system's roots and those certificates. It is a link to the
	// first of bundles that could be changed, so that it also has what users add to that
	// one. If there is none, it is a file with the authority alone.
	BundleFile = Dir + "/bundle.pem"
)

// variables are set for commands because these programs do not read the system's stores. The
// other programs that are tested need none: curl, wget, git, cargo, openssl, Go, Java, and the
// modules of Python itself (case trust/stores-of-the-system). With these three, pip, boto3 and
// npm need no PIP_CERT, AWS_CA_BUNDLE, CURL_CA_BUNDLE or cafile.
var variables = []struct{ name, path, reason string }{
	{"SSL_CERT_FILE", BundleFile, "uv and httpx have roots of their own, and document this variable; they are not tested"},
	{"REQUESTS_CA_BUNDLE", BundleFile, "requests, pip and boto3 have the roots of certifi or a copy of them"},
	{"NODE_EXTRA_CA_CERTS", AuthorityFile, "Node.js, and so npm, has roots of its own, to which it adds this file"},
}

// bundles are files with trusted certificates in PEM. BundleFile is a link to the first one.
// Other usual names are links to these.
var bundles = []string{
	defaultBundle,
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora and Red Hat
	"/etc/ca-certificates/extracted/tls-ca-bundle.pem",  // Arch
	"/var/lib/ca-certificates/ca-bundle.pem",            // SUSE
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Amazon, old Red Hat
	"/etc/pki/tls/cert.pem",                             // the same
	"/etc/ssl/ca-bundle.pem",                            // old SUSE
	"/etc/ssl/cert.pem",                                 // Alpine
}

// defaultBundle is the bundle of Debian and Alpine. It is made if there is no bundle: curl, git
// and GnuTLS of these systems fail without it.
const defaultBundle = "/etc/ssl/certs/ca-certificates.crt"

// directories are those in which OpenSSL finds certificates by the hash of their subject.
var directories = []string{
	"/etc/ssl/certs",                   // Debian, Alpine, Arch
	"/var/lib/ca-certificates/pem",     // SUSE
	"/var/lib/ca-certificates/openssl", // SUSE
}

// anchors are directories of the sources from which update-ca-trust, update-ca-certificates
// and trust make bundles.
var anchors = []string{
	"/etc/pki/ca-trust/source/anchors",          // Fedora and Red Hat
	"/etc/pki/trust/anchors",                    // SUSE
	"/etc/ca-certificates/trust-source/anchors", // Arch
}

// hookFile is run by update-ca-certificates of Debian and Alpine after it has made
// defaultBundle again. Its source is in /usr, which can be read-only.
const (
	hookFile = "/etc/ca-certificates/update.d/hortus-sandbox"
	hook     = "#!/bin/sh\n" +
		"# The bundle was made again: add the certificate authority of this sandbox.\n" +
		"[ ! -r " + AuthorityFile + " ] || cat " + AuthorityFile + " >>" + defaultBundle + "\n"
)

// keystores are the trust stores of Java.
var keystores = []string{
	"/etc/ssl/certs/java/cacerts",                     // Debian, Alpine
	"/etc/pki/ca-trust/extracted/java/cacerts",        // Fedora and Red Hat
	"/etc/pki/java/cacerts",                           // a link to it, or a file
	"/etc/ca-certificates/extracted/java-cacerts.jks", // Arch
	"/var/lib/ca-certificates/java-cacerts",           // SUSE
	"/opt/java/openjdk/lib/security/cacerts",          // the images of Eclipse Temurin
}
