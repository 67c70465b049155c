// Package main writes the protobuf encoders and decoders of package envd from the tags of its
// structs: api/envd/proto_gen.go. Run it after a change of a struct:
//
//	go generate ./api/envd
//
// It must not know what the messages mean: that is in their types and tags alone.
package main
