package storetest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is the bucket of an S3 made here.
const Bucket = "state"

// S3 serves an S3 with one empty bucket on loopback, behind a door, and
// returns its address as a store. It checks conditions, not signatures.
func S3(t testing.TB, door func(next http.Handler) http.Handler) (address string) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(Bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(door(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()))
	t.Cleanup(server.Close)
	return "s3://" + Bucket + "/some/where?region=eu-central-1&endpoint=" + server.URL
}

// OpenDoor lets every request in.
func OpenDoor(next http.Handler) http.Handler { return next }

// Careless is the door of an S3 that ignores the conditions of a write, as
// several emulators and proxies do: what `doctor` is there to find.
func Careless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
		next.ServeHTTP(w, r)
	})
}
