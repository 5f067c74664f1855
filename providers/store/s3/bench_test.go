package s3_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/storetest"
)

// BenchmarkS3Step compares a Get and a Put of some 8 kB with a plain GET and
// a plain PUT of the same bytes, unsigned, to the same server.
func BenchmarkS3Step(b *testing.B) {
	address := storetest.S3(b, storetest.OpenDoor)
	_, endpoint, _ := strings.Cut(address, "endpoint=")
	s := open(b, address)
	var spent, bareSpent time.Duration
	for n := 0; b.Loop(); n++ {
		data := []byte(strings.Repeat(string(rune('a'+n%26)), 8<<10))
		began := time.Now()
		_, revision, err := s.Get(b.Context(), storetest.Key)
		if err == nil {
			_, err = s.Put(b.Context(), storetest.Key, store.Change{Data: data}, revision)
		}
		if err != nil {
			b.Fatal(err)
		}
		spent += time.Since(began)
		b.StopTimer()
		began = time.Now()
		request(b, http.MethodGet, endpoint, nil)
		request(b, http.MethodPut, endpoint, data)
		bareSpent += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(spent)/float64(bareSpent), "x-bare")
}

func request(b *testing.B, method, endpoint string, data []byte) {
	r, err := http.NewRequestWithContext(b.Context(), method, endpoint+"/"+storetest.Bucket+"/bare", bytes.NewReader(data))
	if err != nil {
		b.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		b.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		b.Fatal(err)
	}
}
