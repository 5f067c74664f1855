package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/s3"
	"github.com/manent/action/providers/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m, s3.Spec())) }

const (
	id     = "AKIATESTTESTTESTTEST"
	secret = "s3cr3t/acc3ss+key"
)

// environment holds credentials, and asks the SDK not to repeat requests.
func environment(changes ...string) func(string) string {
	values := map[string]string{"AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "t0ken-of-s3ssion", "AWS_MAX_ATTEMPTS": "1"}
	for i := 0; i < len(changes); i += 2 {
		values[changes[i]] = changes[i+1]
	}
	return func(name string) string { return values[name] }
}

func open(t testing.TB, address string, changes ...string) store.Store {
	t.Helper()
	s, err := s3.Open(providers.Env{Getenv: environment(changes...), Log: t.Logf}, address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signed lets in what carries our access key, signed, and refuses what S3
// would refuse.
func signed(t testing.TB) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			authorization := r.Header.Get("Authorization")
			if !strings.HasPrefix(authorization, "AWS4-HMAC-SHA256 Credential="+id+"/") || !strings.Contains(authorization, "/eu-central-1/s3/aws4_request") {
				answer(w, http.StatusForbidden, "InvalidAccessKeyId")
				return
			}
			if r.Header.Get("X-Amz-Security-Token") == "" || r.Header.Get("X-Amz-Trailer") != "" || r.URL.User != nil {
				t.Errorf("%s %s: headers %v", r.Method, r.URL, r.Header)
			}
			if r.Method == http.MethodPut && r.Header.Get("If-Match") == "" && r.Header.Get("If-None-Match") == "" {
				t.Errorf("PUT %s without a condition", r.URL.Path)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// answer is an error the way S3 writes it.
func answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no.\nnot today.</Message></Error>", code)
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		address := storetest.S3(t, signed(t))
		return storetest.Harness{
			Open:    func(t *testing.T) store.Store { return open(t, address) },
			Denied:  func(t *testing.T) store.Store { return open(t, address, "AWS_ACCESS_KEY_ID", "AKIAOTHEROTHEROTHER0") },
			Secrets: []string{id, secret, "t0ken-of-s3ssion", "AKIAOTHEROTHEROTHER0"},
			Plant:   func(t *testing.T, key string, data []byte) { plant(t, address, "some/where/state/"+key+".json", data) },
		}
	})
}

// plant puts an object with a plain request; the double checks no signature.
func plant(t *testing.T, address, name string, data []byte) {
	t.Helper()
	_, endpoint, _ := strings.Cut(address, "endpoint=")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, endpoint+"/"+storetest.Bucket+"/"+name, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+id+"/20260501/eu-central-1/s3/aws4_request")
	r.Header.Set("X-Amz-Security-Token", "x")
	r.Header.Set("If-None-Match", "*")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", response.Status, err)
	}
}

func TestRacingProcesses(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", id)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	storetest.RaceProcesses(t, storetest.S3(t, storetest.OpenDoor))
}

// TestCarelessStoreIsFound: doctor must not let a store pass that ignores
// conditions.
func TestCarelessStoreIsFound(t *testing.T) {
	err := store.Probe(t.Context(), open(t, storetest.S3(t, storetest.Careless)), store.ProbeKey)
	isFault(t, "probe", err, providers.Invalid)
	if !strings.Contains(err.Error(), "took a create over a key that exists") || providers.HintOf(err) == "" {
		t.Errorf("%v (hint %q)", err, providers.HintOf(err))
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{
		"", "s3", "s3:", "s3://", "s3:///prefix", "s3://bucket?bogus=1", "s3://bucket/a/../b", "s3://bucket/a//b", "s3://bucket/./a",
		"s3://id:hunter22@bucket/x", "s3://bucket?endpoint=http://192.0.2.1:9000", "s3://bucket?endpoint=https://a:hunter22@127.0.0.1", "s3://bucket?endpoint=ftp://127.0.0.1", "http://bucket/x", "s3://bucket/x#y", "s3://bucket/%zz",
	} {
		_, err := s3.Open(providers.Env{}, address)
		isFault(t, address, err, providers.Invalid)
		if strings.Contains(fmt.Sprint(err), "hunter22") {
			t.Errorf("%v holds the password", err)
		}
	}
	_, _, err := open(t, "s3://bucket/x").Get(t.Context(), storetest.Key)
	isFault(t, "no region", err, providers.Invalid)
}

// TestAnswers: what each answer means, to a read and to a write.
func TestAnswers(t *testing.T) {
	tests := []struct {
		name    string
		respond func(w http.ResponseWriter)
		kind    providers.Kind
	}{
		{"401", code(http.StatusUnauthorized, "Unauthorized"), providers.Denied},
		{"403", code(http.StatusForbidden, "AccessDenied"), providers.Denied},
		{"404 bucket", code(http.StatusNotFound, "NoSuchBucket"), providers.NotFound},
		{"400", code(http.StatusBadRequest, "InvalidRequest"), providers.Invalid},
		{"400 of a session that has ended", code(http.StatusBadRequest, "ExpiredToken"), providers.Denied},
		{"429", code(http.StatusTooManyRequests, "TooManyRequests"), providers.Throttled},
		{"503 slow down", code(http.StatusServiceUnavailable, "SlowDown"), providers.Throttled},
		{"500", code(http.StatusInternalServerError, "InternalError"), providers.Unavailable},
		{"502 without a body", func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, providers.Unavailable},
		{"301", code(http.StatusMovedPermanently, "PermanentRedirect"), providers.Invalid},
		{"501", code(http.StatusNotImplemented, "NotImplemented"), providers.Invalid},
		{"cut off", func(w http.ResponseWriter) {
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("{"))
			panic(http.ErrAbortHandler)
		}, providers.Unknown},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.respond(w) }))
			defer host.Close()
			wantFault(t, open(t, "s3://bucket/x?region=r&endpoint="+host.URL), test.kind)
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		wantFault(t, open(t, "s3://bucket/x?region=r&endpoint=http://"+listener.Addr().String()), providers.Unavailable)
	})
}

func code(status int, code string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { answer(w, status, code) }
}

func wantFault(t *testing.T, s store.Store, kind providers.Kind) {
	t.Helper()
	_, _, err := s.Get(t.Context(), storetest.Key)
	isFault(t, "get", err, kind)
	_, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("x")}, "")
	isFault(t, "put", err, kind)
	_, err = s.Object(t.Context(), storetest.Key, "readings/r1/1.json")
	isFault(t, "object", err, kind)
	_, err = s.List(t.Context(), "")
	isFault(t, "list", err, kind)
}

func isFault(t *testing.T, op string, err error, kind providers.Kind) {
	t.Helper()
	if err == nil || providers.KindOf(err) != kind {
		t.Errorf("%s: %v (kind %q), expected kind %q", op, err, providers.KindOf(err), kind)
	}
	if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n")) {
		t.Errorf("%s: %q holds the secret or more than a line", op, err)
	}
}

// meddler is a door that does something to the writes of documents.
type meddler struct {
	writes  atomic.Int32
	meddle  func(n int32, w http.ResponseWriter, r *http.Request, next http.Handler) bool // true when it has answered
	objects bool                                                                          // meddle with objects instead
}

func (m *meddler) door(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/objects/") == m.objects &&
			m.meddle(m.writes.Add(1), w, r, next) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// TestOwnWriteIsNotAConflict: the write lands, its answer is lost, the SDK
// sends it again and gets 412 for its own object.
func TestOwnWriteIsNotAConflict(t *testing.T) {
	for name, first := range map[string]int32{"create": 1, "replace": 2} {
		t.Run(name, func(t *testing.T) {
			m := &meddler{meddle: func(n int32, w http.ResponseWriter, r *http.Request, next http.Handler) bool {
				if n != first {
					return false
				}
				next.ServeHTTP(httptest.NewRecorder(), r)
				answer(w, http.StatusInternalServerError, "InternalError")
				return true
			}}
			s := open(t, storetest.S3(t, m.door), "AWS_MAX_ATTEMPTS", "2")
			var revision store.Revision
			var err error
			for i := range first {
				if revision, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte(fmt.Sprint("body ", i))}, revision); err != nil {
					t.Fatal(err)
				}
			}
			if n := m.writes.Load(); n != first+1 {
				t.Fatalf("%d writes, expected the last to be sent twice", n)
			}
			data, at, err := s.Get(t.Context(), storetest.Key)
			if err != nil || at != revision || string(data) != fmt.Sprint("body ", first-1) {
				t.Fatalf("%q at %q, %v", data, at, err)
			}
		})
	}
}

// TestContestedWrites: refusals that are about others' writes in flight.
func TestContestedWrites(t *testing.T) {
	tests := []struct {
		name   string
		status int
		code   string
		times  int32
		kind   providers.Kind // Unknown for success
		writes int32
	}{
		{"409, then free", http.StatusConflict, "ConditionalRequestConflict", 2, providers.Unknown, 3},
		{"409 for good", http.StatusConflict, "ConditionalRequestConflict", 99, providers.Unavailable, 5},
		{"412 without reason, then free", http.StatusPreconditionFailed, "PreconditionFailed", 1, providers.Unknown, 2},
		{"404 without reason, then free", http.StatusNotFound, "NoSuchKey", 1, providers.Unknown, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &meddler{meddle: func(n int32, w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
				if n > test.times {
					return false
				}
				answer(w, test.status, test.code)
				return true
			}}
			_, err := open(t, storetest.S3(t, m.door)).Put(t.Context(), storetest.Key, store.Change{Data: []byte("x")}, "")
			if test.kind != providers.Unknown {
				isFault(t, "put", err, test.kind)
			} else if err != nil {
				t.Error(err)
			}
			if n := m.writes.Load(); n != test.writes {
				t.Errorf("%d writes, expected %d", n, test.writes)
			}
		})
	}
}

// TestWriteThatIsNotThere: a store that accepts and forgets.
func TestWriteThatIsNotThere(t *testing.T) {
	m := &meddler{meddle: func(_ int32, w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK) // no ETag: it is read back
		return true
	}}
	_, err := open(t, storetest.S3(t, m.door)).Put(t.Context(), storetest.Key, store.Change{Data: []byte("x")}, "")
	isFault(t, "put", err, providers.Unknown)
}

// TestObjectLeftByARefusedWrite is replaced by the write that lands.
func TestObjectLeftByARefusedWrite(t *testing.T) {
	address := storetest.S3(t, storetest.OpenDoor)
	s := open(t, address)
	first, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("one")}, "")
	if err != nil {
		t.Fatal(err)
	}
	plant(t, address, "some/where/objects/"+storetest.Key+"/readings/r1/1.json", []byte("left over"))
	change := store.Change{Data: []byte("two"), Objects: map[string][]byte{"readings/r1/1.json": []byte("right")}}
	if _, err := s.Put(t.Context(), storetest.Key, change, first); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Object(t.Context(), storetest.Key, "readings/r1/1.json"); err != nil || string(data) != "right" {
		t.Fatalf("%q, %v", data, err)
	}
}

// TestObjectFailureStopsTheWrite: no document names an object that is not
// there.
func TestObjectFailureStopsTheWrite(t *testing.T) {
	m := &meddler{objects: true, meddle: func(_ int32, w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		answer(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return true
	}}
	s := open(t, storetest.S3(t, m.door))
	change := store.Change{Data: []byte("one"), Objects: map[string][]byte{"readings/r1/1.json": []byte("x")}}
	_, err := s.Put(t.Context(), storetest.Key, change, "")
	isFault(t, "put", err, providers.Unavailable)
	if data, revision, err := s.Get(t.Context(), storetest.Key); err != nil || revision != "" {
		t.Fatalf("%q at %q, %v, expected no document", data, revision, err)
	}
}

// TestObjectsThatCannotBeDropped are reported; the write has landed.
func TestObjectsThatCannotBeDropped(t *testing.T) {
	address := storetest.S3(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				answer(w, http.StatusForbidden, "AccessDenied")
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	var mu sync.Mutex
	var log []string
	s, err := s3.Open(providers.Env{Getenv: environment(), Log: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, fmt.Sprintf(format, args...))
	}}, address)
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("one"), Objects: map[string][]byte{"readings/r1/1.json": nil}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte("two"), Drop: []string{"readings/r1/"}}, first); err != nil {
		t.Fatal(err)
	}
	if len(log) != 1 || !strings.Contains(log[0], "readings/r1/ stay") {
		t.Fatalf("log %q, expected one line about what stays", log)
	}
}

// TestManyPages: a list longer than a page of the API is complete.
func TestManyPages(t *testing.T) {
	address := storetest.S3(t, storetest.OpenDoor)
	const n = 1100
	for i := range n {
		plant(t, address, fmt.Sprintf("some/where/state/shop/web/e%04d.json", i), []byte("x"))
	}
	plant(t, address, "some/where/state/not-ours", []byte("x"))
	keys, err := open(t, address).List(t.Context(), "shop")
	if err != nil || len(keys) != n || keys[n-1] != "shop/web/e1099" {
		t.Fatalf("%d keys, %v, expected %d", len(keys), err, n)
	}
}
