package preset

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxFile  = 256 << 10 // bytes of a file
	maxFiles = 256       // of a directory
	maxLines = 10_000    // of a file
)

// getenv returns the first variable that is set.
func (c *collector) getenv(names ...string) string {
	for _, n := range names {
		if v := c.config.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// home returns a path below the home directory, or "".
func (c *collector) home(path string) string {
	if c.config.Home == "" {
		return ""
	}
	return filepath.Join(c.config.Home, path)
}

// userConfig returns a path below the user's directory for configuration, or "".
func (c *collector) userConfig(path string) string {
	if dir := c.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, path)
	}
	return c.home(filepath.Join(".config", path))
}

// file returns the lines of a file, none if there is no such file or it cannot be used.
func (c *collector) file(path string) []string {
	if path == "" || c.ctx.Err() != nil {
		return nil
	}
	text, err := readFile(filepath.Join(c.config.Root, path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		c.warn(fmt.Sprintf("%s was not read: %v.", path, reason(err)))
		return nil
	}
	return lines(text)
}

// reason is an error without the path that it is about.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func readFile(path string) (string, error) {
	// A pipe would wait for its other end.
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return string(b), nil
}

// lines returns the first lines of a text, without their ends.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		if len(out) == maxLines {
			break
		}
		out = append(out, strings.TrimRight(line, "\r\n"))
	}
	return out
}

// directory returns the paths of a directory's files, in order.
func (c *collector) directory(path string) []string {
	f, err := os.Open(filepath.Join(c.config.Root, path))
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, err := f.ReadDir(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		c.warn(fmt.Sprintf("%s was not read: %v.", path, reason(err)))
		return nil
	}
	if len(entries) > maxFiles {
		c.warn(fmt.Sprintf("%s has more than %d files; the rest is left out.", path, maxFiles))
		entries = entries[:maxFiles]
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(path, e.Name()))
	}
	slices.Sort(out)
	return out
}
