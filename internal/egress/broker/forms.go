package broker

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"unicode/utf16"
)

// written returns the texts of a value that a placeholder would be written as too: the value, and what is left
// of it in JSON, a URL or HTML when their escapes are decoded.
func written(value string) []string {
	out := []string{value}
	quoted, _ := json.Marshal(value) // a string has no error
	for _, form := range []string{value, string(quoted[1 : len(quoted)-1]), url.QueryEscape(value), html.EscapeString(value)} {
		if v := decode([]byte(form), 0, len(form)); v.text != nil {
			form = string(v.text)
		}
		out = append(out, form)
	}
	return out
}

// encoded returns the other texts of a value: in hexadecimal digits, and the characters of base64 and base32
// that depend on nothing but the value, for each of the positions that it can begin at. The characters at
// both ends, which also depend on what is beside the value, have less than one byte of it each.
func encoded(value string) []string {
	code := hex.EncodeToString([]byte(value))
	out := []string{code, strings.ToUpper(code)}
	for before := range 5 {
		padded := append(make([]byte, before), value...)
		if before < 3 {
			first, end := (8*before+5)/6, 8*len(padded)/6
			for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				out = append(out, e.EncodeToString(padded)[first:end])
			}
		}
		first, end := (8*before+4)/5, 8*len(padded)/5
		for _, e := range []*base32.Encoding{base32.StdEncoding, base32.HexEncoding} {
			text := e.EncodeToString(padded)[first:end]
			out = append(out, text, strings.ToLower(text))
		}
	}
	return out
}

// wide returns a value in UTF-16, in both orders of bytes.
func wide(value string) []string {
	var little, big []byte
	for _, c := range utf16.Encode([]rune(value)) {
		little, big = append(little, byte(c), byte(c>>8)), append(big, byte(c>>8), byte(c))
	}
	return []string{string(little), string(big)}
}
