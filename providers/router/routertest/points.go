package routertest

import (
	"context"
	"fmt"

	"github.com/manent/action/providers"
)

// Op is what a call of Memory does.
type Op string

// The calls that are points.
const (
	OpRead      Op = "read"      // one part
	OpWrite     Op = "write"     // one part
	OpSettled   Op = "settled"   // all parts
	OpTarget    Op = "target"    // the testers' entry
	OpPromote   Op = "promote"   // one of the two writes of a promotion
	OpUnpromote Op = "unpromote" // likewise
)

// Point is one call to the system.
type Point struct {
	N    int // 1 and up, over the life of the Memory
	Op   Op
	Part string // "" for OpSettled and OpTarget
}

// Mode is what goes wrong at a point.
type Mode uint8

// The modes. After Killed… the process is gone: see OnKill.
const (
	Pass         Mode = iota
	KilledBefore      // the process dies and nothing was sent
	KilledAfter       // it was done, and the process dies before it knows
	Refused           // the system says no, with Fault.Kind; nothing was done
	Lost              // nothing arrived; the caller gets Unknown
	Unanswered        // it was done; the caller gets Unknown
	Delayed           // as Lost, but it is done at the next call of Land
	Hung              // nothing arrived and no answer until the context ends
)

// Fault is a hook's answer.
type Fault struct {
	Mode Mode
	Kind providers.Kind // of Refused
}

// Killed is what a kill panics with, unless OnKill was given.
type Killed struct{ Point Point }

// Error says where.
func (k Killed) Error() string {
	return fmt.Sprintf("killed at %s %s (%d)", k.Point.Op, k.Point.Part, k.Point.N)
}

// Hook sets what happens at each point; nil for nothing. It is called before
// the point's effect, without a lock, and may change the world. Set it only
// while no call runs.
func (m *Memory) Hook(hook func(Point) Fault) { m.hook = hook }

// OnKill sets what a kill does instead of panicking with Killed: mark the
// process's other connections as dead, say. When it returns, the call returns
// an Unknown fault.
func (m *Memory) OnKill(kill func(Point)) { m.kill = kill }

// Land does, in their order, the writes that were Delayed. A conditional
// system refuses those that are stale by now.
func (m *Memory) Land() {
	m.mu.Lock()
	late := m.late
	m.late = nil
	m.mu.Unlock()
	for _, do := range late {
		do()
	}
}

// step is one call to the system: numbers it, asks the hook, and does it or
// not.
func (m *Memory) step(ctx context.Context, op Op, part string, do func() error) error {
	if err := m.alive(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	m.points++
	at := Point{N: m.points, Op: op, Part: part}
	m.mu.Unlock()
	if m.hook == nil {
		return do()
	}
	f := m.hook(at)
	switch f.Mode {
	case KilledBefore:
		return m.killed(at)
	case KilledAfter:
		_ = do() // whatever it was, nobody hears of it
		return m.killed(at)
	case Refused:
		return fault(f.Kind, fmt.Errorf("%s refused", op))
	case Lost:
		return fault(providers.Unknown, fmt.Errorf("%s not answered", op))
	case Unanswered:
		_ = do() // as above
		return fault(providers.Unknown, fmt.Errorf("%s not answered", op))
	case Delayed:
		m.delay(do)
		return fault(providers.Unknown, fmt.Errorf("%s not answered", op))
	case Hung:
		<-ctx.Done()
		return m.alive(ctx)
	}
	return do()
}

func (m *Memory) delay(do func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = append(m.late, func() { _ = do() }) // its caller is gone
}

func (m *Memory) killed(at Point) error {
	if m.kill == nil {
		panic(Killed{Point: at})
	}
	m.kill(at)
	return fault(providers.Unknown, Killed{Point: at})
}

func (m *Memory) alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault(providers.Unknown, err)
	}
	return nil
}
