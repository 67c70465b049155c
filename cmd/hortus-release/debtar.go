package main

import (
	"archive/tar"
	"bytes"
	"time"
)

// debTar returns the compressed tar archive of one part of a Debian package, with the
// directories that the files are in.
func debTar(files []packageFile, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	t := tar.NewWriter(&buf)
	header := tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755, ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatGNU}
	if err := t.WriteHeader(&header); err != nil {
		return nil, err
	}
	for _, d := range parents(files) {
		header.Name = "." + d + "/"
		if err := t.WriteHeader(&header); err != nil {
			return nil, err
		}
	}
	header.Typeflag = tar.TypeReg
	for _, f := range files {
		header.Name, header.Mode, header.Size = "."+f.name, f.mode, int64(len(f.content))
		if err := t.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return compress(buf.Bytes())
}
