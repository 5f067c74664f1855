package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/manent/action/providers"
)

// heartbeat is how often a log hears of a wait.
const heartbeat = time.Minute

// liveEvery is how often the live line of a terminal is drawn again.
const liveEvery = time.Second

// screen shows progress: lines of what happened, and what is waited for. On a
// terminal the wait is one line that is drawn over; in a log it is one line a
// minute. Safe for concurrent use, since a long call and the renewal of its
// lease both wait.
type screen struct {
	out      io.Writer
	terminal bool
	redactor *providers.Redactor
	now      func() time.Time

	mu    sync.Mutex
	last  string    // last line said
	shown time.Time // when anything was last printed
	doing string    // what is done or waited for
	until time.Time // until when, if that is known
	since time.Time // since when
	live  bool      // a live line stands on the terminal, without an end
}

// say prints one line; the line said last is not said again.
func (s *screen) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line = harmless(s.redactor.Clean(line))
	if line == s.last {
		return
	}
	s.erase()
	_, _ = fmt.Fprintln(s.out, line)
	s.last, s.shown = line, s.now()
}

// begin notes what is done or waited for from now on.
func (s *screen) begin(what string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what = harmless(s.redactor.Clean(what)); what != s.doing {
		s.doing, s.since = what, s.now()
	}
	s.until = until
}

// done takes the live line away.
func (s *screen) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
}

// erase needs the lock.
func (s *screen) erase() {
	if s.live {
		_, _ = io.WriteString(s.out, "\r\x1b[K")
		s.live = false
	}
}

// sleep waits for d or until ctx ends, and shows that it does.
func (s *screen) sleep(ctx context.Context, d time.Duration) error {
	end := s.now().Add(d)
	for {
		left := end.Sub(s.now())
		if left <= 0 {
			return ctx.Err()
		}
		s.waiting()
		timer := time.NewTimer(min(left, liveEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// waiting shows what is waited for, if it is time to.
func (s *screen) waiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.shown.IsZero() {
		s.shown = now
	}
	if s.doing == "" { // nobody has said what for: it is what was said last
		s.doing = firstOf(s.last, "the first step")
	}
	if s.since.IsZero() {
		s.since = now
	}
	switch {
	case s.terminal && now.Sub(s.shown) >= liveEvery:
		_, _ = fmt.Fprintf(s.out, "\r\x1b[K%s (%s)", cutTo(s.doing, 100), s.span(now))
		s.live = true
	case !s.terminal && now.Sub(s.shown) >= heartbeat:
		_, _ = fmt.Fprintf(s.out, "still at %s (%s)\n", s.doing, s.span(now))
		s.shown = now
	}
}

// span is how long the wait still takes or, when nobody knows, how long it
// has taken.
func (s *screen) span(now time.Time) string {
	if left := s.until.Sub(now); left > 0 {
		return left.Round(time.Second).String() + " left"
	}
	return "for " + now.Sub(s.since).Round(time.Second).String()
}

// cutTo keeps a live line on one line of a terminal.
func cutTo(text string, most int) string {
	text = strings.ReplaceAll(text, "\n", " ")
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// isTerminal reports whether f is a terminal; /dev/null is a character device
// too, but nobody reads or answers there.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
