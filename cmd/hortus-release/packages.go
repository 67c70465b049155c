package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// deb writes the Debian package of a Linux binary and returns its name.
func (b builder) deb(out, binary string, licenses []byte) (string, error) {
	files, err := debFiles(binary, licenses, b.version, b.at)
	if err != nil {
		return "", err
	}
	var buf bytes.Buffer
	// Debian uses the same names as Go for these architectures.
	if err := writeDeb(&buf, b.arch, b.version, files, b.at); err != nil {
		return "", err
	}
	name := fmt.Sprintf("hortus_%s_linux_%s.deb", b.version, b.arch)
	return name, os.WriteFile(filepath.Join(out, name), buf.Bytes(), 0o644)
}

// writeContainerfile writes the container file of a version and returns its name.
func writeContainerfile(out, version string) (string, error) {
	content, err := os.ReadFile("packaging/container/Containerfile")
	if err != nil {
		return "", err
	}
	mark := []byte("\nARG VERSION=unset\n")
	if bytes.Count(content, mark) != 1 {
		return "", errors.New("packaging/container/Containerfile has no line ARG VERSION=unset")
	}
	content = bytes.Replace(content, mark, []byte("\nARG VERSION="+version+"\n"), 1)
	name := "hortus_" + version + "_Containerfile"
	return name, os.WriteFile(filepath.Join(out, name), content, 0o644)
}
