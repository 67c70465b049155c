package trust

import (
	"bytes"
	"crypto/sha1"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

var errSubject = errors.New("the subject has a form whose OpenSSL hash is unknown")

// subjectHash returns the hash by which OpenSSL finds a certificate in a directory, eight
// hexadecimal digits. It is that of a canonical form of the subject: texts in UTF-8 and lower
// case, with single spaces.
func subjectHash(subject []byte) (string, error) {
	var sets []asn1.RawValue
	if rest, err := asn1.Unmarshal(subject, &sets); err != nil || len(rest) > 0 {
		return "", errSubject
	}
	var canonical []byte // without the outer sequence
	for _, set := range sets {
		var attributes [][]byte
		for rest := set.Bytes; len(rest) > 0; {
			var a struct{ Type, Value asn1.RawValue }
			var err error
			if rest, err = asn1.Unmarshal(rest, &a); err != nil {
				return "", errSubject
			}
			value, err := canonicalValue(a.Value)
			if err != nil {
				return "", err
			}
			b, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: slices.Concat(a.Type.FullBytes, value)})
			if err != nil {
				return "", err
			}
			attributes = append(attributes, b)
		}
		slices.SortFunc(attributes, bytes.Compare) // as DER orders a set
		b, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: slices.Concat(attributes...)})
		if err != nil {
			return "", err
		}
		canonical = append(canonical, b...)
	}
	sum := sha1.Sum(canonical)
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(sum[:4])), nil
}

// canonicalValue returns a value in its canonical form. Values that are not texts stay.
func canonicalValue(v asn1.RawValue) ([]byte, error) {
	const visible, universal = 26, 28
	if v.Class != asn1.ClassUniversal {
		return v.FullBytes, nil
	}
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, visible:
	case asn1.TagT61String, asn1.TagBMPString, universal:
		return nil, errSubject // nobody makes such certificates any more
	default:
		return v.FullBytes, nil
	}
	text := bytes.FieldsFunc(v.Bytes, func(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' })
	out := bytes.Join(text, []byte(" "))
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return asn1.Marshal(asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: out})
}
