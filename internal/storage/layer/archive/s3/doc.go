// Package s3 keeps the archives of layers as objects of an S3-compatible store.
//
// Credentials are those of the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or of
// ~/.aws/credentials, and are never part of a [Location]. The server is untrusted: requests go to one host only,
// redirects are refused, answers have a maximum size, and a server that makes no progress is given up. A
// [Bucket] has one part of an upload in memory, for two uploads at a time. A server shows an object when all of its
// parts are there.
//
// The package must not know what an archive contains: package archive compares what is read with its record.
//
//	l, err := s3.Parse("s3://builds/layers?endpoint=https://minio.example.org:9000")
//	b, err := s3.Open(s3.Config{Location: l})
//	err = archive.Archive{Blobs: b}.Save(ctx, digest, root)
package s3
