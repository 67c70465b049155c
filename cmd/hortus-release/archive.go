package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"time"
)

// file is one file of an archive.
type file struct {
	name string // relative to the archive's top directory
	path string
	mode int64
}

// writeTar writes a compressed tar archive with the files in the given order, below the
// directory dir.
func writeTar(w io.Writer, dir string, files []file, at time.Time) error {
	// The gzip header has neither a time nor a system.
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		err = t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: dir + "/" + f.name, Size: int64(len(content)), Mode: f.mode, ModTime: at, Format: tar.FormatUSTAR,
		})
		if err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// writeZip writes the same as a zip archive.
func writeZip(w io.Writer, dir string, files []file, at time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(f.mode))
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(content); err != nil {
			return err
		}
	}
	return z.Close()
}
