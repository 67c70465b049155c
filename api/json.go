package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// CheckJSON refuses a JSON document with text that a decoder replaces by U+FFFD without a
// word: bytes that are not UTF-8, and an escape of one half of a surrogate pair, which is
// how Python and JavaScript write such bytes. As an argument or a path, the replaced text
// would name another file. The error is of KindInvalid and gives the offset in bytes.
// Whether the document is JSON at all is for the decoder to say.
func CheckJSON(doc []byte) error {
	if !utf8.Valid(doc) {
		at := 0
		for at < len(doc) {
			r, n := utf8.DecodeRune(doc[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return notText(at)
	}
	for i := 0; i < len(doc); i++ {
		if doc[i] != '\\' {
			continue
		}
		first := escaped(doc[i:])
		if first < 0xd800 || first > 0xdfff {
			i++ // what is escaped is no escape itself
			continue
		}
		if second := escaped(doc[min(i+6, len(doc)):]); first > 0xdbff || second < 0xdc00 || second > 0xdfff {
			return notText(i)
		}
		i += 11
	}
	return nil
}

func notText(at int) error {
	return Errorf(KindInvalid, "the JSON has text that is not Unicode, at byte %d", at).
		WithHint("names and arguments are UTF-8: rename the file in the sandbox, for example with a pattern of the shell, or write the bytes into a file there")
}

// escaped returns the code unit of an escape \uXXXX that b begins with, or -1.
func escaped(b []byte) int {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

// MarshalRequest encodes a request as JSON. It refuses text that is not UTF-8, which
// [json.Marshal] replaces by U+FFFD: KindInvalid.
func MarshalRequest(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	// Marshal escapes what it replaces, and writes a U+FFFD that was in the text as it is.
	for i := 0; ; {
		next := bytes.IndexByte(b[i:], '\\')
		if next < 0 {
			return b, nil
		}
		i += next
		if escaped(b[i:]) == utf8.RuneError {
			return nil, Errorf(KindInvalid, "the request has text that is not UTF-8, in %.80q", b[max(i-40, 0):i]).
				WithHint("names and arguments are UTF-8: rename the file, or write the bytes into a file of the sandbox")
		}
		i += 2
	}
}
