package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// Line is one line of the access log. The query is left out: it may hold
// secrets.
type Line struct {
	Time     time.Time `json:"time"` // when the answer ended
	Method   string    `json:"method"`
	Path     string    `json:"path"`
	Status   int       `json:"status"` // 499: the client went away; 502 also for an answer cut off
	Slot     string    `json:"slot"`
	Duration float64   `json:"duration"` // seconds
	Bytes    int64     `json:"bytes"`    // of the body
	Client   string    `json:"client"`   // address of the peer
	Via      string    `json:"via"`      // split, sticky or testers
	Error    string    `json:"error,omitempty"`
}

// MarshalJSON writes the time in milliseconds.
func (l Line) MarshalJSON() ([]byte, error) {
	type plain Line
	return json.Marshal(struct {
		Time string `json:"time"`
		plain
	}{l.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"), plain(l)})
}

// accessLog writes lines in a goroutine of its own; a request never waits.
type accessLog struct {
	lines   chan Line
	dropped func()
	again   chan chan error
	quit    chan struct{}
	closing sync.Once
	end     chan error
	path    string
	file    io.Closer // nil for a writer that is not ours
	out     *bufio.Writer
}

func newAccessLog(opts Options, dropped func()) (*accessLog, error) {
	size := opts.LogBuffer
	if size == 0 {
		size = 8192
	}
	l := &accessLog{
		lines: make(chan Line, size), dropped: dropped, again: make(chan chan error),
		quit: make(chan struct{}), end: make(chan error, 1), path: opts.LogFile,
	}
	switch {
	case opts.LogFile != "":
		if err := l.open(); err != nil {
			return nil, err
		}
	case opts.Log != nil:
		l.out = bufio.NewWriterSize(opts.Log, 64<<10)
	default:
		l.lines = nil
		l.out = bufio.NewWriter(io.Discard)
	}
	go l.run()
	return l, nil
}

// open opens the file and only then lets the one before it go.
func (l *accessLog) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if l.file != nil {
		err = errors.Join(l.out.Flush(), l.file.Close())
	}
	l.file, l.out = f, bufio.NewWriterSize(f, 64<<10)
	return err
}

func (l *accessLog) add(line Line) {
	if l.lines == nil {
		return
	}
	select {
	case <-l.quit:
		l.dropped()
		return
	default:
	}
	select {
	case l.lines <- line:
	default:
		l.dropped()
	}
}

func (l *accessLog) run() {
	for {
		select {
		case line := <-l.lines:
			l.write(line)
			l.drain()
			l.flush()
		case reply := <-l.again:
			l.drain()
			err := l.out.Flush()
			if l.path != "" {
				err = errors.Join(err, l.open())
			}
			reply <- err
		case <-l.quit:
			l.drain()
			err := l.out.Flush()
			if l.file != nil {
				err = errors.Join(err, l.file.Close())
			}
			l.end <- err
			return
		}
	}
}

// drain writes what waits, and not for ever what comes meanwhile.
func (l *accessLog) drain() {
	for range cap(l.lines) {
		select {
		case line := <-l.lines:
			l.write(line)
		default:
			return
		}
	}
}

// write loses the line when the disk is full, say; it is counted as dropped.
func (l *accessLog) write(line Line) {
	data, err := line.MarshalJSON()
	if err == nil {
		_, err = l.out.Write(append(data, '\n'))
	}
	if err != nil {
		l.dropped()
	}
}

// flush forgets the sticky error of a bufio.Writer, so that the log comes
// back when the disk does.
func (l *accessLog) flush() {
	if err := l.out.Flush(); err != nil {
		l.dropped()
		if w, ok := l.file.(io.Writer); ok {
			l.out.Reset(w)
		}
	}
}

func (l *accessLog) reopen() error {
	reply := make(chan error, 1)
	select {
	case l.again <- reply:
		return <-reply
	case <-l.quit:
		return errors.New("proxy: closed")
	}
}

func (l *accessLog) close() error {
	l.closing.Do(func() { close(l.quit) })
	err := <-l.end
	l.end <- err // for the next caller
	return err
}
