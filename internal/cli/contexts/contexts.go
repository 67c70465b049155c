package contexts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

// Local is the name of this machine's own daemon.
const Local = "local"

// NotFound is the error for a context that does not exist.
func NotFound(name string) error {
	return api.Errorf(api.KindNotFound, "unknown context %.80q", name).WithHint("hortus context ls lists them; an address begins with http:// or https://")
}

// File is the file that names daemons of other machines.
type File struct {
	Current  string            `json:"current,omitempty"`
	Contexts map[string]Daemon `json:"contexts"`
}

// Daemon is a daemon of another machine.
type Daemon struct {
	Host string `json:"host"`
	Key  string `json:"key"`
}

const (
	// maxContextsFile bounds the file, in bytes, and maxContexts what it names.
	maxContextsFile = 1 << 20
	Max             = 1000
)

// Load reads the file; none is an empty one. One that others can read is refused:
// there are keys in it. One that is not as it should be stays as it is: anyone who would
// write it anew has read it before.
func Load(path string) (File, error) {
	none := File{Contexts: map[string]Daemon{}}
	b, err := readContexts(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	out, err := parseContexts(b)
	if err != nil {
		return none, api.Errorf(api.KindInvalid, "%s is not as expected: %w", path, err).
			WithHint("correct it by hand; or move it away (mv %s %s.old) and add the contexts again with hortus context add", path, path)
	}
	return out, nil
}

// readContexts reads the file's bytes. Nothing there is fs.ErrNotExist.
func readContexts(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	if runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0 {
		return nil, api.Errorf(api.KindDenied, "%s contains API keys and other users can read it", path).WithHint("chmod 600 %s", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxContextsFile+1))
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	if len(b) > maxContextsFile {
		return nil, api.Errorf(api.KindInvalid, "%s has more than %d bytes: it is not a contexts file", path, maxContextsFile).
			WithHint("move it away: mv %s %s.old", path, path)
	}
	return b, nil
}

// parseContexts reads the file's text. It takes nothing that it would not write: what is
// named twice, or unknown, is somebody's mistake, and which half was meant is not known.
// Errors hold no keys, and no passwords of addresses.
func parseContexts(b []byte) (File, error) {
	var out File
	switch text := bytes.TrimSpace(b); {
	case len(text) == 0:
		return out, errors.New("it is empty")
	case text[0] != '{':
		return out, errors.New("it does not begin with {")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return File{}, plainJSON(b, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return File{}, fmt.Errorf("unexpected data after its end, in line %d", lineAt(b, dec.InputOffset()))
	}
	if err := checkOnce(b); err != nil {
		return File{}, err
	}
	if len(out.Contexts) > Max {
		return File{}, fmt.Errorf("it has %d contexts; the maximum is %d", len(out.Contexts), Max)
	}
	if out.Contexts == nil {
		out.Contexts = map[string]Daemon{}
	}
	for name, r := range out.Contexts {
		if err := CheckName(name); err != nil {
			return File{}, err
		}
		if err := r.Check(); err != nil {
			return File{}, fmt.Errorf("context %q: %w", name, err)
		}
	}
	if out.Current != "" {
		if err := CheckName(out.Current); err != nil {
			return File{}, fmt.Errorf("current: %w", err)
		}
	}
	return out, nil
}

// plainJSON returns what is wrong with a text, and in which line. The decoder's own words
// name the type in this program.
func plainJSON(b []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", lineAt(b, syntax.Offset), syntax)
	case errors.As(err, &kind):
		want := "object"
		if kind.Type.Kind() == reflect.String {
			want = "text"
		}
		return fmt.Errorf("line %d: %.100q is a %.20s, not %s", lineAt(b, kind.Offset), kind.Field, kind.Value, want)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is truncated")
	}
	return fmt.Errorf("%.200s", strings.TrimPrefix(err.Error(), "json: "))
}

// lineAt is the number of the line that holds a byte.
func lineAt(b []byte, offset int64) int {
	return 1 + bytes.Count(b[:min(max(offset-1, 0), int64(len(b)))], []byte("\n"))
}

// checkOnce finds a name that one object has twice, in large or small letters: of a
// field that is there twice the decoder takes the last, and a program that wrote the
// file may have meant the first. The text is one value, as deep as contexts is.
func checkOnce(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	var open []map[string]bool // of each value that is open; nil for a list
	name := false              // a name comes next
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return plainJSON(b, err)
		}
		switch v := tok.(type) {
		case json.Delim:
			switch v {
			case '{':
				open, name = append(open, map[string]bool{}), true
				continue
			case '[':
				open, name = append(open, nil), false
				continue
			}
			open = open[:len(open)-1]
		case string:
			if name {
				seen, low := open[len(open)-1], strings.ToLower(strings.ToUpper(v)) // as the decoder compares
				if seen[low] {
					return fmt.Errorf("line %d: %.80q is listed twice", lineAt(b, dec.InputOffset()), v)
				}
				seen[low], name = true, false
				continue
			}
		}
		name = len(open) > 0 && open[len(open)-1] != nil
	}
}

// Check returns what is wrong with a daemon's address or key, without either.
func (r Daemon) Check() error {
	if r.Host == "" {
		return errors.New("the URL is missing")
	}
	u, err := url.Parse(r.Host)
	if err != nil {
		return errors.New("the address is not a URL")
	}
	if u.User != nil || strings.ContainsAny(r.Host, "?#") {
		return errors.New("the URL has a user name, a password or a query; remove it, and set the key with --key-file")
	}
	c, err := client.Remote(r.Host, r.Key)
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// save writes the file, whole or not at all, for its user alone.
func (c File) save(path string) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return api.Errorf(api.KindInternal, "contexts: %w", err)
	}
	// What could not be read again would be lost.
	if b = append(b, '\n'); len(b) > maxContextsFile || len(c.Contexts) > Max {
		return api.Errorf(api.KindExhausted, "%s is full: it has %d contexts, and the maximum is %d bytes", path, len(c.Contexts)-1, maxContextsFile).
			WithHint("remove one: hortus context rm NAME")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".contexts-*") // with mode 0600
	if err != nil {
		return api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	return nil
}

// CheckName refuses what cannot name a context.
func CheckName(name string) error {
	if name == "" || name == Local || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		return api.Errorf(api.KindInvalid, "%.80q is not a valid context name", name).
			WithHint("it has 1 to 63 lower-case letters, digits, \".\", \"_\" and \"-\"; %q is this machine", Local)
	}
	return nil
}

const (
	// contextsLock is the name of the file, beside that of the contexts, which anyone who
	// changes them holds locked. It is empty and stays.
	contextsLock = ".contexts.lock"
	// lockWait bounds the wait for another process's change, which takes milliseconds.
	lockWait = 10 * time.Second
)

// errLocked reports that another process holds a lock.
var errLocked = errors.New("locked by another process")

// Change reads the file, has it changed and writes it. Two commands at once do
// so one after the other: neither loses what the other did. After an error of change
// nothing is written.
func Change(ctx context.Context, path string, change func(*File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(path), contextsLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	defer lock.Close() // which ends the lock
	if err := awaitLock(ctx, lock); err != nil {
		return err
	}
	all, err := Load(path)
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	return all.save(path)
}

// awaitLock locks a file, once nobody else has it locked.
func awaitLock(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errLocked)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := lockFile(f)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errLocked) {
			return api.Errorf(api.KindInvalid, "lock %s: %w", f.Name(), err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != errLocked {
				return api.Errorf(api.KindOf(ctx.Err()), "lock %s: %w", f.Name(), cause)
			}
			return api.Errorf(api.KindTimeout, "another hortus process is changing the contexts for %s: %s is locked", lockWait, f.Name()).
				WithHint("retry when it has ended")
		}
	}
}
