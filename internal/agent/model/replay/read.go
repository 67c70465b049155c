package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"hortus.dev/api"
)

// Recording is what a recorder wrote.
type Recording struct {
	// Note is what a person should know of it: that its last line is cut.
	Note string

	models    map[string]string
	exchanges []exchange
}

// Len counts the exchanges.
func (r *Recording) Len() int { return len(r.exchanges) }

// Redacted counts the places where a secret was taken out.
func (r *Recording) Redacted() (n int) {
	for i := range r.exchanges {
		n += r.exchanges[i].Redacted
	}
	return n
}

// Models names the recorded models by what each was for; nil where the recorder
// received nothing.
func (r *Recording) Models() map[string]string { return r.models }

// Parse reads a recording. A last line that was cut is left out, with a note.
// Everything else that is not as a recorder wrote it is KindInvalid: a line that
// is no exchange, a missing one, a request that was changed afterwards.
func Parse(r io.Reader) (*Recording, error) {
	in := &lines{r: bufio.NewReaderSize(r, 64<<10)}
	rec := &Recording{}
	var h header
	first, whole, err := in.next()
	if err != nil && err != io.EOF {
		return nil, err
	}
	if err == io.EOF || strict(first, &h) != nil || h.Version == 0 {
		return nil, api.Errorf(api.KindInvalid, "not a recording: the first line is not a recording header").
			WithHint("Create one: hortus run --record FILE.")
	}
	if h.Version != version {
		return nil, api.Errorf(api.KindInvalid, "the recording has format version %d; this build supports version %d", h.Version, version)
	}
	if len(h.Models) > maxModels {
		return nil, api.Errorf(api.KindInvalid, "the recording has %d models; the maximum is %d", len(h.Models), maxModels)
	}
	for role, name := range h.Models {
		if len(role) > maxName || len(name) > maxName {
			return nil, api.Errorf(api.KindInvalid, "a model's name in the recording has more than %d bytes", maxName)
		}
	}
	rec.models = h.Models
	for whole {
		var line []byte
		if line, whole, err = in.next(); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if len(rec.exchanges) == MaxExchanges {
			return nil, api.Errorf(api.KindInvalid, "the recording has more than %d exchanges", MaxExchanges)
		}
		var e exchange
		err := strict(line, &e)
		if err != nil && !whole {
			rec.Note = "the last line of the recording is truncated and was ignored"
			break
		}
		if err == nil {
			err = e.check()
		}
		switch {
		case err != nil:
		case e.N != len(rec.exchanges)+1:
			err = errors.New("it is not the next exchange; a line is missing or duplicated")
		case e.Fingerprint != fingerprint(e.Request):
			err = errors.New("its request does not match its fingerprint: it was changed")
		}
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "line %d of the recording is damaged: %w", in.n, err)
		}
		rec.exchanges = append(rec.exchanges, e)
	}
	return rec, nil
}

// strict reads exactly one JSON value without unknown fields.
func strict(b []byte, out any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("data follows the JSON value")
	}
	return nil
}

// lines reads bounded lines.
type lines struct {
	r     *bufio.Reader
	n     int
	total int
}

// next returns a line without its end, and whether it had one; io.EOF after the
// last. The line is valid until the next call.
func (l *lines) next() (line []byte, whole bool, err error) {
	l.n++
	for {
		piece, err := l.r.ReadSlice('\n')
		l.total += len(piece)
		switch {
		case len(line)+len(piece) > MaxLine:
			return nil, false, api.Errorf(api.KindInvalid, "line %d of the recording has more than %d bytes", l.n, MaxLine)
		case l.total > MaxBytes:
			return nil, false, api.Errorf(api.KindInvalid, "the recording has more than %d bytes", MaxBytes)
		}
		if err == nil && line == nil {
			return piece[:len(piece)-1], true, nil
		}
		line = append(line, piece...)
		switch {
		case err == nil:
			return line[:len(line)-1], true, nil
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, false, io.EOF
		case errors.Is(err, io.EOF):
			return line, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, api.Errorf(api.KindUnavailable, "read the recording: %w", err)
		}
	}
}
