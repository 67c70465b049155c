package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/envd"
)

// authority makes a certificate of an authority.
func authority(t testing.TB, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	c, _ := authorityAndKey(t, change)
	return c
}

func authorityAndKey(t testing.TB, change func(*x509.Certificate)) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "Authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return c, key
}

func named(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.Subject.CommonName = name }
}

func TestParse(t *testing.T) {
	one := encode(authority(t, nil))
	leaf := encode(authority(t, func(c *x509.Certificate) { c.IsCA = false }))
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	for _, c := range []struct {
		name   string
		bundle []byte
		want   int // -1 for an error
	}{
		{"empty", nil, 0}, {"blank", []byte(" \n\n"), 0}, {"one", one, 1}, {"eight", bytes.Repeat(one, 8), 8},
		{"nine", bytes.Repeat(one, 9), -1}, {"large", bytes.Repeat([]byte(" "), envd.MaxTrust+1), -1}, {"text", []byte("x"), -1},
		{"text behind", append(bytes.Clone(one), 'x'), -1}, {"truncated", one[:len(one)-30], -1}, {"leaf", leaf, -1},
		{"key", append(bytes.Clone(one), key...), -1},
		{"no certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), -1},
	} {
		got, err := Parse(c.bundle)
		if err == nil && len(got) != c.want || err != nil && c.want >= 0 {
			t.Errorf("%s: %d certificates, %v; want %d", c.name, len(got), err, c.want)
		}
	}
}

func TestMerge(t *testing.T) {
	a, b := section([]*x509.Certificate{authority(t, nil)}), section([]*x509.Certificate{authority(t, nil)})
	for name, c := range map[string]struct{ bundle, section, want string }{
		"add":                 {"roots\n", string(a), "roots\n" + string(a)},
		"no line break":       {"roots", string(a), "roots\n" + string(a)},
		"empty":               {"", string(a), string(a)},
		"replace":             {"roots\n" + string(a), string(b), "roots\n" + string(b)},
		"remove":              {"roots\n" + string(a), "", "roots\n"},
		"remove what is made": {string(a), "", ""},
		"added behind":        {"roots\n" + string(a) + "mine\n", "", "roots\nmine\n"},
		"twice":               {string(a) + "roots\n" + string(b), "", "roots\n"},
		"begin without end":   {beginMark + "mine\n", "", beginMark + "mine\n"},
		"begin before one":    {beginMark + "mine\n" + string(a), "", beginMark + "mine\n"},
		"end without begin":   {"mine\n" + endMark + string(a) + "x", "", "mine\n" + endMark + "x"},
		"not a line":          {"x" + beginMark + "mine\n" + endMark, "", "x" + beginMark + "mine\n" + endMark},
		"end not a line":      {beginMark + "mine\nx" + endMark, "", beginMark + "mine\nx" + endMark},
	} {
		if got := string(merge([]byte(c.bundle), []byte(c.section))); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("roots\n"+beginMark+"x\n"+endMark), []byte(beginMark+"y\n"+endMark))
	f.Add([]byte(endMark+beginMark+endMark), []byte(""))
	f.Fuzz(func(t *testing.T, bundle, text []byte) {
		text = bytes.ReplaceAll(text, []byte("#"), nil) // no mark within a section
		s := []byte(beginMark + string(text) + "\n" + endMark)
		with := merge(bundle, s)
		if !bytes.HasSuffix(with, s) {
			t.Fatalf("the section is missing: %q", with)
		}
		if again := merge(with, s); !bytes.Equal(again, with) {
			t.Fatalf("not idempotent: %q and %q", with, again)
		}
		// What remains is the bundle without its own complete sections.
		if a, b := merge(with, nil), merge(bundle, nil); !bytes.Equal(bytes.TrimRight(a, "\n"), bytes.TrimRight(b, "\n")) {
			t.Fatalf("removed: %q; want %q", a, b)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(encode(authority(f, nil)))
	f.Fuzz(func(t *testing.T, bundle []byte) {
		certs, err := Parse(bundle)
		if err != nil {
			return
		}
		if again, err := Parse(section(certs)); len(certs) > envd.MaxTrustCertificates || err != nil && len(certs) > 0 && !strings.Contains(err.Error(), "PEM") || len(again) > len(certs) {
			t.Fatalf("%d certificates, again %d, %v", len(certs), len(again), err)
		}
		for _, c := range certs {
			subjectHash(c.RawSubject)
		}
	})
}

// TestSubjectHash compares with openssl.
func TestSubjectHash(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	text := func(tag int, s string) asn1.RawValue { return asn1.RawValue{Tag: tag, Bytes: []byte(s)} }
	cn, o, email := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	type set = []pkix.AttributeTypeAndValue
	for name, subject := range map[string]pkix.RDNSequence{
		"plain":    {set{{Type: cn, Value: "Hortus Sandbox CA"}}},
		"two":      {set{{Type: o, Value: "Hortus"}}, set{{Type: cn, Value: "CA 7f00"}}},
		"set":      {set{{Type: o, Value: "Zeta"}, {Type: cn, Value: "Alpha"}}},
		"spaces":   {set{{Type: cn, Value: text(asn1.TagUTF8String, "  Many \t spaces  HERE \n")}}},
		"unicode":  {set{{Type: cn, Value: "Gärten ÄÖÜ 花"}}},
		"ia5":      {set{{Type: email, Value: text(asn1.TagIA5String, "CA@Example.ORG")}}},
		"numeric":  {set{{Type: o, Value: text(asn1.TagNumericString, "12  34")}}},
		"one char": {set{{Type: cn, Value: "X"}}},
		"no text":  {set{{Type: cn, Value: text(asn1.TagUTF8String, "")}}},
		"no name":  {},
	} {
		raw, err := asn1.Marshal(subject)
		if err != nil {
			t.Fatal(err)
		}
		c := authority(t, func(c *x509.Certificate) { c.RawSubject = raw })
		cmd := exec.Command(openssl, "x509", "-noout", "-subject_hash")
		cmd.Stdin = bytes.NewReader(encode(c))
		want, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := subjectHash(c.RawSubject); err != nil || got+"\n" != string(want) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	for _, raw := range [][]byte{nil, {0x30}, []byte("text"), {0x30, 4, 0x31, 2, 0x30, 5}, {0x30, 11, 0x31, 9, 0x30, 7, 6, 1, 1, 0x1e, 2, 0, 65}} {
		if got, err := subjectHash(raw); err == nil {
			t.Errorf("%x: %s", raw, got)
		}
	}
}

// systemKeystore reads the trust store of Java of this machine.
func systemKeystore(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("/etc/ssl/certs/java/cacerts")
	if err != nil {
		t.Skipf("this machine has no trust store of Java: %v", err)
	}
	if _, err := parseKeystore(b); err == errNotJKS {
		t.Skip("this machine's trust store of Java is not in the format JKS")
	}
	return b
}

func TestKeystore(t *testing.T) {
	a, b := authority(t, nil).Raw, authority(t, nil).Raw
	old := newKeystore(newEntries("root-", [][]byte{a}, time.Unix(1, 0)))
	with, err := mergeKeystore(old, [][]byte{b, a}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := mergeKeystore(with, [][]byte{b, a}, time.Unix(7, 0)); err != nil || !bytes.Equal(again, with) {
		t.Errorf("not idempotent: %v", err)
	}
	if entries, err := parseKeystore(with); err != nil || len(entries) != 3 || entries[1].alias != "hortus-sandbox-1" || !bytes.Equal(entries[1].der, b) {
		t.Errorf("%+v, %v", entries, err)
	}
	if got, err := mergeKeystore(with, nil, time.Now()); err != nil || !bytes.Equal(got, old) {
		t.Errorf("the removal leaves something: %v", err)
	}
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"nothing": {nil, errNotJKS}, "PKCS 12": {[]byte{0x30, 0x82, 1, 1, 2}, errNotJKS}, "only the number": {old[:4], errKeystore},
		"truncated": {old[:len(old)-1], errJKSPassword}, "changed": {append(bytes.Clone(old[:20]), old[21:]...), errJKSPassword},
	} {
		if _, err := mergeKeystore(c.data, [][]byte{a}, time.Now()); err != c.want {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
}

// TestKeystoreOfSystem changes the trust store of this machine, in memory.
func TestKeystoreOfSystem(t *testing.T) {
	old := systemKeystore(t)
	with, err := mergeKeystore(old, [][]byte{authority(t, nil).Raw}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := mergeKeystore(with, nil, time.Now()); err != nil || !bytes.Equal(got, old) {
		t.Errorf("the removal leaves something: %v", err)
	}
}

func keytool(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("keytool is not installed")
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("keytool %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestKeytool has Java read a keystore, which also has a private key.
func TestKeytool(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cacerts")
	keytool(t, "-genkeypair", "-alias", "mine", "-keyalg", "EC", "-dname", "CN=Mine", "-storetype", "jks", "-keystore", file, "-storepass", jksPassword, "-keypass", jksPassword)
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := authority(t, named("Read by Java"))
	now, err := mergeKeystore(old, [][]byte{c.Raw}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, now, 0o600); err != nil {
		t.Fatal(err)
	}
	out := keytool(t, "-list", "-v", "-keystore", file, "-storepass", jksPassword)
	for _, want := range []string{"contains 2 entries", "Alias name: mine", "Alias name: hortus-sandbox-1", "Owner: CN=Read by Java", "PrivateKeyEntry", "trustedCertEntry"} {
		if !strings.Contains(out, want) {
			t.Errorf("keytool does not show %q:\n%s", want, out)
		}
	}
	keytool(t, "-storepasswd", "-keystore", file, "-storepass", jksPassword, "-new", "another")
	if now, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	if _, err := mergeKeystore(now, nil, time.Now()); err != errJKSPassword {
		t.Errorf("with another password: %v", err)
	}
}

func FuzzKeystore(f *testing.F) {
	f.Add([]byte("x"))
	f.Add(newKeystore(newEntries("root-", [][]byte{[]byte("der")}, time.Unix(1, 0))))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Most data has the wrong digest; the parser itself is behind it.
		if len(data) > 12 {
			data = append(bytes.Clone(data), jksDigest(data)...)
		}
		entries, err := parseKeystore(data)
		if err == nil && !bytes.Equal(newKeystore(entries), data) {
			t.Fatal("the entries do not make the same keystore")
		}
	})
}
