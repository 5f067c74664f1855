package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLogLine(t *testing.T) {
	var log bytes.Buffer
	p, front := start(t, Options{
		Log: &log, Testers: Testers{On: true, Header: "x-canary", Value: "always", Slot: SlotB},
		Now: func() time.Time { return time.UnixMilli(1_700_000_000_120).In(time.FixedZone("", 3600)) },
	})
	get(t, front+"/a%22b?token=hush", "X-Canary", "always")
	eventually(t, func() bool { return count(p, SlotB, 200) == 1 })
	get(t, front)
	eventually(t, func() bool { return count(p, SlotA, 200) == 1 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("log %q, want 2 lines", log.String())
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &fields); err != nil {
		t.Fatal(err)
	}
	if d, ok := fields["duration"].(float64); !ok || d <= 0 || d > 10 {
		t.Errorf("duration %v, want seconds", fields["duration"])
	}
	delete(fields, "duration")
	got, _ := json.Marshal(fields)
	const want = `{"bytes":1,"client":"127.0.0.1","method":"GET","path":"/a\"b","slot":"b","status":200,"time":"2023-11-14T22:13:20.120Z","via":"testers"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !strings.Contains(lines[1], `"via":"split"`) || !strings.HasPrefix(lines[1], `{"time":`) {
		t.Errorf("second line %s", lines[1])
	}
}

// blocked is a writer that waits until it is let go.
type blocked struct {
	entered, release chan struct{}
	once             sync.Once
	bytes.Buffer
}

func (b *blocked) Write(data []byte) (int, error) {
	b.once.Do(func() { close(b.entered) })
	<-b.release
	return b.Buffer.Write(data)
}

// TestLogNeverBlocks: with a disk that hangs, requests go on and the lines
// beyond the buffer are counted.
func TestLogNeverBlocks(t *testing.T) {
	disk := &blocked{entered: make(chan struct{}), release: make(chan struct{})}
	p, front := start(t, Options{Log: disk, LogBuffer: 4})
	get(t, front)
	<-disk.entered
	for range 10 {
		get(t, front)
	}
	eventually(t, func() bool { return metric(p, "manent_proxy_log_dropped_total") == 6 })
	close(disk.release)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(disk.String(), "\n"); got != 5 {
		t.Errorf("%d lines written, want the first and the 4 that waited", got)
	}
}

// full is a disk without space for a while.
type full struct {
	mu  sync.Mutex
	now bool
	bytes.Buffer
}

func (f *full) Write(data []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now {
		return 0, errors.New("no space left on device")
	}
	return f.Buffer.Write(data)
}

// Close makes it a file.
func (f *full) Close() error { return nil }

// TestLogComesBack: a full disk costs lines, not the log.
func TestLogComesBack(t *testing.T) {
	disk := &full{now: true}
	var dropped int
	l := &accessLog{lines: make(chan Line, 8), dropped: func() { dropped++ }, file: disk, out: bufio.NewWriter(disk)}
	l.write(Line{Path: "/lost"})
	l.flush()
	disk.now = false
	l.write(Line{Path: "/kept"})
	l.flush()
	if got := disk.String(); strings.Contains(got, "/lost") || !strings.Contains(got, "/kept") || dropped != 1 {
		t.Errorf("log %q, %d dropped, want the second line only", got, dropped)
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.1")
	p, front := start(t, Options{LogFile: path})
	get(t, front+"/before")
	eventually(t, func() bool { return count(p, SlotA, 200) == 1 })
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	if err := p.Reopen(); err != nil {
		t.Fatal(err)
	}
	get(t, front+"/after")
	eventually(t, func() bool { return count(p, SlotA, 200) == 2 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{moved: "/before", path: "/after"} {
		if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q, %v, want %s", filepath.Base(file), text, err, want)
		}
	}
	if err := p.Reopen(); err == nil {
		t.Error("reopened a closed log")
	}
	if err := p.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
