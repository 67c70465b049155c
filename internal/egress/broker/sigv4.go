package broker

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSigned is the maximum size of a body that is hashed here, in bytes.
const maxSigned = 8 << 20

const payloadHash = "X-Amz-Content-Sha256"

// unsigned are headers that are not signed, because they may be changed on the way, or are signed
// as what the request is sent with.
var unsigned = []string{"authorization", "user-agent", "accept-encoding", "connection", "expect", "transfer-encoding", "te", "x-amzn-trace-id", "host", "content-length"}

// sign replaces the AWS signature of a request, whose header and URL belong to the caller, by one
// with real credentials for the same region and service. An error is why it cannot, or a
// *web.Refusal for the body.
func sign(r *http.Request, placeholder string, c credentials, now time.Time) error {
	s, err := parseScope(r.Header["Authorization"], placeholder)
	if err != nil {
		return err
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "Date"} {
		delete(r.Header, name)
	}
	hash, err := hashOf(r)
	if err != nil {
		return err
	}
	if s.service == "s3" {
		r.Header[payloadHash] = []string{hash}
	}
	date := now.UTC().Format("20060102T150405Z")
	r.Header["X-Amz-Date"] = []string{date}
	if c.SessionToken != "" {
		r.Header["X-Amz-Security-Token"] = []string{c.SessionToken}
	}
	r.URL.RawQuery = canonicalQuery(r.URL.Query())
	request, headers := canonicalRequest(r, s, hash)
	sum := sha256.Sum256([]byte(request))
	parts := []string{date[:8], s.region, s.service, "aws4_request"}
	key := []byte("AWS4" + c.SecretAccessKey)
	for _, part := range append(parts, "AWS4-HMAC-SHA256\n"+date+"\n"+strings.Join(parts, "/")+"\n"+hex.EncodeToString(sum[:])) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	r.Header["Authorization"] = []string{"AWS4-HMAC-SHA256 Credential=" + c.AccessKeyID + "/" + strings.Join(parts, "/") +
		", SignedHeaders=" + headers + ", Signature=" + hex.EncodeToString(key)}
	return nil
}

// canonicalRequest returns the text that is signed, and the names of its headers. It is what
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
// describes.
func canonicalRequest(r *http.Request, s scope, hash string) (text, headers string) {
	host := strings.TrimSuffix(cmp.Or(r.Host, r.URL.Host), map[string]string{"https": ":443", "http": ":80"}[r.URL.Scheme])
	signed := map[string][]string{"host": {host}}
	if r.ContentLength > 0 {
		signed["content-length"] = []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-") || lower == "content-type" || slices.Contains(s.headers, lower) && !slices.Contains(unsigned, lower) {
			signed[lower] = append(signed[lower], r.Header[name]...)
		}
	}
	names := slices.Sorted(maps.Keys(signed))
	path := cmp.Or(r.URL.EscapedPath(), "/")
	if s.service != "s3" {
		path = escapePath(path)
	}
	var b strings.Builder
	b.WriteString(r.Method + "\n" + path + "\n" + r.URL.RawQuery + "\n")
	for _, name := range names {
		var values []string
		for _, value := range signed[name] {
			for strings.Contains(value, "  ") {
				value = strings.ReplaceAll(value, "  ", " ")
			}
			values = append(values, strings.TrimSpace(value))
		}
		b.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	headers = strings.Join(names, ";")
	b.WriteString("\n" + headers + "\n" + hash)
	return b.String(), headers
}

// canonicalQuery escapes a query and sorts it by its escaped names and values.
func canonicalQuery(query url.Values) string {
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	escaped := url.Values{}
	for name, values := range query {
		for _, value := range values {
			escaped.Add(escape(name), escape(value))
		}
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(escaped)) {
		slices.Sort(escaped[name])
		for _, value := range escaped[name] {
			pairs = append(pairs, name+"="+value)
		}
	}
	return strings.Join(pairs, "&")
}

// escapePath escapes a path that is escaped already: all services but S3 sign it like this.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(part), "+", "%20")
	}
	return strings.Join(parts, "/")
}

// scope is what a signature of a program says.
type scope struct {
	region, service string
	headers         []string // that it signed
}

// parseScope reads the header Authorization of a program that signed with a placeholder.
func parseScope(header []string, placeholder string) (scope, error) {
	if len(header) != 1 {
		return scope{}, errors.New("the header Authorization is there more than once")
	}
	text, ok := strings.CutPrefix(header[0], "AWS4-HMAC-SHA256 ")
	if !ok || strings.Count(text, placeholder) != 1 {
		return scope{}, errors.New("the header Authorization is not that of AWS Signature Version 4 with the placeholder as access key ID")
	}
	var s scope
	for field := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch key {
		case "Credential":
			parts := strings.Split(value, "/")
			if len(parts) != 5 || parts[0] != placeholder || parts[4] != "aws4_request" || !scopeName(parts[2]) || !scopeName(parts[3]) {
				return scope{}, errors.New("the credential scope of the signature is not valid")
			}
			s.region, s.service = parts[2], parts[3]
		case "SignedHeaders":
			s.headers = strings.Split(strings.ToLower(value), ";")
		}
	}
	if s.service == "" {
		return scope{}, errors.New("the signature has no credential scope")
	}
	return s, nil
}

func scopeName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	})
}

// hashOf returns the payload hash that is signed.
func hashOf(r *http.Request) (string, error) {
	stated := r.Header[payloadHash]
	switch {
	case len(stated) > 1:
		return "", errors.New("the header " + payloadHash + " is there more than once")
	case len(stated) == 0:
		return hashBody(r)
	case stated[0] == "UNSIGNED-PAYLOAD", stated[0] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER", isHash(stated[0]):
		return stated[0], nil
	case strings.HasPrefix(stated[0], "STREAMING-"):
		return "", errors.New("its body is signed in chunks (" + clip(stated[0], 60) + "), which cannot be signed again; let the program send UNSIGNED-PAYLOAD or a hash of the body")
	}
	return "", errors.New("the header " + payloadHash + " is not valid")
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}

// hashBody reads the body of a request and returns its hash.
func hashBody(r *http.Request) (string, error) {
	var b []byte
	if r.Body != nil {
		var err error
		if b, err = io.ReadAll(io.LimitReader(r.Body, maxSigned+1)); err != nil {
			return "", err
		}
		if len(b) > maxSigned {
			return "", errors.New("its body is too large to be signed; let the program send the header " + payloadHash)
		}
		r.Body.Close()
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
		if len(b) == 0 {
			r.Body = http.NoBody
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
