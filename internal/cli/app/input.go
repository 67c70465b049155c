package app

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"hortus.dev/api"
)

// MaxCaptured bounds the output that --json collects, in bytes.
const MaxCaptured = 64 << 20

// ReadInput reads an argument's file, or stdin for "-", up to a bound.
func (a *App) ReadInput(name string) ([]byte, error) {
	r := a.Env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "read the input: %w", err)
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindInvalid, "read the input %s: %w", name, err)
	case len(b) > maxInput:
		return nil, api.Errorf(api.KindInvalid, "the input %s has more than %d bytes", name, maxInput)
	}
	return b, nil
}

// ReadArgument returns the text of an argument, or of stdin when it is "-", without spaces
// around it.
func (a *App) ReadArgument(text string) (string, error) {
	if text == "-" {
		b, err := a.ReadInput("-")
		if err != nil {
			return "", err
		}
		text = string(b)
	}
	return strings.TrimSpace(text), nil
}

// maxInput bounds what is read whole from a file or stdin, in bytes.
const maxInput = 2 << 20

// ReadJSON reads one JSON document strictly.
func (a *App) ReadJSON(name string, out any) error {
	b, err := a.ReadInput(name)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return api.Errorf(api.KindInvalid, "%s is not as expected: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.KindInvalid, "%s has more than one JSON document", name)
	}
	return nil
}
