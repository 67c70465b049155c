package trust

import (
	"bytes"
	"crypto/x509"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// change replaces the authorities in every trust store.
type change struct {
	files    tree
	certs    []*x509.Certificate // none to remove them
	section  []byte              // for bundles
	failures []error
}

// note records a failure. The others are changed nevertheless.
func (c *change) note(file string, err error) {
	if err != nil {
		c.failures = append(c.failures, &os.PathError{Op: "change", Path: file, Err: err})
	}
}

func (c *change) run() {
	c.section = section(c.certs)
	system := ""
	for _, file := range bundles {
		done, err := c.bundle(file)
		c.note(file, err)
		if done && system == "" {
			system = file
		}
	}
	if system == "" && len(c.certs) > 0 {
		if _, err := c.files.stat(defaultBundle); err == unix.ENOENT {
			if err := c.files.replace(defaultBundle, c.section, own); err == nil {
				system = defaultBundle
			} else if !absent(err) { // a directory that is a link has another use
				c.note(defaultBundle, err)
			}
		}
	}
	c.own(system)
	for _, dir := range directories {
		c.note(dir, c.directory(dir))
	}
	for _, dir := range anchors {
		if st, err := c.files.stat(dir); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			c.note(dir, c.keep(dir+"/"+aliasPrefix+"ca.pem", c.section, own))
		}
	}
	for _, file := range keystores {
		c.note(file, c.keystore(file, system))
	}
	if len(c.certs) == 0 {
		c.files.removeDir(Dir)
	}
}

// keep makes a file have a content; nil removes it. It does nothing if it has it already.
func (c *change) keep(file string, data []byte, a attributes) error {
	if data == nil {
		return c.files.remove(file)
	}
	if old, _, err := c.files.read(file); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return c.files.replace(file, data, a)
}

// bundle changes a bundle. It returns false if there is none.
func (c *change) bundle(file string) (bool, error) {
	old, st, err := c.files.read(file)
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now := merge(old, c.section)
	switch {
	case bytes.Equal(now, old):
		return true, nil
	case len(bytes.TrimSpace(now)) == 0: // made by this package
		return false, c.files.remove(file)
	}
	return true, c.files.replace(file, now, like(&st))
}

// own changes the files of this package. system is the bundle of the system, "" for none.
func (c *change) own(system string) {
	c.note(AuthorityFile, c.keep(AuthorityFile, c.section, own))
	switch {
	case len(c.certs) == 0:
		c.note(BundleFile, c.files.remove(BundleFile))
	case system == "":
		c.note(BundleFile, c.keep(BundleFile, c.section, own))
	case c.files.readLink(BundleFile) != system:
		c.note(BundleFile, c.files.link(BundleFile, system))
	}
	if len(c.certs) == 0 || system != defaultBundle {
		c.note(hookFile, c.files.remove(hookFile))
		return
	}
	executable := own
	executable.mode = 0o755
	c.note(hookFile, c.keep(hookFile, []byte(hook), executable))
}

// directory changes a directory of certificates.
func (c *change) directory(dir string) error {
	names, err := c.files.list(dir)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var failures []error
	note := func(err error) {
		if err != nil {
			failures = append(failures, err)
		}
	}
	ours := func(name string) bool {
		return strings.HasPrefix(name, aliasPrefix) || strings.HasPrefix(names[name], aliasPrefix)
	}
	files, links := map[string][]byte{}, map[string]string{}
	for i, cert := range c.certs {
		name := aliasPrefix + strconv.Itoa(i+1) + ".pem"
		files[name] = encode(cert)
		hash, err := subjectHash(cert.RawSubject)
		note(err)
		for n := 0; err == nil; n++ {
			link := hash + "." + strconv.Itoa(n)
			if _, exists := names[link]; links[link] == "" && (!exists || ours(link)) {
				links[link] = name
				break
			}
		}
	}
	for name := range names {
		if ours(name) && files[name] == nil && links[name] == "" {
			note(c.files.remove(path.Join(dir, name)))
		}
	}
	for name, data := range files {
		note(c.keep(path.Join(dir, name), data, own))
	}
	for name, target := range links {
		if names[name] != target {
			note(c.files.link(path.Join(dir, name), target))
		}
	}
	return errors.Join(failures...)
}

// hashed reports whether a name is one of OpenSSL's links: eight hexadecimal digits, a dot and
// a number.
func hashed(name string) bool {
	hash, n, ok := strings.Cut(name, ".")
	_, err := strconv.ParseUint(hash, 16, 32)
	_, err2 := strconv.ParseUint(n, 10, 16)
	return ok && len(hash) == 8 && err == nil && err2 == nil
}

// kept is the suffix of a keystore that was replaced by one in the format JKS.
const kept = ".hortus-original"

// derSequence is the first byte of a keystore in the format PKCS 12, which new versions of Java
// make.
const derSequence = 0x30

// keystore changes a keystore of Java. system is the bundle with the roots of one that is made
// anew.
func (c *change) keystore(file, system string) error {
	old, st, err := c.files.read(file)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(c.certs) == 0 {
		if _, err := c.files.stat(file + kept); err == nil {
			return c.files.rename(file+kept, path.Base(file))
		}
	}
	ders := make([][]byte, len(c.certs))
	for i, cert := range c.certs {
		ders[i] = cert.Raw
	}
	now, err := mergeKeystore(old, ders, time.Now())
	if err == errNotJKS && bytes.HasPrefix(old, []byte{derSequence}) {
		if len(c.certs) == 0 {
			return nil
		}
		if now, err = c.newKeystore(system); err != nil {
			return err
		}
		if err := c.files.replace(file+kept, old, like(&st)); err != nil {
			return err
		}
	}
	if err != nil || bytes.Equal(now, old) {
		return err
	}
	return c.files.replace(file, now, like(&st))
}

// newKeystore makes a keystore with the roots of the system and the authorities.
func (c *change) newKeystore(system string) ([]byte, error) {
	if system == "" {
		return nil, errNotJKS
	}
	bundle, _, err := c.files.read(system)
	if err != nil {
		return nil, err
	}
	roots := ders(merge(bundle, nil), maxEntries/2)
	if len(roots) == 0 {
		return nil, errNotJKS
	}
	ours := make([][]byte, len(c.certs))
	for i, cert := range c.certs {
		ours[i] = cert.Raw
	}
	now := time.Now()
	return newKeystore(append(newEntries("root-", roots, now), newEntries(aliasPrefix, ours, now)...)), nil
}
