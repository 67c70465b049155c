package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The package's files that differ from those of an archive.
const (
	packageBinary = "/usr/bin/hortus"
	// removedByUninstall is the mark of files that "hortus uninstall" removes. Files of a
	// package do not have it, because dpkg removes them.
	removedByUninstall = `"hortus uninstall" removes it`
)

// packageFile is one file of a Debian package.
type packageFile struct {
	name     string // absolute
	content  []byte
	mode     int64
	conffile bool
}

// debFiles returns the files of the Debian package for a release's binary and its
// third-party licenses, sorted by name.
func debFiles(binary string, licenses []byte, version string, at time.Time) ([]packageFile, error) {
	var out []packageFile
	for name, content := range map[string][]byte{
		"THIRD_PARTY_LICENSES.gz": licenses,
		"changelog.gz": fmt.Appendf(nil, "hortus (%s) stable; urgency=medium\n\n  * Release %s.\n\n -- %s  %s\n",
			debVersion(version), version, maintainer, at.Format("Mon, 02 Jan 2006 15:04:05 +0000")),
	} {
		packed, err := compress(content)
		if err != nil {
			return nil, err
		}
		out = append(out, packageFile{name: "/usr/share/doc/hortus/" + name, content: packed})
	}
	for _, f := range []struct {
		name, source   string
		mode           int64
		conffile, unit bool
	}{
		{name: packageBinary, source: binary, mode: 0o755},
		{name: "/etc/hortus/config.toml", source: "packaging/deb/config.toml", conffile: true},
		{name: "/usr/lib/systemd/system/hortus.service", source: "packaging/systemd/hortus.service", unit: true},
		{name: "/usr/lib/systemd/user/hortus.service", source: "packaging/systemd/user/hortus.service", unit: true},
		{name: "/usr/share/bash-completion/completions/hortus", source: "internal/cli/completion/scripts/hortus.bash"},
		{name: "/usr/share/zsh/vendor-completions/_hortus", source: "internal/cli/completion/scripts/hortus.zsh"},
		{name: "/usr/share/fish/vendor_completions.d/hortus.fish", source: "internal/cli/completion/scripts/hortus.fish"},
		{name: "/usr/share/doc/hortus/copyright", source: "LICENSE"},
		{name: "/usr/share/doc/hortus/README.md", source: "README.md"},
	} {
		content, err := os.ReadFile(f.source)
		if err != nil {
			return nil, err
		}
		if f.name != packageBinary {
			content = bytes.ReplaceAll(content, []byte(removedByUninstall), []byte("the package hortus owns this file"))
		}
		if f.unit {
			old := []byte("\nExecStart=/usr/local/bin/hortus ")
			if bytes.Count(content, old) != 1 {
				return nil, fmt.Errorf("%s does not start /usr/local/bin/hortus", f.source)
			}
			content = bytes.Replace(content, old, []byte("\nExecStart="+packageBinary+" "), 1)
		}
		out = append(out, packageFile{name: f.name, content: content, mode: f.mode, conffile: f.conffile})
	}
	for i := range out {
		if out[i].mode == 0 {
			out[i].mode = 0o644
		}
	}
	slices.SortFunc(out, func(a, b packageFile) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

const maintainer = "Hortus maintainers <maintainers@hortus.dev>"

// describeForm matches what git describe appends to a tag: the number of commits since,
// and the commit.
var describeForm = regexp.MustCompile(`-(\d+-g[0-9a-f]+)`)

// debVersion returns the Debian version of a release's version. Pre-releases (v1.2.0-rc1)
// sort before the release, and commits after a tag (v1.2.0-4-gabc) after it. A text that
// is not a version number sorts before all versions.
func debVersion(version string) string {
	v := strings.TrimPrefix(version, "v")
	if !regexp.MustCompile(`^\d+\.\d`).MatchString(v) {
		v = "0~" + version
	}
	v = describeForm.ReplaceAllString(v, "+$1")
	if i := strings.IndexAny(v, "-+~"); i > 0 && v[i] == '-' {
		v = v[:i] + "~" + v[i+1:]
	}
	return strings.ReplaceAll(v, "-", ".") // a hyphen would begin a Debian revision
}

// writeDeb writes a Debian package: an ar archive of the format's version, the control
// files and the files to install. The same input produces the same bytes.
func writeDeb(w io.Writer, arch, version string, files []packageFile, at time.Time) error {
	var installed int
	var sums, conffiles bytes.Buffer
	for _, f := range files {
		installed += (len(f.content) + 1023) / 1024
		if f.conffile {
			fmt.Fprintln(&conffiles, f.name)
			continue
		}
		sum := md5.Sum(f.content)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), f.name[1:])
	}
	control := []packageFile{
		{name: "/conffiles", content: conffiles.Bytes(), mode: 0o644},
		{name: "/control", content: fmt.Appendf(nil, controlText, debVersion(version), arch, maintainer, installed), mode: 0o644},
		{name: "/md5sums", content: sums.Bytes(), mode: 0o644},
	}
	for _, name := range []string{"postinst", "postrm", "prerm"} {
		content, err := os.ReadFile("packaging/deb/" + name)
		if err != nil {
			return err
		}
		control = append(control, packageFile{name: "/" + name, content: content, mode: 0o755})
	}
	head, err := debTar(control, at)
	if err != nil {
		return err
	}
	data, err := debTar(files, at)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "!<arch>\n"); err != nil {
		return err
	}
	for _, m := range []struct {
		name    string
		content []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", head}, {"data.tar.gz", data}} {
		_, err := fmt.Fprintf(w, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, at.Unix(), 0, 0, 0o100644, len(m.content))
		if err == nil {
			_, err = w.Write(m.content)
		}
		if err == nil && len(m.content)%2 == 1 {
			_, err = w.Write([]byte("\n"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const controlText = `Package: hortus
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Section: devel
Priority: optional
Homepage: https://hortus.dev
Recommends: ca-certificates, git
Suggests: python3
Description: isolated sandboxes for coding agents
 Hortus runs untrusted, AI-generated code in isolated sandboxes,
 repairs it when it fails, and returns verified results.
 .
 This package contains the program with gVisor, units for systemd (not enabled),
 and shell completion.
`

// parents returns the parent directories of the files, each before its contents.
func parents(files []packageFile) []string {
	var out []string
	for _, f := range files {
		for d := path.Dir(f.name); d != "/"; d = path.Dir(d) {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func compress(content []byte) ([]byte, error) {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(content)
	err = errors.Join(err, z.Close())
	return buf.Bytes(), err
}
