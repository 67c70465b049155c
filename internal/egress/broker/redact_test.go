package broker

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
)

// forms are the ways in which a server may write a value.
func forms(value string) map[string]string {
	quoted, _ := json.Marshal(value)
	out := map[string]string{
		"plain": value, "query": url.QueryEscape(value), "path": url.PathEscape(value), "percent": percent(value),
		"hex": hex.EncodeToString([]byte(value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))), "JSON": string(quoted),
	}
	for before := range 3 {
		for after := range 2 {
			text := []byte(strings.Repeat("u", before) + value + strings.Repeat("x", after))
			for name, e := range map[string]*base64.Encoding{"std": base64.StdEncoding, "rawurl": base64.RawURLEncoding} {
				out[fmt.Sprint("base64 ", name, before, after)] = e.EncodeToString(text)
			}
		}
	}
	return out
}

// leaks reports whether a text has a value in one of the forms that a reader could decode.
func leaks(text, value string) bool {
	lower := strings.ToLower(text)
	if strings.Contains(text, value) || strings.Contains(unescape(text), value) || strings.Contains(lower, hex.EncodeToString([]byte(value))) {
		return true
	}
	var decoded string
	if json.Unmarshal([]byte(`"`+text+`"`), &decoded) == nil && strings.Contains(decoded, value) {
		return true
	}
	for _, e := range encoded(value) {
		// Half of an encoded value is too much.
		if strings.Contains(text, e[len(e)/4:3*len(e)/4]) {
			return true
		}
	}
	return false
}

// TestRedaction has servers answer with the value in each form, in several ways.
func TestRedaction(t *testing.T) {
	r := newRig(t)
	all := forms(secretValue)
	answer := func(w http.ResponseWriter, req *http.Request) {
		value := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
		form := forms(value)[req.URL.Query().Get("form")]
		switch req.URL.Path {
		case "/plain":
			fmt.Fprint(w, "begin "+form+" end")
		case "/long":
			text := strings.Repeat("0123456789abcde ", 4500) + form + strings.Repeat("z", 1000)
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			fmt.Fprint(w, text)
		case "/flushes":
			for _, b := range []byte("begin " + form + " end") {
				w.Write([]byte{b})
				http.NewResponseController(w).Flush()
			}
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, gzipped("begin "+form+" end"))
		case "/deflate":
			w.Header().Set("Content-Encoding", "deflate")
			fmt.Fprint(w, deflated("begin "+form+" end"))
		case "/header":
			w.Header().Set("X-Echo", "begin "+form+" end")
			w.Header().Set("Set-Cookie", "a="+form)
			w.Header().Set("Location", "https://other.example.org/?"+form)
			w.WriteHeader(302)
			fmt.Fprint(w, "begin  end")
		case "/name":
			w.Header()[strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
					return r
				}
				return 'x'
			}, form)] = []string{"1"}
			fmt.Fprint(w, "begin  end")
		case "/trailer":
			w.Header().Set("Trailer", "X-End")
			fmt.Fprint(w, "begin  end")
			w.Header().Set("X-End", form)
			w.Header().Set(http.TrailerPrefix+"X-Late", form)
		case "/hints":
			w.Header().Set("Link", form)
			w.WriteHeader(103)
			w.Header().Del("Link")
			fmt.Fprint(w, "begin  end")
		}
	}
	r.https(http.HandlerFunc(answer), "api.example.org:443", "free.example.org:443")
	placeholder := r.grant(bearer("token"))[0]
	for _, http2 := range []bool{false, true} {
		c := r.client(http2)
		for _, path := range []string{"/plain", "/long", "/flushes", "/gzip", "/deflate", "/header", "/trailer", "/hints"} {
			for name := range all {
				if http2 && (path == "/flushes" || path == "/hints") && name != "plain" {
					continue
				}
				where := fmt.Sprint(path, " ", name, " ", http2)
				req := request(t, "GET", "https://api.example.org"+path+"?form="+url.QueryEscape(name), nil, "Authorization", "Bearer "+placeholder)
				var hints []string
				req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
					hints = append(hints, fmt.Sprint(h))
					return nil
				}}))
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(where, err)
				}
				if (path == "/hints") != (len(hints) == 1) || strings.Contains(fmt.Sprint(hints), "Link") {
					t.Errorf("%s: informational answers %v", where, hints)
				}
				text := readAll(t, resp)
				if path != "/long" && (!strings.HasPrefix(text, "begin ") || !strings.HasSuffix(text, " end")) || path == "/long" && (!strings.HasPrefix(text, "0123456789abcde ") || !strings.HasSuffix(text, "zzzz")) {
					t.Errorf("%s: %.100q", where, text)
				}
				if n := resp.Header.Get("Content-Length"); n != "" && n != strconv.Itoa(len(text)) {
					t.Errorf("%s: Content-Length %s for %d bytes", where, n, len(text))
				}
				for _, part := range append(strings.Fields(text), fmt.Sprint(resp.Header, resp.Trailer)) {
					if leaks(part, secretValue) {
						t.Errorf("%s: %.300q has the value", where, part)
					}
				}
				if path == "/plain" && name == "plain" && text != "begin "+placeholder+" end" {
					t.Errorf("%q", text)
				}
				if path == "/header" && name == "plain" && resp.Header.Get("Location") != "https://other.example.org/?"+placeholder {
					t.Errorf("%v", resp.Header)
				}
			}
		}
		// The controls: a server that no secret is bound to is not read.
		resp, err := c.Do(request(t, "GET", "https://free.example.org/plain?form=plain", nil, "Authorization", "Bearer "+secretValue))
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); text != "begin "+secretValue+" end" {
			t.Errorf("%q", text)
		}
		var link string
		req := request(t, "GET", "https://free.example.org/hints?form=plain", nil, "Authorization", "Bearer "+secretValue)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			link = h.Get("Link")
			return nil
		}}))
		if resp, err = c.Do(req); err != nil {
			t.Fatal(err)
		}
		if readAll(t, resp); link != secretValue {
			t.Errorf("the informational answer has %q", link)
		}
	}
}

// wrapped returns a text in lines.
func wrapped(text string, width int, end string) string {
	var lines []string
	for chunk := range slices.Chunk([]byte(text), width) {
		lines = append(lines, string(chunk))
	}
	return strings.Join(lines, end)
}

// TestForms finds values in rarer forms, in a stream and in a text, and what is beside them remains.
func TestForms(t *testing.T) {
	long := strings.Repeat("another value; ", 20)
	for _, value := range []string{secretValue, "abcdefghijklmnop1234", "ключ-\U0001f511-é <&>", "a b+c/d%41\\n'x'", long} {
		red := newRedactor(map[string]string{value: "<>"})
		var escapes, mixed, numeric, bytesOf strings.Builder
		for i, c := range utf16.Encode([]rune(value)) {
			fmt.Fprintf(&escapes, `\u%04x`, c)
			if i%2 == 0 || c >= 0x80 || c == '\\' || c == '"' {
				fmt.Fprintf(&mixed, `\u%04X`, c)
			} else {
				mixed.WriteByte(byte(c))
			}
		}
		for _, c := range value {
			fmt.Fprintf(&numeric, "&#%d;", c)
		}
		for _, c := range []byte(value) {
			fmt.Fprintf(&bytesOf, `\x%02x`, c)
		}
		var little, big []byte
		for _, c := range utf16.Encode([]rune(value)) {
			little, big = binary.LittleEndian.AppendUint16(little, c), binary.BigEndian.AppendUint16(big, c)
		}
		quoted, _ := json.Marshal(value)
		forms := map[string]string{
			"escapes": escapes.String(), "some escapes": mixed.String(), "HTML": html.EscapeString(value), "numbers of HTML": numeric.String(), "bytes": bytesOf.String(),
			"UTF-16LE": string(little), "UTF-16BE": string(big), "base32": base32.StdEncoding.EncodeToString([]byte(value)), "percent": percent(value),
			"JSON": string(quoted[1 : len(quoted)-1]), "slashes": strings.ReplaceAll(string(quoted[1:len(quoted)-1]), "/", `\/`), "query": url.QueryEscape(value),
			"base64 in a query": url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(value))),
		}
		for before := range 5 {
			padded := []byte(strings.Repeat("u", 90+before) + value + "x")
			forms[fmt.Sprint("base32 ", before)] = base32.StdEncoding.EncodeToString(padded)
			for _, end := range []string{"\n", "\r\n", `\n`, `\r\n`, "\n  ", "\ndata: ", "%0D%0A"} {
				forms[fmt.Sprintf("base64 %d %q", before, end)] = wrapped(base64.StdEncoding.EncodeToString(padded), 76-before, end)
				forms[fmt.Sprintf("hexadecimal %d %q", before, end)] = wrapped(hex.EncodeToString(padded), 60+before, end)
				forms[fmt.Sprintf("base32 %d %q", before, end)] = wrapped(base32.StdEncoding.EncodeToString(padded), 64+before, end)
			}
		}
		for name, form := range forms {
			text := "begin " + form + " end\n"
			whole := red.text(text)
			plain := func(s string) string {
				return strings.NewReplacer("\r\n", "", "\ndata: ", "", "\n  ", "", "\n", "", `\r\n`, "", `\n`, "", "%0D%0A", "").Replace(s)
			}
			if !strings.HasPrefix(whole, "begin ") || !strings.HasSuffix(whole, " end\n") || !strings.Contains(whole, mark) && !strings.Contains(whole, "<>") || leaks(plain(whole), value) {
				t.Errorf("%q, %s: %q became %q", value, name, text, whole)
			}
			if single := redact(t, red, iotest.OneByteReader(strings.NewReader(text)), false); single != whole {
				t.Errorf("%q, %s: %q, byte by byte %q", value, name, whole, single)
			}
			if fixed := redact(t, red, strings.NewReader(text), true); len(fixed) != len(text) || leaks(plain(fixed), value) {
				t.Errorf("%q, %s: with its size %q", value, name, fixed)
			}
		}
	}
}

// TestHeaderName has a server answer with a header whose name is the value.
func TestHeaderName(t *testing.T) {
	r := newRig(t)
	r.values["token"] = "abcdefghijklmnop1234"
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "), "1")
		w.Header().Set("X-Control", "1")
	}), "api.example.org:443")
	placeholder := r.grant(bearer("token"))[0]
	for _, http2 := range []bool{false, true} {
		resp, err := r.client(http2).Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", "Bearer "+placeholder))
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if strings.Contains(strings.ToLower(fmt.Sprint(resp.Header)), "abcdefghijklmnop1234") || resp.Header.Get("X-Control") != "1" {
			t.Errorf("%v", resp.Header)
		}
	}
}

// TestEncodings checks what a server of a secret may answer with.
func TestEncodings(t *testing.T) {
	r := newRig(t)
	var asked string
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked = fmt.Sprint(req.Header["Accept-Encoding"], req.Header["Range"])
		if e := req.URL.Query().Get("e"); e != "" {
			w.Header().Set("Content-Encoding", e)
		}
		fmt.Fprint(w, "text")
	}), "api.example.org:443", "free.example.org:443")
	placeholder := r.grant(bearer("token"))[0]
	for _, row := range []struct {
		url, accept, want string
		status            int
	}{
		{"https://api.example.org/", "br, gzip;q=0.5", "[gzip] []", 200},
		{"https://api.example.org/", "zstd", "[identity] []", 200},
		{"https://api.example.org/", "gzip;q=0", "[identity] []", 200},
		{"https://api.example.org/?e=br", "br", "[identity] []", 502},
		{"https://api.example.org/?e=gzip,gzip", "gzip", "[gzip] []", 502},
		{"https://api.example.org/?e=identity,%20identity", "gzip", "[gzip] []", 200},
		{"https://free.example.org/?e=br", "br", "[br] [bytes=0-1]", 200}, // the control
	} {
		req := request(t, "GET", row.url, nil, "Accept-Encoding", row.accept, "Range", "bytes=0-1")
		if strings.Contains(row.url, "api") {
			req.Header.Set("Authorization", "Bearer "+placeholder)
		}
		resp, err := r.client(true).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); resp.StatusCode != row.status || asked != row.want {
			t.Errorf("%+v: %d, asked %s, %q", row, resp.StatusCode, asked, text)
		}
	}
}

// TestOtherPorts: a host may have the value at its other ports, and in clear.
func TestOtherPorts(t *testing.T) {
	r := newRig(t)
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X-Echo", secretValue)
		fmt.Fprint(w, "it is "+secretValue)
	})
	r.https(h, "api.example.org:8443", "free.example.org:443")
	r.http(h, "api.example.org:80")
	r.grant(bearer("token"))
	for url, want := range map[string]bool{"https://api.example.org:8443/": false, "http://api.example.org/": false, "https://free.example.org/": true} {
		resp, err := r.client(true).Do(request(t, "GET", url, nil))
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		if got := strings.Contains(text+resp.Header.Get("X-Echo"), secretValue); got != want || !strings.HasPrefix(text, "it is ") {
			t.Errorf("%s: %q", url, text)
		}
	}
}

// redact reads a text through a stream of a redactor.
func redact(t testing.TB, r *redactor, src io.Reader, fixed bool) string {
	t.Helper()
	b, err := io.ReadAll(&searchedStream{r: r, src: src, fixed: fixed})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNothingHeld checks that text that cannot be a part of a value is passed on at once.
func TestNothingHeld(t *testing.T) {
	pr, pw := io.Pipe()
	defer pw.Close()
	go io.WriteString(pw, "data: event\n\n")
	s := &searchedStream{r: newRedactor(map[string]string{secretValue: "x"}), src: pr}
	b := make([]byte, 100)
	if n, err := s.Read(b); err != nil || string(b[:n]) != "data: event\n\n" {
		t.Errorf("%q %v", b[:n], err)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("abcdefgh", "xxabcdefghyyabcdefgabcdefghzz", int64(1), true)
	f.Add("aaaaaaaaa", strings.Repeat("a", 40), int64(2), false)
	f.Add(secretValue, "a "+secretValue+hex.EncodeToString([]byte(secretValue))+base64.StdEncoding.EncodeToString([]byte("1"+secretValue)), int64(3), false)
	f.Add(strings.Repeat("ab", 30), strings.Repeat("ab", 200), int64(4), true)
	f.Fuzz(func(t *testing.T, value, text string, seed int64, fixed bool) {
		if len(value) < 8 || len(value) > 500 || len(text) > 5000 {
			return
		}
		red := newRedactor(map[string]string{value: "<>"})
		whole := redact(t, red, strings.NewReader(text), fixed)
		if fixed && len(whole) != len(text) {
			t.Fatalf("%d bytes became %d", len(text), len(whole))
		}
		// A replacement is no part of a value here: what remains has none.
		if !strings.ContainsAny(value, "<>*") && strings.Contains(whole, value) && !strings.Contains(mark, value) && !strings.Contains(whole, mark) {
			t.Fatalf("%q has %q", whole, value)
		}
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		var parts []string
		for rest := text; rest != ""; {
			n := 1 + rnd.IntN(min(len(rest), 40))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		if split := redact(t, red, &pieces{parts}, fixed); split != whole {
			t.Fatalf("divided: %q, whole: %q", split, whole)
		}
		if single := redact(t, red, iotest.OneByteReader(strings.NewReader(text)), fixed); single != whole {
			t.Fatalf("byte by byte: %q, whole: %q", single, whole)
		}
		if direct := red.text(text); !fixed && direct != whole {
			t.Fatalf("text: %q, stream: %q", direct, whole)
		}
	})
}

func FuzzScanner(f *testing.F) {
	f.Add("", 0, int64(1))
	f.Add("hortus-secret-hortus-secret-", 14, int64(2))
	f.Add("some text", 4, int64(3))
	f.Fuzz(func(t *testing.T, text string, at int, seed int64) {
		if len(text) > 5000 {
			return
		}
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		put := at >= 0 && at <= len(text)
		if put {
			text = text[:at] + Prefix + "abcdefghijklmnopqrstuvwxyz" + text[at:]
		}
		var whole scanner
		want := whole.scan([]byte(text))
		if put && want == "" {
			t.Fatalf("not found in %q", text)
		}
		if i := bytes.Index([]byte(text), []byte(want)); want != "" && !isPlaceholder(text[i:]) {
			t.Fatalf("%q", want)
		}
		var s scanner
		got := ""
		for rest := []byte(text); len(rest) > 0 && got == ""; {
			n := 1 + rnd.IntN(min(len(rest), 60))
			got, rest = s.scan(rest[:n]), rest[n:]
		}
		if got != want {
			t.Fatalf("divided: %q, whole: %q", got, want)
		}
	})
}
