package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// fill sets every field that travels on the wire to a value of its own, so that a
// field which a store forgets is seen, also one that is added to api later.
// Strings hold what JSON cannot: bytes that are not UTF-8, a NUL, and characters
// that encodings like to use for themselves.
func fill(v any) {
	n := 0
	fillValue(reflect.ValueOf(v).Elem(), &n)
}

func fillValue(v reflect.Value, n *int) {
	*n++
	if t, ok := v.Addr().Interface().(*time.Time); ok {
		*t = began.Add(time.Duration(*n) * time.Microsecond)
		return
	}
	if raw, ok := v.Addr().Interface().(*json.RawMessage); ok {
		*raw = fmt.Appendf(nil, `{"a":[%d,null]}`, *n)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%d \xff\xc3(\xed\xa0\x80 \x00 \uFDD0\uFDE5\uFFFD <&> \u2028 %%_ ü", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(*n % 256))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillValue(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fillValue(key, n)
			fillValue(value, n)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fillValue(v.Field(i), n)
			}
		}
	default:
		panic("storetest: no value for a " + v.Type().String())
	}
}
