package accesslog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tiny is a parser of "<unix seconds> <anything>".
func tiny(line []byte) (Entry, error) {
	first, _, _ := bytes.Cut(line, []byte(" "))
	n, err := strconv.Atoi(string(first))
	if err != nil {
		return Entry{}, errTime
	}
	return Entry{At: time.Unix(int64(n), 0)}, nil
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func putGz(t *testing.T, path, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return put(t, path, b.String())
}

// seconds reads a log and returns the times of its requests, in order.
func seconds(t *testing.T, l Log, from, to int64) ([]int64, Extent) {
	t.Helper()
	var got []int64
	limit := func(s int64) time.Time {
		if s == 0 {
			return time.Time{}
		}
		return time.Unix(s, 0)
	}
	x, err := l.Read(t.Context(), limit(from), limit(to), tiny, func(e Entry) { got = append(got, e.At.Unix()) })
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	return got, x
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	age := time.Unix(1_700_000_000, 0)
	for _, name := range []string{
		"access.log", "access.log.1", "access.log.2.gz", "access.log.3", "access.log.3.gz", "access.log-20261130", "access.log-20261129.gz",
		"access.log.bak", "access.log.old", "access.logx", "other.log", "other.log.1",
	} {
		put(t, filepath.Join(dir, name), "")
	}
	for i, name := range []string{"access.log.3", "access.log.2.gz", "access.log-20261129.gz", "access.log.1", "access.log-20261130"} {
		at := age.Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	access := "access.log access.log-20261130 access.log.1 access.log-20261129.gz access.log.2.gz access.log.3"
	tests := []struct {
		name     string
		patterns []string
		want     []string
	}{
		{"a path", []string{"access.log"}, []string{access}},
		{"an absolute path, twice", []string{filepath.Join(dir, "access.log"), "./access.log"}, []string{access}},
		{"a glob", []string{"*.log"}, []string{access, "other.log other.log.1"}},
		{"a glob that meets rotated files", []string{"other.log*"}, []string{"other.log other.log.1"}},
		{"a rotated file by name", []string{"access.log.1"}, []string{"access.log.1"}},
		{"none yet", []string{"none.log", "no/where.log"}, []string{"where.log", "none.log"}},
		{"a glob without matches", []string{"*.txt"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			logs, err := Find(dir, tt.patterns)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range logs {
				var names []string
				for _, f := range l.Files {
					names = append(names, filepath.Base(f))
				}
				got = append(got, strings.Join(names, " "))
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if _, err := Find(dir, []string{"[x"}); err == nil {
		t.Error("a broken pattern is no error")
	}
}

func TestReadWindow(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "l"), "bad outside\n100 a\nbad in between\n150 b\nbad\n200 c\r\n\n199 d\n250 e\n300 f\nbad outside\n310 g\n")
	got, x := seconds(t, Log{Path: path, Files: []string{path}}, 150, 300)
	if want := []int64{150, 199, 200, 250}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if x.First.Unix() != 100 || x.Last.Unix() != 310 || x.Malformed != 2 || x.Lines != 6 || !errors.Is(x.Problem, errTime) {
		t.Errorf("extent %+v", x)
	}
	if got, x := seconds(t, Log{Files: []string{path}}, 0, 0); len(got) != 7 || x.Malformed != 4 || x.Lines != 11 {
		t.Errorf("without a window: %v, %+v", got, x)
	}
	// A log that became unreadable is not one that became quiet.
	put(t, path, "100 a\n200 b\n"+strings.Repeat("bad\n", 9))
	if _, x := seconds(t, Log{Files: []string{path}}, 300, 400); x.Malformed != 9 || x.Lines != 9 {
		t.Errorf("unreadable end: %+v", x)
	}
}

func TestUnfinishedLine(t *testing.T) {
	tests := map[string]int{"": 0, "100 a": 0, "100 a\n": 1, "100 a\n2": 1, "100 a\n200 b": 1, "\n\n": 0}
	for text, want := range tests {
		path := put(t, filepath.Join(t.TempDir(), "l"), text)
		if got, x := seconds(t, Log{Files: []string{path}}, 0, 0); len(got) != want || x.Malformed != 0 {
			t.Errorf("%q: %v, malformed %d, want %d requests", text, got, x.Malformed, want)
		}
	}
}

// TestLongLines: a line over the limit is counted, its neighbours are read,
// and so is one as long as the limit.
func TestLongLines(t *testing.T) {
	for _, size := range []int{longest, longest + 1, 2*blockSize - 9, 2 * blockSize, 2*blockSize + 9, 3*blockSize - 7, 3*blockSize + 9} {
		for _, gz := range []bool{false, true} {
			text := "100 a\n" + "150 " + strings.Repeat("x", size-4) + "\n200 b\n"
			path := filepath.Join(t.TempDir(), "l")
			if gz {
				path = putGz(t, path+".gz", text)
			} else {
				put(t, path, text)
			}
			got, x := seconds(t, Log{Files: []string{path}}, 0, 0)
			if want := map[bool]int{true: 2, false: 3}[size > longest]; len(got) != want || x.Malformed != 3-want || x.Lines != 3 {
				t.Errorf("size %d, gz %v: %v, %+v", size, gz, got, x)
			}
		}
	}
}

// TestBlocks compares with plain splitting over many lengths of lines.
func TestBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 8 {
		var b strings.Builder
		var want []int64
		for n := int64(1); b.Len() < 5*blockSize; n++ {
			fmt.Fprintf(&b, "%d %s\n", n, strings.Repeat("y", rng.IntN(1+round*800)))
			want = append(want, n)
		}
		path := put(t, filepath.Join(t.TempDir(), "l"), b.String())
		if got, x := seconds(t, Log{Files: []string{path}}, 0, 0); !slices.Equal(got, want) || x.Malformed != 0 {
			t.Fatalf("round %d: %d requests, want %d; %+v", round, len(got), len(want), x)
		}
	}
}

// TestStopsBeforeWindow: what is older than the window is not read.
func TestStopsBeforeWindow(t *testing.T) {
	var b strings.Builder
	for n := 1; b.Len() < 40*blockSize; n++ {
		fmt.Fprintf(&b, "%d %s\n", 1000+n, strings.Repeat("z", 60))
	}
	text := b.String()
	last := int64(1000 + strings.Count(text, "\n"))
	f := &counted{Reader: strings.NewReader(text)}
	r := &reader{ctx: t.Context(), from: time.Unix(last-10, 0), parse: tiny, each: func(Entry) {}, left: mostBytes}
	if err := r.backwards(f, int64(len(text)), "l"); err != nil {
		t.Fatal(err)
	}
	if r.extent.Lines != 11 || f.n > 3*blockSize || !r.extent.First.Before(r.from) {
		t.Errorf("%d lines, %d bytes read of %d, extent %+v", r.extent.Lines, f.n, len(text), r.extent)
	}
	r = &reader{ctx: t.Context(), parse: tiny, each: func(Entry) {}, left: 2 * blockSize}
	if err := r.backwards(f, int64(len(text)), "l"); err != nil || !r.extent.Cut {
		t.Errorf("error %v, extent %+v, want it cut", err, r.extent)
	}
}

type counted struct {
	*strings.Reader
	n int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.n += len(p)
	return c.Reader.ReadAt(p, off)
}

// TestOutOfOrder: requests come a little late, also by more than a block.
func TestOutOfOrder(t *testing.T) {
	late := put(t, filepath.Join(t.TempDir(), "l"), "500 in\n"+strings.Repeat("440 "+strings.Repeat("x", 60)+"\n", 3*blockSize/64)+"510 in\n")
	if got, _ := seconds(t, Log{Files: []string{late}}, 500, 600); !slices.Equal(got, []int64{500, 510}) {
		t.Errorf("%v, want both in the window", got)
	}
	path := put(t, filepath.Join(t.TempDir(), "l"), "500 in\n401 before\n499 before\n510 in\n")
	if got, _ := seconds(t, Log{Files: []string{path}}, 500, 600); !slices.Equal(got, []int64{500, 510}) {
		t.Errorf("%v, want both in the window", got)
	}
}

func TestRotated(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "l"), "300 a\n")
	put(t, filepath.Join(dir, "l.1"), "200 a\n250 b\n")
	putGz(t, filepath.Join(dir, "l.2.gz"), "100 a\n150 b\n160 unfinished")
	old := putGz(t, filepath.Join(dir, "l.3.gz"), "50 a\n")
	if err := os.Chtimes(old, time.Unix(60, 0), time.Unix(60, 0)); err != nil {
		t.Fatal(err)
	}
	logs, err := Find(dir, []string{"l"})
	if err != nil {
		t.Fatal(err)
	}
	if got, x := seconds(t, logs[0], 0, 0); !slices.Equal(got, []int64{50, 100, 150, 200, 250, 300}) || x.First.Unix() != 50 {
		t.Errorf("all: %v, %+v", got, x)
	}
	if got, x := seconds(t, logs[0], 220, 400); !slices.Equal(got, []int64{250, 300}) || x.First.Unix() != 100 {
		t.Errorf("window: %v, %+v, want l.3.gz left alone", got, x)
	}
}

// TestRotatedLongAgo: a compressed file from long before the window is read
// only while nothing else says that the log is older than the window.
func TestRotatedLongAgo(t *testing.T) {
	tests := []struct {
		name, current string
		first         int64
	}{
		{"the log begins in the window", "230 a\n", 50},
		{"the log is empty", "", 50},
		{"the log begins before the window", "210 a\n", 210},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "l"), tt.current)
			for name, at := range map[string]int64{"l.1.gz": 50, "l.2.gz": 20} {
				path := putGz(t, filepath.Join(dir, name), fmt.Sprintf("%d a\n", at))
				if err := os.Chtimes(path, time.Unix(at, 0), time.Unix(at, 0)); err != nil {
					t.Fatal(err)
				}
			}
			logs, err := Find(dir, []string{"l"})
			if err != nil {
				t.Fatal(err)
			}
			if _, x := seconds(t, logs[0], 220, 400); x.First.Unix() != tt.first || x.Malformed != 0 {
				t.Errorf("extent %+v, want the first request at %d", x, tt.first)
			}
		})
	}
}

// TestRotationMeanwhile: a file met under its old and its new name counts once.
func TestRotationMeanwhile(t *testing.T) {
	dir := t.TempDir()
	one := put(t, filepath.Join(dir, "l"), "100 a\n")
	two := filepath.Join(dir, "l.1")
	if err := os.Link(one, two); err != nil {
		t.Fatal(err)
	}
	got, _ := seconds(t, Log{Files: []string{one, two, filepath.Join(dir, "gone")}}, 0, 0)
	if !slices.Equal(got, []int64{100}) {
		t.Errorf("%v, want one request", got)
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	tests := map[string]string{
		dir: "is a directory, expected a file",
		put(t, filepath.Join(dir, "x.1.gz"), "no gzip\n"): "x.1.gz: ",
		put(t, filepath.Join(dir, "y.1.gz"), "\x1f\x8b"):  "y.1.gz: ",
	}
	for path, want := range tests {
		_, err := Log{Files: []string{path}}.Read(t.Context(), time.Time{}, time.Time{}, tiny, func(Entry) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", path, err, want)
		}
	}
	f := &counted{Reader: strings.NewReader("100 a\n")}
	r := &reader{ctx: t.Context(), parse: tiny, each: func(Entry) {}, left: mostBytes}
	if err := r.backwards(f, 1000, "l"); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "changed while") {
		t.Errorf("error %v, want a truncated file told", err)
	}
	_, err := Log{Files: []string{dir + "/none"}}.Read(t.Context(), time.Time{}, time.Time{}, tiny, func(Entry) {})
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		t.Errorf("error %v for a file that does not exist", err)
	}
}

func TestReadCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	for _, path := range []string{put(t, filepath.Join(dir, "l"), "100 a\n"), putGz(t, filepath.Join(dir, "l.1.gz"), "100 a\n")} {
		_, err := Log{Files: []string{path}}.Read(ctx, time.Time{}, time.Time{}, tiny, func(Entry) {})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	parse, err := Nginx(canary, nginxFields())
	if err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	const lines = 200_000
	for i := range lines {
		fmt.Fprintf(&text, "%d.%03d 200 canary 0.%03d 2f1d6c1e-6c1b-4b57-9d54-3f4d0f5c8d11\n", 1_796_040_000+i/1000, i%1000, i%400)
	}
	path := filepath.Join(b.TempDir(), "l")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		stats := NewStats()
		if _, err := (Log{Files: []string{path}}).Read(b.Context(), time.Time{}, time.Time{}, parse, stats.Add); err != nil || stats.Requests != lines {
			b.Fatal(stats.Requests, err)
		}
	}
	b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
