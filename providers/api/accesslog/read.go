package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

const (
	// slack is how far requests may be out of order in a log, which has them
	// as they ended or as a buffer was flushed.
	slack = 2 * time.Minute

	blockSize = 64 << 10
	longest   = 64 << 10 // of a line
	mostBytes = 1 << 30  // of one log in one reading
)

// Extent says what a reading met.
type Extent struct {
	First     time.Time // of the earliest request met, also before the window; zero for none
	Last      time.Time // of the latest request met, also after the window
	Lines     int       // in the window, readable or not
	Malformed int       // of these not readable, or longer than 64 KiB
	Problem   error     // of one that was not readable
	Cut       bool      // the window holds more than one reading goes through
}

// Read calls each for every request of the log from from until before to, in
// no particular order; a zero time is no limit. It reads back from the end
// until what it meets is before the window. A last line without its newline
// is still being written and no line. Files that do not exist are left out.
func (l Log) Read(ctx context.Context, from, to time.Time, parse Parser, each func(Entry)) (Extent, error) {
	r := &reader{ctx: ctx, from: from, to: to, parse: parse, each: each, left: mostBytes, inside: true}
	var seen []os.FileInfo
	for _, path := range l.Files {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return r.extent, err
		case !info.Mode().IsRegular():
			return r.extent, fmt.Errorf("%s is a %s, expected a file", path, kindOf(info.Mode()))
		case strings.HasSuffix(path, ".gz") && info.ModTime().Before(from.Add(-slack)) && r.reaches():
			continue // written before the window; a plain file costs one block to find out
		}
		if err := r.file(path, &seen); err != nil {
			return r.extent, err
		}
	}
	return r.extent, nil
}

// reaches reports whether a request before the window was met: without one the
// newest rotated file has to tell whether the log is older than the window.
func (r *reader) reaches() bool {
	return !r.extent.First.IsZero() && r.extent.First.Before(r.from)
}

func kindOf(m fs.FileMode) string {
	if m.IsDir() {
		return "directory"
	}
	return "device or pipe"
}

// reader is one reading of one log.
type reader struct {
	ctx      context.Context
	from, to time.Time
	parse    Parser
	each     func(Entry)

	extent Extent
	left   int64     // bytes still to be read
	inside bool      // the readable line met last was in the window; true for none yet
	newest time.Time // in the current block

	unread  int // unreadable lines since then
	problem error
}

func (r *reader) file(path string, seen *[]os.FileInfo) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for _, s := range *seen {
		if os.SameFile(s, info) {
			return nil // rotated while we read
		}
	}
	*seen = append(*seen, info)
	r.inside = true
	if strings.HasSuffix(path, ".gz") {
		return r.forwards(f, path)
	}
	return r.backwards(f, info.Size(), path)
}

// backwards reads a file from its end, block by block, until a block is older
// than the window. buf holds a block and behind it the beginning of a line
// whose end is in the block read before.
func (r *reader) backwards(f io.ReaderAt, pos int64, path string) error {
	buf := make([]byte, blockSize+longest)
	kept, skip := 0, true // skip: the line that ends here is too long, or unfinished
	unfinished := true
	for pos > 0 && r.more() {
		n := min(int64(blockSize), pos)
		pos -= n
		if _, err := f.ReadAt(buf[blockSize-n:blockSize], pos); err != nil {
			return fmt.Errorf("%s changed while it was read: %w", path, err)
		}
		r.left -= n
		data := buf[blockSize-n : blockSize+kept]
		r.newest = time.Time{}
		for {
			i := bytes.LastIndexByte(data, '\n')
			if i < 0 {
				break
			}
			r.ended(data[i+1:], skip, unfinished)
			data, skip, unfinished = data[:i], false, false
		}
		if skip = skip || len(data) > longest; skip {
			data = nil
		}
		kept = copy(buf[blockSize:], data)
		if !r.newest.IsZero() && r.newest.Before(r.from.Add(-slack)) {
			break
		}
	}
	if pos == 0 {
		r.ended(buf[blockSize:blockSize+kept], skip, unfinished)
	}
	r.settle(r.inside)
	return r.ctx.Err()
}

// ended takes a line whose beginning was found.
func (r *reader) ended(line []byte, skip, unfinished bool) {
	switch {
	case unfinished:
	case skip || len(line) > longest:
		r.malformed(errLong)
	default:
		r.line(line)
	}
}

// forwards reads a compressed file.
func (r *reader) forwards(f io.Reader, path string) error {
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	lines := bufio.NewReaderSize(z, longest+1) // and the newline
	for long := false; r.more(); {
		line, err := lines.ReadSlice('\n')
		r.left -= int64(len(line))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = true
		case errors.Is(err, io.EOF):
			r.settle(r.inside)
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		case long:
			r.malformed(errLong)
			long = false
		default:
			r.line(line[:len(line)-1])
		}
	}
	return r.ctx.Err()
}

// more reports whether to go on, and notes when the limit ends a reading.
func (r *reader) more() bool {
	r.extent.Cut = r.extent.Cut || r.left <= 0
	return r.left > 0 && r.ctx.Err() == nil
}

var errLong = errors.New("longer than 64 KiB")

func (r *reader) line(line []byte) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return
	}
	e, err := r.parse(line)
	if err != nil {
		r.malformed(err)
		return
	}
	if e.At.After(r.newest) {
		r.newest = e.At
	}
	if r.extent.First.IsZero() || e.At.Before(r.extent.First) {
		r.extent.First = e.At
	}
	if e.At.After(r.extent.Last) {
		r.extent.Last = e.At
	}
	before := r.inside
	r.inside = !e.At.Before(r.from) && (r.to.IsZero() || e.At.Before(r.to))
	r.settle(before || r.inside)
	if r.inside {
		r.extent.Lines++
		r.each(e)
	}
}

// malformed notes a line that has no time of its own; settle counts such
// lines when one of their neighbours is in the window.
func (r *reader) malformed(err error) {
	r.unread++
	r.problem = err
}

func (r *reader) settle(inWindow bool) {
	if inWindow && r.unread > 0 {
		r.extent.Lines += r.unread
		r.extent.Malformed += r.unread
		r.extent.Problem = r.problem
	}
	r.unread = 0
}
