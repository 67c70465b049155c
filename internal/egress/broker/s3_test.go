package broker

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	miniokeys "github.com/minio/minio-go/v7/pkg/credentials"

	"hortus.dev/api/secrets"
)

// TestS3Client has a client library of S3 sign with a placeholder. The server checks the signature
// of each request.
func TestS3Client(t *testing.T) {
	r := newRig(t)
	store := gofakes3.New(s3mem.New()).Server()
	checked := 0
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		if err := verify(req, b); err != nil {
			t.Errorf("%s %s: %v", req.Method, req.URL, err)
		}
		checked++
		req.Body = io.NopCloser(bytes.NewReader(b))
		store.ServeHTTP(w, req)
	}), "s3.example.org:443")
	token := `,"sessionToken":"session-token"`
	r.values["aws"] = `{"accessKeyId":"` + awsKey + `","secretAccessKey":"` + awsSecret + `"` + token + `}`
	secret := bearer("aws")
	secret.Signer, secret.Bindings[0].Host = secrets.SigV4, "s3.example.org"
	p := r.grant(secret)[0]
	c, err := minio.New("s3.example.org", &minio.Options{Creds: miniokeys.NewStaticV4(p, "any", ""), Secure: true, Region: "us-east-1", Transport: r.client(true).Transport})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := c.MakeBucket(ctx, "bucket", minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	const name = "a dir/an object+1"
	text := strings.Repeat("some text ", 10_000)
	if _, err := c.PutObject(ctx, "bucket", name, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{ContentType: "text/plain", UserMetadata: map[string]string{"k": "v w"}}); err != nil {
		t.Fatal(err)
	}
	o, err := c.GetObject(ctx, "bucket", name, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if b, err := io.ReadAll(o); err != nil || string(b) != text {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	// A part of an object: refused with a session token, which the server has got.
	part := minio.GetObjectOptions{}
	if err := part.SetRange(5, 8); err != nil {
		t.Fatal(err)
	}
	for _, with := range []bool{true, false} {
		if !with {
			r.values["aws"] = strings.Replace(r.values["aws"], token, "", 1)
		}
		o, err := c.GetObject(ctx, "bucket", name, part)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(o)
		o.Close()
		if with && (err == nil || len(b) > 0) || !with && (err != nil || string(b) != "text") {
			t.Errorf("with a token: %v, %q %v", with, b, err)
		}
		if refused, used := r.alarms(); with && (len(refused) != 1 || !strings.Contains(refused[0].Refused, "Range")) || !with && len(refused) != 0 {
			t.Errorf("refused %+v, used %+v", refused, used)
		}
	}
	checked = 0
	found := 0
	for o := range c.ListObjects(ctx, "bucket", minio.ListObjectsOptions{Prefix: "a dir/", Recursive: true}) {
		if o.Err != nil || o.Key != name {
			t.Errorf("%+v", o)
		}
		found++
	}
	if err := c.RemoveObject(ctx, "bucket", name, minio.RemoveObjectOptions{}); err != nil || found != 1 || checked < 2 {
		t.Errorf("%v, %d objects, %d requests", err, found, checked)
	}
	if refused, used := r.alarms(); len(refused) != 0 || len(used) != checked {
		t.Errorf("refused %+v, %d uses of %d requests", refused, len(used), checked)
	}
}
