package body

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"hortus.dev/api"
)

// Type is the media type of what is read and written.
const Type = "application/json"

// Form is how a server takes bodies.
type Form struct {
	// Max bounds one, in bytes.
	Max int64
	// Member is what the server's people call a member of the object: an option, a field.
	Member string
}

// Decode reads a request's one JSON value into out. Errors are of KindInvalid, and say
// what is wrong with the body.
func (f Form) Decode(w http.ResponseWriter, r *http.Request, out any) error {
	doc, err := f.Read(w, r)
	if err != nil {
		return err
	}
	if err = api.CheckJSON(doc); err != nil {
		return err
	}
	if string(bytes.TrimSpace(doc)) == "null" {
		return api.Errorf(api.KindInvalid, "the request is null; a JSON object is expected") // it would leave out as it is
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	err = dec.Decode(out)
	if err != nil {
		return f.wrong(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.KindInvalid, "the request has more than one JSON value")
	}
	return nil
}

// DecodeAny is Decode of a request that may have no body at all.
func (f Form) DecodeAny(w http.ResponseWriter, r *http.Request, out any) error {
	body := bufio.NewReader(r.Body)
	if _, err := body.Peek(1); errors.Is(err, io.EOF) {
		return nil
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	return f.Decode(w, r, out)
}

// None refuses the body of a request that takes none: it would be ignored. An empty object says nothing.
func (f Form) None(w http.ResponseWriter, r *http.Request) error {
	return f.DecodeAny(w, r, &struct{}{})
}

// Read reads a request's body as it is.
func (f Form) Read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if how := r.Header.Get("Content-Encoding"); how != "" && !strings.EqualFold(how, "identity") {
		return nil, api.Errorf(api.KindInvalid, "the content encoding %.40q of the request is not supported", how).WithHint("send the body as it is")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, f.Max))
	if err != nil {
		return nil, f.wrong(err)
	}
	return b, nil
}

// wrong returns why a body cannot be read.
func (f Form) wrong(err error) error {
	var tooLarge *http.MaxBytesError
	var badType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &tooLarge):
		return api.Errorf(api.KindInvalid, "the request has more than %d bytes", f.Max)
	case errors.As(err, &badType) && badType.Field == "":
		return api.Errorf(api.KindInvalid, "the request is %.100s; a JSON object is expected", badType.Value)
	case errors.As(err, &badType):
		return api.Errorf(api.KindInvalid, "%s %.100q cannot be %.100s: %s", f.Member, badType.Field, badType.Value, expected(badType))
	case errors.Is(err, io.EOF):
		return api.Errorf(api.KindInvalid, "the request is empty; a JSON object is expected")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		return api.Errorf(api.KindInvalid, "unknown %s %.100s", f.Member, name)
	}
	return api.Errorf(api.KindInvalid, "the request is malformed: %.200s", text)
}

// expected says what a member of another type should have been.
func expected(bad *json.UnmarshalTypeError) string {
	what := "an object"
	switch k := bad.Type.Kind(); {
	case k >= reflect.Int && k <= reflect.Uint64:
		if digits, ok := strings.CutPrefix(bad.Value, "number "); ok && !strings.ContainsAny(digits, ".eE") {
			return "it is out of range"
		}
		what = "a whole number"
	case k == reflect.Float32 || k == reflect.Float64:
		what = "a number"
	case k == reflect.Bool:
		what = "true or false"
	case k == reflect.String:
		what = "a string"
	case k == reflect.Slice && bad.Type.Elem().Kind() == reflect.Uint8:
		what = "a string in base64"
	case k == reflect.Slice || k == reflect.Array:
		what = "an array"
	}
	return what + " is expected"
}

// Answer writes a value as JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", Type)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone: nobody is left to tell
}
