package acp

import (
	"bytes"
	"io"
	"testing"
	"unicode/utf8"
)

// stream is what an agent sends. What is written to it is lost.
type stream struct{ io.Reader }

func (stream) Write(p []byte) (int, error) { return len(p), nil }
func (stream) Close() error                { return nil }

// FuzzRead reads what an agent sends: whatever it is, the client ends, and its texts are bounded and valid.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":"a","method":"session/request_permission","params":{"options":[{"optionId":"a","kind":"allow_once"}]}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","rawInput":{"a":[1]},"content":[{"type":"content","content":{"type":"text","text":"x"}}],"rawOutput":"y"}}}`,
		"{\"jsonrpc\":\"2.0\"}\n\nnull\n[]\n\xff",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// A character of replacement has three bytes where one was wrong.
		bounded := func(what, s string, most int) {
			if len(s) > 3*most || !utf8.ValidString(s) {
				t.Errorf("%s has %d bytes, valid: %t", what, len(s), utf8.ValidString(s))
			}
		}
		c := New(stream{bytes.NewReader(data)}, Config{Update: func(u Update) {
			bounded("the kind", string(u.Kind), maxLabel)
			bounded("the text", u.Text, maxOutput)
			bounded("the title", u.Call.Title, maxTitle)
			bounded("the input", u.Call.Input, maxInput)
			bounded("the output", u.Call.Output, maxOutput+maxPieces)
		}})
		<-c.Gone()
		c.Close()
		if c.Err() == nil {
			t.Error("the client goes on without a stream")
		}
	})
}
