// Package cli is the command line: one file per verb, each of which reads its
// flags, calls the engine or a pure function, and returns what to show. How a
// call ends is exit.go's to say, what it prints output.go's. It must not know
// any provider: those come from cmd/internal/wire.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/providers"
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/state"
)

// Main runs the process's command line and returns its exit code.
func Main(version string) int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	a := newApp(version, os.Getenv, dir)
	a.stdin, a.stdout, a.stderr, a.asks = os.Stdin, os.Stdout, os.Stderr, isTerminal(os.Stdin)
	ctx, stop := untilSignal()
	defer stop()
	return a.execute(ctx, os.Args[1:])
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends; what is
// in flight gets its grace. The second one ends the process at once.
func untilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		exitAtOnce()
	}()
	return ctx, cancel
}

// app is one call of the command line.
type app struct {
	version string
	getenv  func(string) string
	dir     string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	now     func() time.Time

	json       bool
	file       string // -c
	descriptor string // of the application
	state      string // --state

	redactor *providers.Redactor
	screen   *screen
	host     wire.Host
	stores   func(address string) (store.Store, error)        // the host's
	sleep    func(ctx context.Context, d time.Duration) error // on the screen
	pipeline ci.Platform                                      // see platform
	drives   []drive                                          // see inform
	told     *state.Rollout                                   // that the platform was told of, when it was one
	about    about                                            // what hints are about
	me       state.RunRef                                     // this run, once an engine was made
	asks     bool                                             // there is a person at stdin who can answer
	closers  []io.Closer                                      // of stores
	acts     bool                                             // the verb acts on a rollout
	code     int
}

func newApp(version string, getenv func(string) string, dir string) *app {
	a := &app{version: version, getenv: getenv, dir: dir, now: time.Now, redactor: &providers.Redactor{}}
	a.host = wire.Host{
		Getenv: getenv, Dir: dir, Redactor: a.redactor,
		Say:  func(line string) { a.screen.say(line) },
		Tell: a.tell,
		Mask: a.mask, Sources: &wire.Sources{},
	}
	a.stores = a.host.OpenStore
	a.sleep = func(ctx context.Context, d time.Duration) error { return a.screen.sleep(ctx, d) }
	return a
}

// execute parses the arguments, runs the verb and returns the exit code.
func (a *app) execute(ctx context.Context, args []string) int {
	a.screen = a.newScreen(a.stdout)
	defer a.close()
	return a.guarded(func() int {
		root := a.root()
		root.SetArgs(args)
		if err := root.ExecuteContext(ctx); err != nil {
			return a.finish(ctx, "", view{}, err)
		}
		return a.code
	})
}

// guarded turns a panic into the exit code of a defect: the state is safe, and
// a caller must not take a crash for an answer.
func (a *app) guarded(f func() int) (code int) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic: %v", p)
			code = a.show("", view{}, err)
			if a.acts {
				a.handOn(a.callJSON("", view{}, endingOfError(err), err), nil)
			}
		}
	}()
	return f()
}

// platform is the one that this process runs on, made at the first call.
func (a *app) platform() (ci.Platform, error) {
	if a.pipeline != nil {
		return a.pipeline, nil
	}
	var err error
	a.pipeline, err = a.host.Platform()
	return a.pipeline, err
}

// tell writes a line for the platform as it is. A runner listens to both
// streams; stdout may be on its way into a file, where a secret has no place.
func (a *app) tell(line string) error {
	_, err := io.WriteString(a.stderr, line+"\n")
	return err
}

// mask tells the platform of a secret before anything is printed.
func (a *app) mask(s providers.Secret) error {
	p, err := a.platform()
	if err != nil {
		return err
	}
	return p.Mask(s)
}

// openStore opens a store, to be closed with the call.
func (a *app) openStore(address string) (store.Store, error) {
	s, err := a.stores(address)
	if c, ok := s.(io.Closer); ok && err == nil {
		a.closers = append(a.closers, c)
	}
	return s, err
}

func (a *app) close() {
	for _, c := range a.closers {
		if err := c.Close(); err != nil {
			a.warn(err)
		}
	}
	a.closers = nil
}

func (a *app) newScreen(out io.Writer) *screen {
	return &screen{out: out, terminal: isTerminal(out), redactor: a.redactor, now: a.now}
}

// root is the tree of all verbs.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "manent", Short: "moves traffic to a new version in small, measured steps, and back when something is wrong",
		SilenceErrors: true, SilenceUsage: true, Args: cobra.ArbitraryArgs,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRun: func(*cobra.Command, []string) {
			if a.json {
				a.screen = a.newScreen(a.stderr)
			}
		},
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownVerb(cmd, args[0])
	}
	root.SuggestionsMinimumDistance = 2
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath()), "%s: %v", cmd.CommandPath(), err)
	})
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON document on stdout, progress on stderr")
	for _, verb := range a.verbs() {
		root.AddCommand(verb)
	}
	root.SetHelpCommand(&cobra.Command{Use: "help [verb]", Short: "help about a verb", Run: func(cmd *cobra.Command, args []string) {
		if found, _, err := root.Find(args); err == nil && found != nil {
			_ = found.Help()
		}
	}})
	return root
}

// verbs lists the verbs in the order in which a user meets them.
func (a *app) verbs() []*cobra.Command {
	return []*cobra.Command{
		a.newValidate(),
		a.newPlan(),
		a.newDoctor(),
		a.newRun(),
		a.newStep(),
		a.newStatus(),
		a.newActivity(),
		a.newApprove(),
		a.newReject(),
		a.newRevert(),
		a.newRetry(),
		a.newResume(),
		a.newUnlock(),
		a.newGenerate(),
		a.newSetup(),
		a.newJudge(),
		a.newSimulate(),
		a.newPower(),
		a.newProxy(),
		a.newDemo(),
		a.newSchema(),
		a.newVersion(),
		a.newCompletion(),
	}
}

func unknownVerb(cmd *cobra.Command, verb string) error {
	hint := "`manent help` lists the verbs"
	if near := cmd.SuggestionsFor(verb); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "? " + hint
	}
	return usage(hint, "unknown verb %q", verb)
}

// verb makes a command of a function that returns what to show.
func (a *app) verb(cmd *cobra.Command, do func(ctx context.Context, args []string) (view, error)) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = noArguments
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := do(cmd.Context(), args)
		_, name, _ := strings.Cut(cmd.CommandPath(), " ") // "generate github"
		a.code = a.finish(cmd.Context(), name, v, err)
		return nil
	}
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Sprintf("`%s --help` shows how it is called", cmd.CommandPath()), "%s takes no argument, found %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// need is a usage error that names the flag that is missing.
func need(flag, why string) error {
	return usage("add "+flag, "%s", why)
}
