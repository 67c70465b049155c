package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

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
