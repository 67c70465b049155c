package peer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"sync"
	"time"

	"hortus.dev/api"
)

const (
	// authorityLife is how long the authority is valid, life a certificate of a node. A certificate is renewed after half of it.
	authorityLife = 20 * 365 * 24 * time.Hour
	life          = 24 * time.Hour
	// skew is how far the clocks of two nodes may be apart.
	skew = time.Hour
	// scheme is that of the name of a node in its certificate: hortus-node:ID.
	scheme = "hortus-node"

	blockKey, blockCertificate = "PRIVATE KEY", "CERTIFICATE"
)

// NewAuthority makes the authority of a fleet: its key and its certificate in PEM. Who has it is every node.
func NewAuthority(now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	form := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "hortus fleet"},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), // a clock that was ahead may be set back
		NotAfter:  now.Add(authorityLife),
		IsCA:      true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = errors.Join(pem.Encode(&out, &pem.Block{Type: blockKey, Bytes: secret}), pem.Encode(&out, &pem.Block{Type: blockCertificate, Bytes: der}))
	return out.Bytes(), err
}

func serial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b)
	return new(big.Int).SetBytes(b)
}

// authority is one that was read.
type authority struct {
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate
	roots *x509.CertPool
}

// parse reads what NewAuthority made.
func parse(text []byte) (*authority, error) {
	a := &authority{roots: x509.NewCertPool()}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var err error
		switch block.Type {
		case blockKey:
			var key any
			if key, err = x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				a.key, _ = key.(*ecdsa.PrivateKey)
			}
		case blockCertificate:
			a.cert, err = x509.ParseCertificate(block.Bytes)
		}
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "the certificate authority of the fleet: %w", err)
		}
	}
	if a.key == nil || a.cert == nil || !a.key.PublicKey.Equal(a.cert.PublicKey) {
		return nil, api.Errorf(api.KindInternal, "the certificate authority of the fleet has no key that fits its certificate")
	}
	a.roots.AddCert(a.cert)
	return a, nil
}

// Config is what an identity is made of.
type Config struct {
	// Node is this node.
	Node api.NodeID
	// Authority reads what NewAuthority made. It is called until it succeeds.
	Authority func(ctx context.Context) ([]byte, error)
	// Known returns an error for a node that is not of the fleet; KindUnavailable or KindTimeout if the rows cannot be read now. The server then accepts
	// the connection, since it asks again for each request, which can wait for the rows and receive a reason: with TLS 1.3 the client of a
	// connection that is refused has sent its request already, and does not know what became of it.
	Known func(ctx context.Context, id api.NodeID) error
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Identity is what a node shows to others, and checks them with.
type Identity struct {
	cfg Config

	mu        sync.Mutex
	authority *authority
	own       *tls.Certificate
	issued    time.Time // when own was made
}

// New makes the identity of a node. It reads nothing yet.
func New(cfg Config) *Identity {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Identity{cfg: cfg}
}

// readTimeout bounds the reading of rows during a handshake.
const readTimeout = 5 * time.Second

// material returns the authority and this node's certificate.
func (i *Identity) material(ctx context.Context) (*authority, *tls.Certificate, error) {
	i.mu.Lock()
	a, own, issued := i.authority, i.own, i.issued
	i.mu.Unlock()
	now := i.cfg.Now()
	if own != nil && now.Before(issued.Add(life/2)) && now.After(issued.Add(-skew/2)) { // the clock may have been set
		return a, own, nil
	}
	if a == nil {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		text, err := i.cfg.Authority(ctx)
		if err == nil {
			a, err = parse(text)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	own, err := a.issue(i.cfg.Node, now)
	if err != nil {
		return nil, nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.authority, i.own, i.issued = a, own, now
	return a, own, nil
}

// issue makes the certificate of a node.
func (a *authority) issue(id api.NodeID, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	form := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: string(id)}, NotBefore: now.Add(-skew), NotAfter: now.Add(life + skew),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{{Scheme: scheme, Opaque: string(id)}},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// Server returns the configuration of the listener: TLS 1.3, and clients that are nodes of the fleet.
func (i *Identity) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		cfg, a, err := i.config(hello.Context())
		if err != nil {
			return nil, err
		}
		cfg.ClientAuth = tls.RequireAnyClientCert // VerifyConnection verifies it
		cfg.VerifyConnection = func(state tls.ConnectionState) error {
			id, err := a.verify(state, x509.ExtKeyUsageClientAuth, i.cfg.Now())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(hello.Context()), readTimeout)
			defer cancel()
			err = i.cfg.Known(ctx, id)
			if kind := api.KindOf(err); kind == api.KindUnavailable || kind == api.KindTimeout {
				return nil
			}
			return err
		}
		return cfg, nil
	}}
}

// Client returns the configuration of a connection to a node. Another node that answers is refused.
func (i *Identity) Client(ctx context.Context, to api.NodeID) (*tls.Config, error) {
	cfg, a, err := i.config(ctx)
	if err != nil {
		return nil, err
	}
	// Names of nodes are no host names: VerifyConnection does all that is verified.
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		id, err := a.verify(state, x509.ExtKeyUsageServerAuth, i.cfg.Now())
		if err == nil && id != to {
			err = fmt.Errorf("node %s answered in the place of node %s", id, to)
		}
		return err
	}
	return cfg, nil
}

// config is what both sides have.
func (i *Identity) config(ctx context.Context) (*tls.Config, *authority, error) {
	a, own, err := i.material(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*own}, SessionTicketsDisabled: true}, a, nil
}

// verify returns the node that the other side is.
func (a *authority) verify(state tls.ConnectionState, usage x509.ExtKeyUsage, now time.Time) (api.NodeID, error) {
	if len(state.PeerCertificates) == 0 {
		return "", errors.New("the other side has no certificate")
	}
	// A node's certificate is signed by the authority itself, so that others that were sent with it are not looked at.
	if _, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: a.roots, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now}); err != nil {
		return "", err
	}
	id, ok := NodeOf(&state)
	if !ok {
		return "", errors.New("the certificate names no node")
	}
	return id, nil
}

// NodeOf returns the node at the other side of a connection that Server or Client configured.
func NodeOf(state *tls.ConnectionState) (api.NodeID, bool) {
	if state == nil || len(state.PeerCertificates) == 0 || len(state.PeerCertificates[0].URIs) != 1 {
		return "", false
	}
	u := state.PeerCertificates[0].URIs[0]
	id := api.NodeID(u.Opaque)
	return id, u.Scheme == scheme && id.Valid()
}
