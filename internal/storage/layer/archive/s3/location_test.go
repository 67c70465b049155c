package s3

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Location{
		"s3://builds?region=eu-central-1":                      {Bucket: "builds", Host: "s3.eu-central-1.amazonaws.com", Region: "eu-central-1"},
		"s3://builds/a/b/?region=cn-north-1":                   {Bucket: "builds", Prefix: "a/b/", Host: "s3.cn-north-1.amazonaws.com.cn", Region: "cn-north-1"},
		"s3://b.c-d/x?endpoint=https://S3.example.org:9000":    {Bucket: "b.c-d", Prefix: "x/", Host: "s3.example.org:9000", Region: "us-east-1"},
		"s3://builds?endpoint=https://h:443/&region=r1":        {Bucket: "builds", Host: "h", Region: "r1"},
		"s3://builds?endpoint=http://127.0.0.1:9000":           {Bucket: "builds", Host: "127.0.0.1:9000", Insecure: true, Region: "us-east-1"},
		"s3://builds?endpoint=http%3A%2F%2F%5B%3A%3A1%5D:9000": {Bucket: "builds", Host: "[::1]:9000", Insecure: true, Region: "us-east-1"},
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, err := Parse(got.String())
		if err != nil || again != got {
			t.Errorf("%s: again %+v, %v, not %+v", text, again, err, got)
		}
		if got.text = ""; got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestRefused: settings that make no sense or have a secret; the error does not repeat that.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                         "s3://",
		"gs://builds?region=r":                     "s3://",
		"s3:builds?region=r":                       "more than",
		"s3://?region=r":                           "not the name of a bucket",
		"s3://UPPER?region=r":                      "not the name of a bucket",
		"s3://a..b?region=r":                       "not the name of a bucket",
		"s3://10.0.0.1?region=r":                   "not the name of a bucket",
		"s3://builds:9000?region=r":                "not the name of a bucket",
		"s3://key:hunter2@builds?region=r":         "user or password",
		"s3://builds":                              "neither an endpoint nor a region",
		"s3://builds?region=":                      "needs one value",
		"s3://builds?region=a&region=b":            "needs one value",
		"s3://builds?region=evil.example.org/":     "not a region",
		"s3://builds?region=r&secret=hunter2":      "unknown parameter",
		"s3://builds?region=r#hunter2":             "more than",
		"s3://builds/../x?region=r":                "not a prefix",
		"s3://builds/a//b?region=r":                "not a prefix",
		"s3://builds/a%20b?region=r":               "not a prefix",
		"s3://builds?endpoint=h:9000":              "https://HOST",
		"s3://builds?endpoint=ftp://h":             "https://HOST",
		"s3://builds?endpoint=https://":            "https://HOST",
		"s3://builds?endpoint=https://u:hunter2@h": "more than a host",
		"s3://builds?endpoint=https://h/path":      "more than a host",
		"s3://builds?endpoint=https://h?x=1":       "more than a host",
		"s3://builds?endpoint=http://h:9000":       "servers on this machine only",
		"s3://builds?endpoint=http://10.0.0.1":     "servers on this machine only",
		"s3://builds?a;b":                          "malformed",
		"s3://key:hunter2@b%zz":                    "not a URL",
	} {
		_, err := Parse(text)
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), want) || api.HintOf(err) == "" {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error()+api.HintOf(err), "hunter2") {
			t.Errorf("%s: the error has the secret: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("s3://builds/a?endpoint=https://h:9000&region=r")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(l.String()); err != nil || again != l {
			t.Errorf("%q: %+v, again %+v, %v", text, l, again, err)
		}
	})
}
