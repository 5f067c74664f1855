package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/storetest"
)

// BenchmarkFileStep compares a Get and a Put of some 8 kB with reading the
// file, writing it anew, syncing it, renaming it and syncing its folder.
func BenchmarkFileStep(b *testing.B) {
	s := open(b, providers.Env{}, "file:"+b.TempDir())
	bare := b.TempDir()
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
		bareStep(b, bare, data)
		bareSpent += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(spent)/float64(bareSpent), "x-bare")
}

func bareStep(b *testing.B, dir string, data []byte) {
	name := filepath.Join(dir, "state.json")
	if _, err := os.ReadFile(name); err != nil && !os.IsNotExist(err) {
		b.Fatal(err)
	}
	f, err := os.Create(name + ".new")
	if err != nil {
		b.Fatal(err)
	}
	folder, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, do := range []func() error{
		func() error { _, err := f.Write(data); return err }, f.Sync, f.Close,
		func() error { return os.Rename(name+".new", name) }, folder.Sync, folder.Close,
	} {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
}
