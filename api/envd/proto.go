package envd

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The wire types of protobuf that are read and written here.
const (
	wireVarint = 0
	wireI64    = 1
	wireBytes  = 2
	wireI32    = 5
)

// maxItems bounds list elements and map entries of one decoded message in all.
const maxItems = 1 << 17

var (
	errTruncated = errors.New("protobuf: unexpected end of message")
	errMalformed = errors.New("protobuf: malformed field")
	errTooMany   = errors.New("protobuf: more list elements than allowed")
	errUTF8      = errors.New("protobuf: a string is not UTF-8")
)

func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendTag(b []byte, num, wire int) []byte {
	return appendVarint(b, uint64(num)<<3|uint64(wire))
}

// appendUint writes a number, unless it is 0.
func appendUint(b []byte, num int, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(appendTag(b, num, wireVarint), v)
}

func appendBool(b []byte, num int, v bool) []byte {
	if !v {
		return b
	}
	return append(appendTag(b, num, wireVarint), 1)
}

// appendString writes a string, unless it is empty. File names are bytes and
// protobuf strings are UTF-8, so what is not UTF-8 is replaced.
func appendString(b []byte, num int, s string) []byte {
	if s == "" {
		return b
	}
	return appendStringAlways(b, num, s)
}

func appendStringAlways(b []byte, num int, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	b = appendVarint(appendTag(b, num, wireBytes), uint64(len(s)))
	return append(b, s...)
}

// appendBytes writes bytes, unless they are nil.
func appendBytes(b []byte, num int, p []byte) []byte {
	if p == nil {
		return b
	}
	b = appendVarint(appendTag(b, num, wireBytes), uint64(len(p)))
	return append(b, p...)
}

func appendStringPtr(b []byte, num int, s *string) []byte {
	if s == nil {
		return b
	}
	return appendStringAlways(b, num, *s)
}

func appendBoolPtr(b []byte, num int, v *bool) []byte {
	switch {
	case v == nil:
		return b
	case *v:
		return append(appendTag(b, num, wireVarint), 1)
	}
	return append(appendTag(b, num, wireVarint), 0)
}

func appendUint32Ptr(b []byte, num int, v *uint32) []byte {
	if v == nil {
		return b
	}
	return appendVarint(appendTag(b, num, wireVarint), uint64(*v))
}

func appendStrings(b []byte, num int, list []string) []byte {
	for _, s := range list {
		b = appendStringAlways(b, num, s)
	}
	return b
}

func appendMap(b []byte, num int, m map[string]string) []byte {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = appendNested(b, num, func(b []byte) []byte {
			return appendString(appendString(b, 1, k), 2, m[k])
		})
	}
	return b
}

// appendNested writes a sub-message whose size is known only afterwards.
func appendNested(b []byte, num int, body func([]byte) []byte) []byte {
	b = append(appendTag(b, num, wireBytes), 0)
	start := len(b)
	b = body(b)
	n := len(b) - start
	if n < 0x80 {
		b[start-1] = byte(n)
		return b
	}
	var lenBuf [10]byte
	size := appendVarint(lenBuf[:0], uint64(n))
	return slices.Replace(b, start-1, start, size...)
}

// appendMessage writes a sub-message, if there is one.
func appendMessage[T any, M interface {
	*T
	Message
}](b []byte, num int, m M) []byte {
	if m == nil {
		return b
	}
	return appendNested(b, num, m.appendProto)
}

// appendMessages writes a list of sub-messages.
func appendMessages[T any, M interface {
	*T
	Message
}](b []byte, num int, list []M) []byte {
	for _, m := range list {
		b = appendMessage(b, num, m)
	}
	return b
}

// appendTime writes a google.protobuf.Timestamp, unless t is zero.
func appendTime(b []byte, num int, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return appendNested(b, num, func(b []byte) []byte {
		return appendUint(appendUint(b, 1, uint64(t.Unix())), 2, uint64(t.Nanosecond()))
	})
}

// decoder walks over the fields of one message. The first error ends it.
type decoder struct {
	b     []byte
	num   int
	wire  int
	items *int
	err   error
}

// next moves to the following field.
func (d *decoder) next() bool {
	if d.err != nil || len(d.b) == 0 {
		return false
	}
	tag := d.rawVarint()
	d.num, d.wire = int(tag>>3), int(tag&7)
	if d.err == nil && (tag>>3 == 0 || tag>>3 > 1<<29-1) {
		d.err = errMalformed
	}
	return d.err == nil
}

func (d *decoder) rawVarint() uint64 {
	var v uint64
	for i := 0; i < 10; i++ {
		if i >= len(d.b) {
			d.err = errTruncated
			return 0
		}
		c := d.b[i]
		if i == 9 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.b = d.b[i+1:]
			return v
		}
	}
	d.err = errMalformed
	return 0
}

func (d *decoder) rawBytes() []byte {
	n := d.rawVarint()
	if d.err != nil {
		return nil
	}
	if n > uint64(len(d.b)) {
		d.err = errTruncated
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

// skip passes over the current field. Groups are long out of use and refused.
func (d *decoder) skip() {
	switch d.wire {
	case wireVarint:
		d.rawVarint()
	case wireBytes:
		d.rawBytes()
	case wireI64:
		d.drop(8)
	case wireI32:
		d.drop(4)
	default:
		d.err = errMalformed
	}
}

func (d *decoder) drop(n int) {
	if len(d.b) < n {
		d.err = errTruncated
		return
	}
	d.b = d.b[n:]
}

// A field whose wire type is not the declared one counts as unknown.

func (d *decoder) uint(v *uint64) bool {
	if d.wire != wireVarint {
		d.skip()
		return false
	}
	*v = d.rawVarint()
	return d.err == nil
}

func (d *decoder) uint32(v *uint32) {
	var n uint64
	if d.uint(&n) {
		*v = uint32(n)
	}
}

func (d *decoder) int64(v *int64) {
	var n uint64
	if d.uint(&n) {
		*v = int64(n)
	}
}

func (d *decoder) enum(v *int32) {
	var n uint64
	if d.uint(&n) {
		*v = int32(n)
	}
}

// sint32 undoes the zigzag of an sint32.
func (d *decoder) sint32(v *int32) {
	var n uint64
	if d.uint(&n) {
		u := uint32(n)
		*v = int32(u>>1) ^ -int32(u&1)
	}
}

func (d *decoder) bool(v *bool) {
	var n uint64
	if d.uint(&n) {
		*v = n != 0
	}
}

// bytes decodes the field's bytes in place, without a copy.
func (d *decoder) bytes(v *[]byte) {
	if d.wire != wireBytes {
		d.skip()
		return
	}
	if p := d.rawBytes(); d.err == nil {
		*v = p
	}
}

func (d *decoder) string(v *string) {
	if d.wire != wireBytes {
		d.skip()
		return
	}
	p := d.rawBytes()
	if d.err == nil && !utf8.Valid(p) {
		d.err = errUTF8
	}
	if d.err == nil {
		*v = string(p)
	}
}

// stringPtr reads an optional string: present even when empty.
func (d *decoder) stringPtr(v **string) {
	if d.wire != wireBytes {
		d.skip()
		return
	}
	s := new(string)
	d.string(s)
	*v = s
}

func (d *decoder) boolPtr(v **bool) {
	var n uint64
	if d.uint(&n) {
		on := n != 0
		*v = &on
	}
}

func (d *decoder) uint32Ptr(v **uint32) {
	var n uint64
	if d.uint(&n) {
		small := uint32(n)
		*v = &small
	}
}

func (d *decoder) strings(v *[]string) {
	if d.wire != wireBytes {
		d.skip()
		return
	}
	if d.item() {
		var s string
		d.string(&s)
		*v = append(*v, s)
	}
}

// item counts one element of a list or map.
func (d *decoder) item() bool {
	*d.items++
	if *d.items > maxItems && d.err == nil {
		d.err = errTooMany
	}
	return d.err == nil
}

// sub decodes the field's bytes with body.
func (d *decoder) sub(body func(*decoder)) {
	if d.wire != wireBytes {
		d.skip()
		return
	}
	p := d.rawBytes()
	if d.err != nil {
		return
	}
	inner := decoder{b: p, items: d.items}
	body(&inner)
	d.err = inner.err
}

// decodeMessage reads a sub-message into *m, which it makes when there is none;
// a field that comes twice is merged, as protobuf says.
func decodeMessage[T any, M interface {
	*T
	Message
}](d *decoder, m *M) {
	if d.wire != wireBytes {
		d.skip()
		return
	}
	if *m == nil {
		*m = M(new(T))
	}
	d.sub((*m).decodeProto)
}

// decodeItem decodes one element of a list of sub-messages.
func decodeItem[T any, M interface {
	*T
	Message
}](d *decoder, list *[]M) {
	if d.item() {
		m := M(new(T))
		d.sub(m.decodeProto)
		*list = append(*list, m)
	}
}

func (d *decoder) mapEntry(m *map[string]string) {
	if !d.item() {
		return
	}
	var k, v string
	d.sub(func(d *decoder) {
		for d.next() {
			switch d.num {
			case 1:
				d.string(&k)
			case 2:
				d.string(&v)
			default:
				d.skip()
			}
		}
	})
	if d.err == nil {
		if *m == nil {
			*m = make(map[string]string)
		}
		(*m)[k] = v
	}
}

func (d *decoder) time(t *time.Time) {
	var sec, nsec int64
	d.sub(func(d *decoder) {
		for d.next() {
			switch d.num {
			case 1:
				d.int64(&sec)
			case 2:
				d.int64(&nsec)
			default:
				d.skip()
			}
		}
	})
	if d.err == nil {
		if nsec < 0 || nsec > 999_999_999 {
			d.err = errMalformed
			return
		}
		*t = time.Unix(sec, nsec).UTC()
	}
}

// appendSint32 writes an sint32 in its zigzag form, unless it is 0.
func appendSint32(b []byte, num int, v int32) []byte {
	return appendUint(b, num, uint64(uint32(v)<<1^uint32(v>>31)))
}

func (m *Empty) appendProto(b []byte) []byte { return b }

func (m *Empty) decodeProto(d *decoder) {
	for d.next() {
		d.skip()
	}
}
