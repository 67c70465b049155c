package authority

import (
	"container/list"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"
)

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
