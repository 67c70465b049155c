package history

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// maxLine bounds a line of a stream, in bytes: a quoted path of 4,096 bytes, or an author.
const maxLine = 64 << 10

// Filter copies a stream without the files for which drop returns true, and returns the number of
// changes that were left out. drop gets a path as the commit has it. KindUnsupported for a stream
// that git fast-export --no-data does not make.
func Filter(dst io.Writer, src io.Reader, drop func(path string) bool) (dropped int, err error) {
	in, out := bufio.NewReaderSize(src, maxLine), bufio.NewWriterSize(dst, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return dropped, out.Flush()
		}
		if err != nil {
			if err == io.EOF || err == bufio.ErrBufferFull {
				err = unsupported("a line is incomplete or too long")
			}
			return dropped, err
		}
		skip, data, err := look(string(line[:len(line)-1]), drop)
		if err != nil {
			return dropped, err
		}
		if skip {
			dropped++
			continue
		}
		if _, err := out.Write(line); err != nil {
			return dropped, err
		}
		if data > 0 {
			if n, err := io.CopyN(out, in, data); err != nil {
				if n < data && err == io.EOF {
					err = unsupported("it ends in a message")
				}
				return dropped, err
			}
		}
	}
}

// look reports whether a line is left out, and how many bytes of data follow it.
func look(line string, drop func(string) bool) (skip bool, data int64, err error) {
	command, rest, _ := strings.Cut(line, " ")
	switch command {
	case "", "feature", "reset", "commit", "mark", "author", "committer", "encoding", "from", "merge", "done", "original-oid", "progress", "checkpoint":
		return false, 0, nil
	case "data":
		data, err = strconv.ParseInt(rest, 10, 64)
		if err != nil || data < 0 {
			return false, 0, unsupported("a length is malformed")
		}
		return false, data, nil
	case "M":
		// Mode, hash and path.
		f := strings.SplitN(rest, " ", 3)
		if len(f) != 3 || f[0] == "040000" || strings.HasPrefix(f[1], ":") || f[1] == "inline" {
			return false, 0, unsupported("a change is malformed")
		}
		rest = f[2]
	case "D":
	default:
		return false, 0, unsupported("unknown command")
	}
	p, err := unquote(rest)
	if err != nil {
		return false, 0, err
	}
	return drop(p), 0, nil
}

func unsupported(why string) error {
	return api.Errorf(api.KindUnsupported, "the history cannot be read from git fast-export: %s", why)
}

// unquote reads a path, which is in quotes if it has special characters.
func unquote(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		if s == "" {
			return "", unsupported("a path is empty")
		}
		return s, nil
	}
	bad := unsupported("a path is malformed")
	s = s[1:]
	var b bytes.Buffer
	for {
		if s == "" {
			return "", bad
		}
		c := s[0]
		s = s[1:]
		switch {
		case c == '"' && s == "" && b.Len() > 0:
			return b.String(), nil
		case c == '"' || c != '\\':
			if c == '"' {
				return "", bad
			}
			b.WriteByte(c)
			continue
		case s == "":
			return "", bad
		}
		c = s[0]
		s = s[1:]
		if i := strings.IndexByte(`abtnvfr"\`, c); i >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r\"\\"[i])
			continue
		}
		if len(s) < 2 {
			return "", bad
		}
		n, err := strconv.ParseUint(string(c)+s[:2], 8, 8)
		if err != nil {
			return "", bad
		}
		s = s[2:]
		b.WriteByte(byte(n))
	}
}
