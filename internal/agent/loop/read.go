package loop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"hortus.dev/api"
)

// ReadTranscript reads what a loop wrote, and calls each for every entry in order;
// an error of each ends it and is returned. Of a writer that died the last line may
// be cut: it is left out, and cut is true. Everything else that no loop writes is
// KindInvalid.
//
// A transcript is untrusted: lines, entries and all of it are bounded, and one
// entry at a time is held.
func ReadTranscript(r io.Reader, each func(Entry) error) (cut bool, err error) {
	in := bufio.NewReaderSize(io.LimitReader(r, MaxTranscript+1), 64<<10)
	var line []byte
	size := 0
	for n := 1; ; n++ {
		var end error
		if line, end = readLine(in, line[:0]); end != nil && !errors.Is(end, io.EOF) {
			return false, api.Errorf(api.KindOf(end), "read line %d of the transcript: %w", n, end)
		}
		if size += len(line) + 1; size > MaxTranscript+1 {
			return false, api.Errorf(api.KindInvalid, "the transcript has more than %d bytes", MaxTranscript)
		}
		if len(line) == 0 && end != nil {
			return false, nil
		}
		if n > MaxTranscriptEntries {
			return false, api.Errorf(api.KindInvalid, "the transcript has more than %d lines", MaxTranscriptEntries)
		}
		e, err := parseEntry(line)
		switch {
		case err != nil && end != nil:
			return true, nil
		case err != nil:
			return false, api.Errorf(api.KindInvalid, "line %d of the transcript is damaged: %w", n, err)
		case e.N != n:
			return false, api.Errorf(api.KindInvalid, "line %d of the transcript has the wrong number %d", n, e.N)
		}
		if err := each(e); err != nil {
			return false, err
		}
		if end != nil {
			return false, nil
		}
	}
}

// readLine returns a line without its end; with io.EOF it had none.
func readLine(in *bufio.Reader, line []byte) ([]byte, error) {
	for {
		piece, err := in.ReadSlice('\n')
		if len(line)+len(piece) > MaxTranscriptLine {
			return nil, api.Errorf(api.KindInvalid, "the line has more than %d bytes", MaxTranscriptLine)
		}
		line = append(line, piece...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF):
			return line, io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func parseEntry(line []byte) (Entry, error) {
	var e Entry
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return e, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return e, errors.New("data follows the JSON value")
	}
	switch {
	case !slices.Contains(entryKinds[:], e.Kind):
		return e, errors.New("it is of an unknown kind")
	case e.Round < 0 || e.Step < 0 || e.MS < 0 || len(e.Calls) > maxCalls:
		return e, errors.New("a count is out of range")
	}
	text := len(e.Text)
	for _, c := range e.Calls {
		text += len(c.Input)
	}
	if text > MaxTranscriptText+maxCalls*64 {
		return e, errors.New("its text is too long")
	}
	return e, nil
}
