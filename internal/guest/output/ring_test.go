//go:build linux

package output

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"hortus.dev/api/envd"
)

// TestRingAgainstModel compares the ring with a model that keeps everything.
func TestRingAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int{1, 7, 64, 5000, 100_000} {
		r := ring{limit: limit}
		var all []byte
		var streams []envd.Output
		for range 400 {
			p := make([]byte, rnd.IntN(3*min(limit, 3000)+1))
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			out := envd.Output(1 + rnd.IntN(2))
			r.append(out, p)
			all = append(all, p...)
			for range p {
				streams = append(streams, out)
			}
			if r.end != int64(len(all)) || r.end-r.start > int64(limit) || r.start < 0 {
				t.Fatalf("limit %d: from %d to %d of %d", limit, r.start, r.end, len(all))
			}
			if want := min(len(all), limit); r.end-r.start != int64(want) {
				t.Fatalf("limit %d: %d bytes are kept, %d could be", limit, r.end-r.start, want)
			}
			at := rnd.Int64N(r.end + 1)
			for {
				out, from, p := r.at(at)
				if len(p) == 0 {
					if from != r.end {
						t.Fatalf("limit %d: it stops at %d of %d", limit, from, r.end)
					}
					break
				}
				if from != max(at, r.start) || !bytes.Equal(p, all[from:from+int64(len(p))]) {
					t.Fatalf("limit %d: other bytes at %d", limit, from)
				}
				for i := range p {
					if streams[from+int64(i)] != out {
						t.Fatalf("limit %d: byte %d is of another stream", limit, from+int64(i))
					}
				}
				at = from + int64(len(p))
			}
		}
	}
}

func TestRingBoundsSegments(t *testing.T) {
	r := ring{limit: 1 << 20}
	for i := range 3 * maxSegments {
		r.append(envd.Output(1+i%2), []byte{byte(i)})
	}
	if len(r.segs) > maxSegments+1 || r.end-r.start < maxSegments-1 {
		t.Fatalf("%d segments for %d bytes", len(r.segs), r.end-r.start)
	}
}
