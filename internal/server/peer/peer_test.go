package peer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/peer"
)

// node returns an identity with an authority, which knows the nodes of a list.
func node(id api.NodeID, authority []byte, now func() time.Time, known ...api.NodeID) *peer.Identity {
	return peer.New(peer.Config{
		Node: id, Now: now,
		Authority: func(context.Context) ([]byte, error) {
			if authority == nil {
				return nil, errors.New("there is no authority yet")
			}
			return authority, nil
		},
		Known: func(_ context.Context, id api.NodeID) error {
			for _, k := range known {
				if k == id {
					return nil
				}
			}
			return errors.New("unknown node " + string(id))
		},
	})
}

func newAuthority(t *testing.T) []byte {
	t.Helper()
	text, err := peer.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// meet connects a client to a server. It returns whom the server met, and the errors of both.
func meet(t *testing.T, server *tls.Config, client *tls.Config) (met api.NodeID, atServer, atClient error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			atServer = err
			return
		}
		defer c.Close()
		s := tls.Server(c, server)
		if atServer = s.HandshakeContext(t.Context()); atServer != nil {
			return
		}
		state := s.ConnectionState()
		met, _ = peer.NodeOf(&state)
		_, atServer = io.WriteString(s, "x")
	}()
	c, err := tls.Dial("tcp", ln.Addr().String(), client)
	if atClient = err; err == nil {
		_, atClient = io.ReadFull(c, make([]byte, 1))
		c.Close()
	}
	<-done
	return met, atServer, atClient
}

func client(t *testing.T, i *peer.Identity, to api.NodeID) *tls.Config {
	t.Helper()
	cfg, err := i.Client(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestTrust connects nodes, and what is none. The first case is the control.
func TestTrust(t *testing.T) {
	a, b, c := api.NewNodeID(), api.NewNodeID(), api.NewNodeID()
	ours, foreign := newAuthority(t), newAuthority(t)
	later := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }
	server := node(b, ours, nil, a, b)
	for name, tt := range map[string]struct {
		client *tls.Config
		server string // part of the server's error; "" if it has none
		why    string // part of the client's error; "" if it has none
	}{
		"a node":                        {client(t, node(a, ours, nil), b), "", ""},
		"no certificate":                {&tls.Config{InsecureSkipVerify: true}, "provide a certificate", "certificate"},
		"another authority":             {&tls.Config{InsecureSkipVerify: true, Certificates: client(t, node(a, foreign, nil), b).Certificates}, "unknown authority", "bad certificate"},
		"the server of another fleet":   {client(t, node(a, foreign, nil), b), "", "unknown authority"},
		"a node without a row":          {client(t, node(c, ours, nil), b), "unknown node", "bad certificate"},
		"an end that is over":           {client(t, node(a, ours, later(-48*time.Hour)), b), "", "expired or is not yet valid"},
		"a certificate that has ended":  {&tls.Config{InsecureSkipVerify: true, Certificates: client(t, node(a, ours, later(-48*time.Hour)), b).Certificates}, "expired or is not yet valid", "bad certificate"},
		"another node in the place":     {client(t, node(a, ours, nil), c), "", "answered in the place"},
		"TLS 1.2":                       {&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}, "unsupported versions", "protocol version"},
		"a certificate without a node":  {&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{signedBy(t, ours, nil)}}, "names no node", "bad certificate"},
		"a certificate with two nodes":  {&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{signedBy(t, ours, []*url.URL{{Scheme: "hortus-node", Opaque: string(a)}, {Scheme: "hortus-node", Opaque: string(b)}})}}, "names no node", "bad certificate"},
		"a certificate of a node's own": {&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{signedByNode(t, client(t, node(a, ours, nil), b).Certificates[0], b)}}, "unknown authority", "bad certificate"},
	} {
		met, atServer, atClient := meet(t, server.Server(), tt.client)
		for _, side := range []struct {
			who, want string
			err       error
		}{{"client", tt.why, atClient}, {"server", tt.server, atServer}} {
			if side.want == "" && side.who == "server" {
				continue // who leaves may do so at any instant
			}
			if side.want == "" != (side.err == nil) || side.err != nil && !strings.Contains(side.err.Error(), side.want) {
				t.Errorf("%s: the %s has %v, want %q", name, side.who, side.err, side.want)
			}
		}
		if name == "a node" && met != a {
			t.Errorf("the server met %q", met)
		}
	}
}

// TestUnreadableRows: a connection does not end because the rows cannot be read during its handshake: requests ask again. Others are refused as always.
func TestUnreadableRows(t *testing.T) {
	a, b, ours := api.NewNodeID(), api.NewNodeID(), newAuthority(t)
	for kind, accepted := range map[api.Kind]bool{api.KindUnavailable: true, api.KindTimeout: true, api.KindNotFound: false, api.KindInternal: false} {
		server := peer.New(peer.Config{
			Node: b, Authority: func(context.Context) ([]byte, error) { return ours, nil },
			Known: func(context.Context, api.NodeID) error { return api.Errorf(kind, "the rows are away") },
		})
		_, _, err := meet(t, server.Server(), client(t, node(a, ours, nil), b))
		if (err == nil) != accepted {
			t.Errorf("%s: %v", kind, err)
		}
		_, _, err = meet(t, server.Server(), &tls.Config{InsecureSkipVerify: true, Certificates: client(t, node(a, newAuthority(t), nil), b).Certificates})
		if err == nil {
			t.Errorf("%s: another authority is accepted", kind)
		}
	}
}

// signedBy makes a certificate that the authority signed, with names.
func signedBy(t *testing.T, authority []byte, names []*url.URL) tls.Certificate {
	t.Helper()
	cert, key := peer.Split(t, authority)
	return sign(t, cert, key, names)
}

// signedByNode makes a certificate for another node that a node's own certificate signed, which is no authority.
func signedByNode(t *testing.T, by tls.Certificate, id api.NodeID) tls.Certificate {
	t.Helper()
	out := sign(t, by.Leaf, by.PrivateKey.(*ecdsa.PrivateKey), []*url.URL{{Scheme: "hortus-node", Opaque: string(id)}})
	out.Certificate = append(out.Certificate, by.Certificate...)
	return out
}

func sign(t *testing.T, by *x509.Certificate, with *ecdsa.PrivateKey, names []*url.URL) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), URIs: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, by, key.Public(), with)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestRenewal: a certificate is replaced after half of its life, and the authority is read once.
func TestRenewal(t *testing.T) {
	now, reads := time.Now(), 0
	authority := newAuthority(t)
	i := peer.New(peer.Config{Node: api.NewNodeID(), Now: func() time.Time { return now }, Authority: func(context.Context) ([]byte, error) { reads++; return authority, nil }})
	serial := func() string { return client(t, i, api.NewNodeID()).Certificates[0].Leaf.SerialNumber.String() }
	first := serial()
	if now = now.Add(11 * time.Hour); serial() != first {
		t.Error("it was renewed after 11 hours")
	}
	if now = now.Add(2 * time.Hour); serial() == first {
		t.Error("it was not renewed after 13 hours")
	}
	if reads != 1 {
		t.Errorf("the authority was read %d times", reads)
	}
}

// TestClockIsSetBack: the clock of nodes was hours ahead when they and their fleet began, and is set back.
func TestClockIsSetBack(t *testing.T) {
	a, b, ahead := api.NewNodeID(), api.NewNodeID(), 25*time.Hour
	now := func() time.Time { return time.Now().Add(ahead) }
	authority, err := peer.NewAuthority(now())
	if err != nil {
		t.Fatal(err)
	}
	one, other := node(a, authority, now, b), node(b, authority, now, a)
	for ; ahead >= 0; ahead -= 25 * time.Hour {
		if met, atServer, atClient := meet(t, other.Server(), client(t, one, b)); met != a || atServer != nil || atClient != nil {
			t.Errorf("%s ahead: %s, %v, %v", ahead, met, atServer, atClient)
		}
	}
}

// TestNoAuthority: without one nobody is answered, and the node looks again.
func TestNoAuthority(t *testing.T) {
	a, b := api.NewNodeID(), api.NewNodeID()
	var authority []byte
	server := peer.New(peer.Config{
		Node: b, Known: func(context.Context, api.NodeID) error { return nil },
		Authority: func(context.Context) ([]byte, error) {
			if authority == nil {
				return nil, errors.New("none")
			}
			return authority, nil
		},
	})
	ours := newAuthority(t)
	if _, atServer, atClient := meet(t, server.Server(), client(t, node(a, ours, nil), b)); atServer == nil || atClient == nil {
		t.Errorf("without an authority: %v, %v", atServer, atClient)
	}
	authority = ours
	if met, atServer, atClient := meet(t, server.Server(), client(t, node(a, ours, nil), b)); met != a || atServer != nil || atClient != nil {
		t.Errorf("with one: %s, %v, %v", met, atServer, atClient)
	}
	for _, bad := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\neA==\n-----END PRIVATE KEY-----\n", strings.Split(string(ours), "-----BEGIN CERT")[0]} {
		if _, err := node(a, []byte(bad+" "), nil).Client(t.Context(), b); api.KindOf(err) != api.KindInternal {
			t.Errorf("authority %.30q: %v", bad, err)
		}
	}
}
