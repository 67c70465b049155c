package envd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// Message is a message of this wire. The set is closed.
type Message interface {
	appendProto(b []byte) []byte
	decodeProto(d *decoder)
}

// Codec is how messages are written: as JSON or as protobuf.
type Codec int

const (
	Proto Codec = iota
	JSON
)

// The content types of the two codecs, unary and streaming.
const (
	TypeProto       = "application/proto"
	TypeJSON        = "application/json"
	TypeStreamProto = "application/connect+proto"
	TypeStreamJSON  = "application/connect+json"
)

// ContentType is the media type of the codec.
func (c Codec) ContentType(stream bool) string {
	switch {
	case c == JSON && stream:
		return TypeStreamJSON
	case c == JSON:
		return TypeJSON
	case stream:
		return TypeStreamProto
	}
	return TypeProto
}

// CodecOf finds the codec of a Content-Type, parameters ignored.
func CodecOf(contentType string, stream bool) (Codec, bool) {
	contentType, _, _ = strings.Cut(contentType, ";")
	contentType = strings.ToLower(strings.TrimSpace(contentType))
	for _, c := range []Codec{Proto, JSON} {
		if c.ContentType(stream) == contentType {
			return c, true
		}
	}
	return 0, false
}

// Append writes m behind b.
func Append(b []byte, c Codec, m Message) ([]byte, error) {
	if c == Proto {
		return m.appendProto(b), nil
	}
	j, err := json.Marshal(m)
	if err != nil {
		return b, err
	}
	return append(b, j...), nil
}

// Decode reads data into m. With Proto, byte fields of m alias data. Unknown
// fields are ignored; list elements and map entries are bounded.
func Decode(data []byte, c Codec, m Message) error {
	if c == Proto {
		var items int
		d := decoder{b: data, items: &items}
		m.decodeProto(&d)
		return d.err
	}
	if len(data) == 0 {
		return nil // an empty body is an empty message to many clients
	}
	if err := checkJSON(data); err != nil {
		return err
	}
	if err := api.CheckJSON(data); err != nil {
		return err
	}
	return json.Unmarshal(data, m)
}

// checkJSON bounds how many values the text can hold, before anything is
// allocated for them.
func checkJSON(data []byte) error {
	var n int
	var quoted bool
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			if n++; n > maxItems {
				return errors.New("json: more values than allowed")
			}
		}
	}
	return nil
}

// enumName finds the name of an enum's value; a number without one stays a
// number, as protobuf's JSON does.
func enumName(v int32, names map[int32]string) ([]byte, error) {
	if s, ok := names[v]; ok {
		return strconv.AppendQuote(nil, s), nil
	}
	return strconv.AppendInt(nil, int64(v), 10), nil
}

// enumValue reads a name or a number.
func enumValue(data []byte, names map[int32]string) (int32, error) {
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return 0, err
		}
		for v, name := range names {
			if name == s {
				return v, nil
			}
		}
		return 0, fmt.Errorf("json: unknown enum value %q", clip(s))
	}
	var v int32
	err := json.Unmarshal(data, &v)
	return v, err
}

var (
	fileTypeNames = map[int32]string{
		0: "FILE_TYPE_UNSPECIFIED", 1: "FILE_TYPE_FILE", 2: "FILE_TYPE_DIRECTORY", 3: "FILE_TYPE_SYMLINK",
	}
	eventTypeNames = map[int32]string{
		0: "EVENT_TYPE_UNSPECIFIED", 1: "EVENT_TYPE_CREATE", 2: "EVENT_TYPE_WRITE", 3: "EVENT_TYPE_REMOVE",
		4: "EVENT_TYPE_RENAME", 5: "EVENT_TYPE_CHMOD",
	}
	signalNames = map[int32]string{0: "SIGNAL_UNSPECIFIED", 15: "SIGNAL_SIGTERM", 9: "SIGNAL_SIGKILL"}
)

// MarshalJSON returns the enum's name.
func (t FileType) MarshalJSON() ([]byte, error) { return enumName(int32(t), fileTypeNames) }

// UnmarshalJSON reads a name or a number.
func (t *FileType) UnmarshalJSON(data []byte) (err error) {
	v, err := enumValue(data, fileTypeNames)
	*t = FileType(v)
	return err
}

// MarshalJSON returns the enum's name.
func (t EventType) MarshalJSON() ([]byte, error) { return enumName(int32(t), eventTypeNames) }

// UnmarshalJSON reads a name or a number.
func (t *EventType) UnmarshalJSON(data []byte) (err error) {
	v, err := enumValue(data, eventTypeNames)
	*t = EventType(v)
	return err
}

// MarshalJSON returns the enum's name.
func (s Signal) MarshalJSON() ([]byte, error) { return enumName(int32(s), signalNames) }

// UnmarshalJSON reads a name or a number.
func (s *Signal) UnmarshalJSON(data []byte) (err error) {
	v, err := enumValue(data, signalNames)
	*s = Signal(v)
	return err
}
