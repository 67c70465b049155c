package report

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// record is a line of a report that a runner of ours writes: 32 hexadecimal digits of a
// sum, a space, and this as JSON. One field is there.
type record struct {
	Begin    string  `json:"begin"`
	Start    string  `json:"start"`
	Test     string  `json:"test"`
	How      Outcome `json:"how"`
	Lost     string  `json:"lost"`
	Tampered string  `json:"tampered"`
	End      *int    `json:"end"`
}

// sum is that of the record at a place: no other place, no other run has the same.
func sum(key []byte, n int, text []byte) string {
	h := sha256.New()
	h.Write(key)
	h.Write(strconv.AppendInt(nil, int64(n), 10))
	h.Write([]byte{' '})
	h.Write(text)
	h.Write(key)
	return hex.EncodeToString(h.Sum(nil))[:sumSize]
}

const sumSize = 32

// readSealed reads the report of a runner of ours.
func readSealed(runner string, key, content []byte) Report {
	r := Report{Runner: runner}
	running := ""
	for n := 0; len(content) > 0; n++ {
		line, rest, whole := bytes.Cut(content, []byte{'\n'})
		content = rest
		if !whole {
			break // it was cut in the middle of a record
		}
		if len(line) <= sumSize || line[sumSize] != ' ' {
			r.breaks("line %d has no checksum", n+1)
			break
		}
		text := line[sumSize+1:]
		if subtle.ConstantTimeCompare(line[:sumSize], []byte(sum(key, n, text))) != 1 {
			r.breaks("line %d has a wrong checksum", n+1)
			break
		}
		var rec record
		if err := json.Unmarshal(text, &rec); err != nil {
			r.breaks("line %d: %v", n+1, err)
			break
		}
		r.Began = true
		switch {
		case r.Ended:
			r.breaks("data follows the end")
		case rec.Begin != "":
		case rec.Start != "":
			running = rec.Start
		case rec.Test != "":
			r.add(rec.Test, rec.How)
			if rec.Test == running {
				running = ""
			}
		case rec.Lost != "":
			r.Lost = note(r.Lost, rec.Lost)
		case rec.Tampered != "":
			r.Tampered = note(r.Tampered, rec.Tampered)
		case rec.End != nil:
			r.Ended = true
		default:
			r.breaks("line %d is empty", n+1)
		}
	}
	if running != "" {
		r.Lost = note(r.Lost, running)
	}
	return r
}
