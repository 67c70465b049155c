package trust

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// system makes the files of a system below a directory. A text that begins with "-> " is a
// link.
func system(t testing.TB, files map[string]string) tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if target, link := strings.CutPrefix(text, "-> "); err == nil && link {
			err = os.Symlink(target, path)
		} else if err == nil && strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree{root: root}
}

// set changes the authorities of a system.
func set(t *testing.T, files tree, certs ...*x509.Certificate) {
	t.Helper()
	if err := trySet(files, certs...); err != nil {
		t.Fatal(err)
	}
}

func trySet(files tree, certs ...*x509.Certificate) error {
	c := &change{files: files, certs: certs}
	c.run()
	return errors.Join(c.failures...)
}

// show lists everything in a system: types, modes, inodes if wanted, and contents.
func show(t *testing.T, files tree, inodes bool) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(files.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %o", strings.TrimPrefix(p, files.root), st.Mode)
		if inodes {
			fmt.Fprintf(&out, " %d", st.Ino)
		}
		switch {
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %q", b)
		case d.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(p)
			out.WriteString(" -> " + target)
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func (t tree) text(file string) string {
	b, _ := os.ReadFile(t.root + file)
	return string(b)
}

const roots = "# Some Root\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

// TestSystems adds authorities to the files of known systems, replaces and removes them.
func TestSystems(t *testing.T) {
	jks := string(newKeystore(newEntries("root-", [][]byte{[]byte("root")}, time.Unix(1, 0))))
	for name, c := range map[string]struct {
		files map[string]string
		// bundles are the files that must have the section, link is the target of BundleFile.
		bundles []string
		link    string
		made    []string // directories that stay
	}{
		"debian": {map[string]string{
			"/etc/ssl/certs/ca-certificates.crt": roots, "/etc/ssl/certs/aaaaaaaa.0": "-> Some.pem", "/etc/ssl/certs/Some.pem": roots,
			"/etc/ssl/certs/java/cacerts": jks, "/etc/ca-certificates/update.d/jks-keystore": "#!/bin/sh\n",
		}, []string{defaultBundle}, defaultBundle, nil},
		"alpine": {map[string]string{
			"/etc/ssl/certs/ca-certificates.crt": roots, "/etc/ssl/cert.pem": "-> certs/ca-certificates.crt", "/etc/ca-certificates/update.d/": "",
		}, []string{defaultBundle, "/etc/ssl/cert.pem"}, defaultBundle, nil},
		"fedora": {map[string]string{
			"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": roots, "/etc/pki/ca-trust/extracted/java/cacerts": jks,
			"/etc/pki/tls/certs/ca-bundle.crt": "-> /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/pki/java/cacerts": "-> /etc/pki/ca-trust/extracted/java/cacerts",
			"/etc/ssl/certs": "-> ../pki/tls/certs", "/etc/pki/ca-trust/source/anchors/README": "read me",
		}, []string{"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/pki/ca-trust/source/anchors/hortus-sandbox-ca.pem"}, "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", nil},
		"suse": {map[string]string{
			"/var/lib/ca-certificates/ca-bundle.pem": roots, "/var/lib/ca-certificates/pem/": "", "/etc/ssl/certs": "-> /var/lib/ca-certificates/pem",
			"/etc/ssl/ca-bundle.pem": "-> /var/lib/ca-certificates/ca-bundle.pem",
		}, []string{"/var/lib/ca-certificates/ca-bundle.pem"}, "/var/lib/ca-certificates/ca-bundle.pem", nil},
		"no roots":          {map[string]string{"/etc/": "", "/etc/ssl/certs/": "", "/etc/ca-certificates/update.d/": ""}, []string{defaultBundle}, defaultBundle, nil},
		"no roots, a link":  {map[string]string{"/etc/ssl/certs": "-> /elsewhere"}, []string{BundleFile}, "", nil},
		"a link to nowhere": {map[string]string{"/etc/ssl/certs/ca-certificates.crt": "-> /nix/store/x"}, []string{BundleFile}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := system(t, c.files)
			before := show(t, files, false)
			a, b := authority(t, named("A")), authority(t, named("B"))
			set(t, files, a, b)
			for _, f := range append(c.bundles, AuthorityFile) {
				if f != "/etc/ssl/cert.pem" && !strings.HasSuffix(files.text(f), string(section([]*x509.Certificate{a, b}))) {
					t.Errorf("%s: %q", f, files.text(f))
				}
			}
			if target, _ := os.Readlink(files.root + BundleFile); target != c.link {
				t.Errorf("the bundle is a link to %q; want %q", target, c.link)
			}
			then := show(t, files, true)
			set(t, files, a, b)
			if again := show(t, files, true); again != then {
				t.Errorf("not idempotent:\n%s\n%s", then, again)
			}
			set(t, files, b)
			if s := show(t, files, false); strings.Contains(s, strings.Split(string(encode(a)), "\n")[3]) || !strings.Contains(s, strings.Split(string(encode(b)), "\n")[3]) {
				t.Error("the first authority is still there, or the second one is missing")
			}
			set(t, files)
			if after := show(t, files, false); after != before {
				t.Errorf("after the removal:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// TestHashLinks has openssl find an authority in the directory of certificates, beside one of
// the same name.
func TestHashLinks(t *testing.T) {
	files := system(t, map[string]string{"/etc/ssl/certs/": ""})
	dir := files.root + "/etc/ssl/certs/"
	namesake := authority(t, nil)
	a, key := authorityAndKey(t, nil)
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: a.NotBefore, NotAfter: a.NotAfter}, a, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := subjectHash(a.RawSubject)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+hash+".0", encode(namesake), 0o644); err != nil {
		t.Fatal(err)
	}
	set(t, files, a, authority(t, nil))
	if target, _ := os.Readlink(dir + hash + ".1"); target != "hortus-sandbox-1.pem" {
		t.Errorf("link to %q", target)
	}
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	verify := func() ([]byte, error) {
		cmd := exec.Command(openssl, "verify", "-no-CAfile", "-no-CAstore", "-CApath", dir)
		cmd.Stdin = bytes.NewReader(encode(&x509.Certificate{Raw: leaf}))
		return cmd.CombinedOutput()
	}
	if out, err := verify(); err != nil {
		t.Errorf("openssl does not find it: %v\n%s", err, out)
	}
	set(t, files)
	if _, err := verify(); err == nil {
		t.Error("openssl finds it after the removal")
	}
	if b, err := os.ReadFile(dir + hash + ".0"); err != nil || !bytes.Equal(b, encode(namesake)) {
		t.Errorf("the namesake has changed: %v", err)
	}
}

// TestOtherKeystore replaces a keystore of another format, and restores it.
func TestOtherKeystore(t *testing.T) {
	other := filepath.Join(t.TempDir(), "cacerts")
	keytool(t, "-genkeypair", "-alias", "mine", "-keyalg", "EC", "-dname", "CN=Mine", "-storetype", "pkcs12", "-keystore", other, "-storepass", jksPassword)
	b, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	const java = "/opt/java/openjdk/lib/security/cacerts"
	files := system(t, map[string]string{defaultBundle: string(encode(authority(t, named("Root"))))})
	if err := os.MkdirAll(filepath.Dir(files.root+java), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.root+java, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"A", "B"} { // the second replaces the first
		set(t, files, authority(t, named(name)))
		out := keytool(t, "-list", "-v", "-keystore", files.root+java, "-storepass", jksPassword)
		if !strings.Contains(out, "contains 2 entries") || !strings.Contains(out, "Owner: CN=Root") || !strings.Contains(out, "Owner: CN="+name) {
			t.Errorf("keytool shows:\n%s", out)
		}
	}
	set(t, files)
	if got, err := os.ReadFile(files.root + java); err != nil || !bytes.Equal(got, b) {
		t.Errorf("the keystore is not the original one: %v", err)
	}
	if names, _ := os.ReadDir(filepath.Dir(files.root + java)); len(names) != 1 {
		t.Errorf("left: %v", names)
	}
}

// TestHostileFiles plants what code of the sandbox can plant. The control shows that a write
// by the name has an effect.
func TestHostileFiles(t *testing.T) {
	a := authority(t, nil)
	for name, c := range map[string]struct {
		plant map[string]string
		fails []string // stores that are reported
	}{
		"file":           {map[string]string{defaultBundle: "-> ../../../outside/kept"}, nil},
		"absolute":       {map[string]string{defaultBundle: "-> OUTSIDE/kept", "/etc/ssl/cert.pem": "-> OUTSIDE/kept"}, nil},
		"directory":      {map[string]string{"/etc/ssl/certs": "-> OUTSIDE", "/etc/pki": "-> OUTSIDE"}, nil},
		"own directory":  {map[string]string{"/etc/ssl/hortus": "-> OUTSIDE"}, []string{AuthorityFile, BundleFile}},
		"own file":       {map[string]string{AuthorityFile: "-> OUTSIDE/kept", BundleFile: "-> OUTSIDE/kept"}, nil},
		"certificate":    {map[string]string{"/etc/ssl/certs/hortus-sandbox-1.pem": "-> OUTSIDE/kept"}, nil},
		"hook":           {map[string]string{hookFile: "-> OUTSIDE/kept", defaultBundle: roots}, nil},
		"keystore":       {map[string]string{"/etc/ssl/certs/java/cacerts": "-> OUTSIDE/kept", "/etc/pki/java": "-> OUTSIDE"}, nil},
		"the whole /etc": {map[string]string{"/etc": "-> OUTSIDE"}, []string{AuthorityFile, BundleFile}},
	} {
		t.Run(name, func(t *testing.T) {
			files := system(t, map[string]string{"/outside/kept": "kept", "/outside/cacerts": "kept", "/outside/ca.pem": "kept"})
			for path, target := range c.plant {
				if err := os.MkdirAll(filepath.Dir(files.root+path), 0o755); err != nil {
					t.Fatal(err)
				}
				target, link := strings.CutPrefix(target, "-> ")
				err := os.WriteFile(files.root+path, []byte(target), 0o644)
				if link {
					os.Remove(files.root + path)
					err = os.Symlink(strings.Replace(target, "OUTSIDE", files.root+"/outside", 1), files.root+path)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			outside := tree{root: files.root + "/outside"}
			before := show(t, outside, true)
			err := trySet(files, a)
			for _, f := range c.fails {
				if err == nil || !strings.Contains(err.Error(), f+":") {
					t.Errorf("%s is not reported: %v", f, err)
				}
			}
			if len(c.fails) == 0 && err != nil {
				t.Error(err)
			}
			err = trySet(files)
			if after := show(t, outside, true); after != before {
				t.Errorf("what is behind the link has changed (%v):\n%s", err, after)
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		files := system(t, map[string]string{"/outside/kept": "kept", defaultBundle: "-> ../../../outside/kept"})
		if err := os.WriteFile(files.root+defaultBundle, []byte("changed"), 0o644); err != nil {
			t.Fatal(err)
		}
		if files.text("/outside/kept") != "changed" {
			t.Error("the planted link leads nowhere: the cases above show nothing")
		}
	})
}

// TestOneFailure: a store that cannot be changed does not keep the others from it.
func TestOneFailure(t *testing.T) {
	files := system(t, map[string]string{defaultBundle: roots, "/etc/ssl/certs/java/cacerts": "no keystore", "/etc/pki/tls/cert.pem/": "",
		"/etc/ssl/ca-bundle.pem": strings.Repeat("x", maxFile+1), "/etc/pki/tls/certs/": ""})
	if err := unix.Mkfifo(files.root+"/etc/ssl/cert.pem", 0o644); err != nil {
		t.Fatal(err)
	}
	err := trySet(files, authority(t, nil))
	for _, want := range []string{"/etc/ssl/certs/java/cacerts: not a keystore", "/etc/pki/tls/cert.pem: not a regular", "/etc/ssl/ca-bundle.pem: larger", "/etc/ssl/cert.pem: not a regular"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
	if !strings.HasSuffix(files.text(BundleFile), endMark) && !strings.HasSuffix(files.text(defaultBundle), endMark) {
		t.Error("the bundle was not changed")
	}
	if b, _ := os.ReadDir(files.root + "/etc/ssl/certs"); slices.ContainsFunc(b, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".hortus") }) {
		t.Errorf("files are left: %v", b)
	}
}

// TestReplaceKeepsOthers: a hard link, an open file and the mode stay as they are.
func TestReplaceKeepsOthers(t *testing.T) {
	files := system(t, map[string]string{defaultBundle: roots})
	if err := os.Chmod(files.root+defaultBundle, 0o664); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(files.root+defaultBundle, files.root+"/twin"); err != nil {
		t.Fatal(err)
	}
	set(t, files, authority(t, nil))
	if files.text("/twin") != roots {
		t.Error("a hard link to the bundle has changed")
	}
	if fi, err := os.Stat(files.root + defaultBundle); err != nil || fi.Mode() != 0o644 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

// BenchmarkSet changes a copy of this machine's stores.
func BenchmarkSet(b *testing.B) {
	files := system(b, map[string]string{"/etc/ssl/": "", "/etc/ca-certificates/update.d/": ""})
	if out, err := exec.Command("cp", "-a", "/etc/ssl/certs", files.root+"/etc/ssl/").CombinedOutput(); err != nil {
		b.Skipf("copy the stores of this machine: %v\n%s", err, out)
	}
	a := authority(b, nil)
	for b.Loop() {
		if err := errors.Join(trySet(files, a), trySet(files)); err != nil {
			b.Fatal(err)
		}
	}
}
