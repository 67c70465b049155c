package rowjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

const (
	firstHigh = '\uFDD0'
	firstLow  = '\uFDE0'
	lastLow   = '\uFDEF'
)

// mark is the first byte of every character of the range in UTF-8 (and of others).
var mark = []byte{0xEF, 0xB7}

// replaced and replacedRaw are what encoding/json may write for invalid bytes.
var replaced, replacedRaw = []byte(`\ufffd`), []byte("\uFFFD")

// Marshal encodes v and does not change it. v has plain data: strings, numbers, slices, maps
// with string keys, pointers and structs of those. Types with their own encoding (a time, a
// json.RawMessage) are not changed.
func Marshal(v any) ([]byte, error) {
	if v == nil {
		return json.Marshal(nil)
	}
	// Nearly all rows are plain text and need no copy: check whether package json has
	// replaced anything.
	b, err := json.Marshal(v)
	if err == nil && !bytes.Contains(b, mark) && !bytes.Contains(b, replaced) && !bytes.Contains(b, replacedRaw) {
		return b, nil
	}
	return json.Marshal(rewrite(reflect.ValueOf(v), escape).Interface())
}

// Unmarshal decodes the output of Marshal into the value that v points to.
func Unmarshal(data []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("rowjson: cannot decode into %T", v)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	if bytes.Contains(data, mark) {
		p.Elem().Set(rewrite(p.Elem(), unescape))
	}
	return nil
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// rewrite copies v with f applied to every string that JSON encodes. Values without strings
// are shared with the original.
func rewrite(v reflect.Value, f func(string) string) reflect.Value {
	t := v.Type()
	if t.Implements(jsonMarshaler) || t.Implements(textMarshaler) {
		return v
	}
	switch v.Kind() {
	case reflect.String:
		out := reflect.New(t).Elem()
		out.SetString(f(v.String()))
		return out
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		out := reflect.New(t.Elem())
		out.Elem().Set(rewrite(v.Elem(), f))
		return out
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		out := reflect.New(t).Elem()
		out.Set(rewrite(v.Elem(), f))
		return out
	case reflect.Slice:
		if v.IsNil() || scalar(t.Elem().Kind()) {
			return v
		}
		out := reflect.MakeSlice(t, v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(rewrite(v.Index(i), f))
		}
		return out
	case reflect.Array:
		out := reflect.New(t).Elem()
		for i := range v.Len() {
			out.Index(i).Set(rewrite(v.Index(i), f))
		}
		return out
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeMapWithSize(t, v.Len())
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(rewrite(it.Key(), f), rewrite(it.Value(), f))
		}
		return out
	case reflect.Struct:
		out := reflect.New(t).Elem()
		out.Set(v)
		for i := range t.NumField() {
			if field := t.Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				out.Field(i).Set(rewrite(v.Field(i), f))
			}
		}
		return out
	}
	return v
}

func scalar(k reflect.Kind) bool { return reflect.Bool <= k && k <= reflect.Complex128 }

// Escape returns text that is valid UTF-8 without the character 0, as databases need it. Unescape returns the original.
func Escape(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) && !strings.Contains(s, string(mark)) {
		return s
	}
	return rewriteText(s, func(r rune, n int) bool { return r == 0 || isReserved(r, n) })
}

// Unescape reverses Escape.
func Unescape(s string) string { return unescape(s) }

// escape returns text that JSON does not change.
func escape(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, string(mark)) {
		return s
	}
	return rewriteText(s, isReserved)
}

// isReserved reports whether a rune of n bytes is a byte that is not valid UTF-8, or one of the range.
func isReserved(r rune, n int) bool {
	return r == utf8.RuneError && n == 1 || firstHigh <= r && r <= lastLow
}

// rewriteText writes the bytes of some runes as characters of the range.
func rewriteText(s string, which func(r rune, n int) bool) string {
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if which(r, n) {
			for _, c := range []byte(s[i : i+n]) {
				b.WriteRune(firstHigh + rune(c>>4))
				b.WriteRune(firstLow + rune(c&15))
			}
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unescape reverses escape. It keeps characters of the range that escape cannot have written.
func unescape(s string) string {
	if !strings.Contains(s, string(mark)) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		high, n := utf8.DecodeRuneInString(s[i:])
		if firstHigh <= high && high < firstLow {
			low, m := utf8.DecodeRuneInString(s[i+n:])
			if firstLow <= low && low <= lastLow {
				b.WriteByte(byte(high-firstHigh)<<4 | byte(low-firstLow))
				i += n + m
				continue
			}
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}
