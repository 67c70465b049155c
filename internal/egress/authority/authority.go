package authority

import (
	"container/list"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync"
	"time"
)

// minSecret is the minimum length of the secret, in bytes.
const minSecret = 32

// Authority derives certificate authorities from a secret.
type Authority struct{ secret []byte }

// New returns an Authority. secret has at least 32 bytes and must not leave the host.
func New(secret []byte) (*Authority, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("the secret of the certificate authority has %d bytes, the minimum is %d", len(secret), minSecret)
	}
	return &Authority{secret: append([]byte(nil), secret...)}, nil
}

// CA returns the authority of a lineage. It always has the same key and certificate.
func (a *Authority) CA(lineage string) (*CA, error) {
	if lineage == "" {
		return nil, errors.New("a certificate authority needs a lineage")
	}
	key, err := a.key(lineage)
	if err != nil {
		return nil, err
	}
	serial, err := hkdf.Key(sha256.New, a.secret, nil, "hortus egress authority serial\x00"+lineage, 16)
	if err != nil {
		return nil, err
	}
	serial[0] = serial[0]&0x7f | 0x40 // positive, and of the same length for all
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		Subject:      pkix.Name{Organization: []string{"Hortus"}, CommonName: commonName("Hortus sandbox " + lineage)},
		// Fixed: a sandbox that is restored after years trusts the same certificate.
		NotBefore:             time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2049, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	// Without a source of randomness the signature is deterministic (RFC 6979).
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), deterministic{key})
	if err != nil {
		return nil, fmt.Errorf("create the certificate authority of a sandbox: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &CA{cert: cert, key: key, leafKey: leafKey, now: time.Now, leaves: map[string]*leaf{}}, nil
}

// key derives the key of a lineage.
func (a *Authority) key(lineage string) (*ecdsa.PrivateKey, error) {
	// A derived number is out of range with a probability of 2^-32.
	for i := range 16 {
		raw, err := hkdf.Key(sha256.New, a.secret, nil, fmt.Sprintf("hortus egress authority key %d\x00%s", i, lineage), 32)
		if err != nil {
			return nil, err
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("no key for a certificate authority was derived")
}

// deterministic signs without randomness.
type deterministic struct{ *ecdsa.PrivateKey }

// Sign implements crypto.Signer.
func (d deterministic) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return d.PrivateKey.Sign(nil, digest, opts)
}

// commonName truncates a name to the 64 bytes that a certificate's common name may have.
func commonName(s string) string { return s[:min(len(s), 64)] }

// PEM returns the certificate of the authority. It holds no secret.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})
}

// sign makes the certificate of a name, and returns when it has to be replaced.
func (c *CA) sign(name string) (*tls.Certificate, time.Time, error) {
	if !validName(name) {
		return nil, time.Time{}, fmt.Errorf("%.100q is not a DNS name", name)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, time.Time{}, err
	}
	from := c.now().Add(-clockSkew).Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Hortus"}, CommonName: commonName(name)},
		NotBefore:    from,
		NotAfter:     from.Add(leafValidity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{name},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, c.leafKey.Public(), c.key)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("create a certificate for %s: %w", name, err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, time.Time{}, err
	}
	cert := &tls.Certificate{Certificate: [][]byte{der, c.cert.Raw}, PrivateKey: c.leafKey, Leaf: parsed}
	return cert, from.Add(leafValidity / 2), nil
}

// validName reports whether a name may be in a certificate: labels of letters, digits, hyphens
// and underscores.
func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	label := 0
	for _, b := range []byte(name) {
		switch {
		case b == '.':
			if label == 0 {
				return false
			}
			label = 0
			continue
		case b >= 'a' && b <= 'z', b >= '0' && b <= '9', b == '-', b == '_':
		default:
			return false
		}
		if label++; label > 63 {
			return false
		}
	}
	return label > 0
}

const (
	// leafValidity is how long a certificate is valid, and clockSkew how long before its
	// creation that begins: the clock of a restored sandbox may be late.
	leafValidity = 7 * 24 * time.Hour
	clockSkew    = time.Hour
	// maxLeaves is the maximum number of certificates that a CA keeps.
	maxLeaves = 256
)

// CA is the certificate authority of a lineage. Its methods may be called from several
// goroutines.
type CA struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	leafKey *ecdsa.PrivateKey // of all leaves
	now     func() time.Time

	mu     sync.Mutex
	leaves map[string]*leaf
	recent list.List // of *leaf, the last used first
}

// leaf is the certificate of a name. Its last fields are final once made is done.
type leaf struct {
	name  string
	place *list.Element

	make  sync.Once
	cert  *tls.Certificate
	renew time.Time
	err   error
}

// Leaf returns a certificate for a DNS name in lower case, with its chain. It is valid for
// more than three days.
func (c *CA) Leaf(name string) (*tls.Certificate, error) {
	for {
		l := c.leaf(name)
		l.make.Do(func() { l.cert, l.renew, l.err = c.sign(name) })
		if l.err == nil && c.now().Before(l.renew) {
			return l.cert, nil
		}
		c.forget(l)
		if l.err != nil {
			return nil, l.err
		}
	}
}

// leaf returns the entry of a name, which may be empty.
func (c *CA) leaf(name string) *leaf {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.leaves[name]; l != nil {
		c.recent.MoveToFront(l.place)
		return l
	}
	if c.recent.Len() >= maxLeaves {
		c.remove(c.recent.Back().Value.(*leaf))
	}
	l := &leaf{name: name}
	l.place = c.recent.PushFront(l)
	c.leaves[name] = l
	return l
}

// forget removes an entry that cannot be used.
func (c *CA) forget(l *leaf) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaves[l.name] == l {
		c.remove(l)
	}
}

// remove removes an entry. The caller holds mu.
func (c *CA) remove(l *leaf) {
	c.recent.Remove(l.place)
	delete(c.leaves, l.name)
}
