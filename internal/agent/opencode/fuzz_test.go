package opencode

import (
	"bufio"
	"bytes"
	"testing"
	"unicode/utf8"

	"hortus.dev/internal/agent/acp"
)

// FuzzEvents reads events and has a turn take them: whatever they are, reading ends, and what is reported is bounded, valid,
// and reported once.
func FuzzEvents(f *testing.F) {
	const info = `data: {"type":"message.updated","properties":{"sessionID":"ses_1","info":{"id":"msg_1","sessionID":"ses_1","role":"assistant","time":{"completed":1e3},"tokens":{"input":-1,"output":1e300,"cache":{"read":2}}}}}` + "\n\n"
	for _, text := range []string{
		info + `data: {"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"id":"prt_1","messageID":"msg_1","type":"text","text":"x","time":{"end":1}}}}` + "\n\n",
		info + `data: {"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"id":"prt_1","messageID":"msg_1","type":"tool","tool":"bash","state":{"status":"running","input":{"a":[1]}}}}}` + "\r\n\r\n" +
			`data: {"type":"message.part.updated","properties":{"sessionID":"ses_1","part":{"id":"prt_1","messageID":"msg_1","type":"tool","tool":"bash","state":{"status":"completed","output":"y"}}}}` + "\n\n",
		`data: {"type":"session.error","properties":{"sessionID":"ses_1","error":{"name":"x"}}}` + "\n\n: comment\nid: 1\n\ndata:\ndata: \n\n",
		"data: {\"type\":\"session.idle\",\ndata: \"properties\":{\"sessionID\":\"ses_1\"}}\n\ndata: null\n\n\xff\n\n",
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
		ended := map[string]bool{}
		c := New(Config{Update: func(u acp.Update) {
			bounded("the text", u.Text, maxOutput)
			bounded("the title", u.Call.Title, maxTitle)
			bounded("the kind", u.Call.Kind, maxID)
			bounded("the input", u.Call.Input, maxInput)
			bounded("the output", u.Call.Output, maxOutput)
			if u.Kind == acp.Said {
				return
			}
			if ended[u.Call.ID] {
				t.Errorf("the call %q is reported after its end", u.Call.ID)
			}
			ended[u.Call.ID] = u.Call.Status != acp.Running
		}})
		turn := &turn{c: c, session: "ses_1", known: map[string]*known{}, parts: map[string]bool{}}
		r := &eventReader{r: bufio.NewReaderSize(bytes.NewReader(data), 16)}
		for {
			one, err := r.next()
			if err != nil {
				break
			}
			e, ok := parseEvent(one)
			if !ok || e.Type == permission || e.Type == question {
				continue // these ask the server
			}
			if _, err := turn.take(t.Context(), e); err != nil {
				t.Error(err)
			}
		}
		if u := turn.usage; u.Input < 0 || u.Output < 0 || u.CachedRead < 0 || u.CachedWrite < 0 {
			t.Errorf("it used %+v", u)
		}
	})
}
