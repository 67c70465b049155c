package state

import (
	"reflect"

	"gvisor.dev/gvisor/pkg/state/wire"
)

// encodedStruct is an addressable struct and its encoding.
type encodedStruct struct {
	obj     reflect.Value
	encoded *wire.Struct
}

// encodedStructs are the addressable structs that were encoded, in that order. Objects are encoded
// one after the other, so that the structs of each follow each other.
//
// A struct can only be found again in an object that contains the one in which it was encoded. To have
// all of them in a map would take a fifth of the time of saving many objects.
type encodedStructs struct {
	// chunks are full but for the last one. n is how many structs are in all of them.
	chunks [][]encodedStruct
	n      int

	// earlier are those in objects that the one which is being encoded contains. If there are many,
	// byObj has them all.
	earlier []encodedStruct
	byObj   map[reflect.Value]*wire.Struct
}

// maxSearched is how many structs are searched one after the other, which takes less than to make a
// map.
const maxSearched = 64

// structsPerChunk bounds what is allocated at once: a slice that grows is copied.
const structsPerChunk = 4096

// structRange says which of the structs are those of an object, and which objects it replaced.
type structRange struct {
	start, end int
	contains   []*objectEncodeState
}

// begin begins the encoding of an object.
func (e *encodedStructs) begin(oes *objectEncodeState) {
	oes.structs.start = e.n
	e.earlier, e.byObj = e.earlier[:0], nil
	e.addEarlier(oes.structs.contains)
	if len(e.earlier) > maxSearched {
		e.byObj = make(map[reflect.Value]*wire.Struct, len(e.earlier))
		for _, s := range e.earlier {
			e.byObj[s.obj] = s.encoded
		}
		e.earlier = nil
	}
}

// end ends it.
func (e *encodedStructs) end(oes *objectEncodeState) { oes.structs.end = e.n }

func (e *encodedStructs) addEarlier(objects []*objectEncodeState) {
	for _, oes := range objects {
		for i := oes.structs.start; i < oes.structs.end; i++ {
			e.earlier = append(e.earlier, e.chunks[i/structsPerChunk][i%structsPerChunk])
		}
		e.addEarlier(oes.structs.contains)
	}
}

// find returns the encoding of a struct, or nil.
func (e *encodedStructs) find(obj reflect.Value) *wire.Struct {
	if e.byObj != nil {
		return e.byObj[obj]
	}
	for i := range e.earlier {
		if e.earlier[i].obj == obj {
			return e.earlier[i].encoded
		}
	}
	return nil
}

// add notes the encoding of a struct.
func (e *encodedStructs) add(obj reflect.Value, s *wire.Struct) {
	if e.n%structsPerChunk == 0 {
		e.chunks = append(e.chunks, make([]encodedStruct, 0, structsPerChunk))
	}
	last := &e.chunks[len(e.chunks)-1]
	*last = append(*last, encodedStruct{obj, s})
	e.n++
}
