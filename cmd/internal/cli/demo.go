package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/demo"
	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

type demoFlags struct {
	fault   string
	latency time.Duration
	steps   string
	bake    time.Duration
	rate    int
	dir     string
}

// demoJSON is what `manent demo --json` prints.
type demoJSON struct {
	Exit     int             `json:"exit"`     // 0 promoted, 1 returned
	Result   string          `json:"result"`   // word of the exit code
	Dir      string          `json:"dir"`      // configuration, access log and state
	Sent     int64           `json:"sent"`     // requests
	Failed   int64           `json:"failed"`   // of them without any answer
	Seconds  float64         `json:"seconds"`  // it took
	Document json.RawMessage `json:"document"` // as `manent status --json` prints it
}

const (
	demoStable    = "1.0.0"
	demoCandidate = "1.1.0"
)

func (a *app) newDemo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "watch a rollout of real requests on this machine",
		Long: `Starts two versions of a small service, the embedded proxy in front of them and
a load, all on loopback, and rolls the new version out with the same verbs that
a pipeline calls. With --fault or --latency the new version is broken, and comes
back by itself. Ends with 0 when the new version was promoted and 1 when it was
returned. What it wrote stays in a directory, to look at.`,
		Example: "  manent demo\n  manent demo --fault 5%\n  manent demo --latency 200ms",
	}
	fl := cmd.Flags()
	fl.StringVar(&f.fault, "fault", "", "`SHARE` of the new version's answers that fail, such as 5%")
	fl.DurationVar(&f.latency, "latency", 0, "`TIME` that the new version's answers take longer")
	fl.StringVar(&f.steps, "steps", "1,5,25,50,100", "`SHARES` of the plan, in percent")
	fl.DurationVar(&f.bake, "bake", 3*time.Second, "`TIME` each share is watched")
	fl.IntVar(&f.rate, "rate", 300, "`REQUESTS` a second, 1 to 5000")
	fl.StringVar(&f.dir, "state", "", "empty `DIRECTORY` for configuration, log and state; default a temporary one")
	return a.verb(cmd, func(ctx context.Context, _ []string) (view, error) { return a.demo(ctx, f) })
}

// demo builds the world, rolls out, and tells what happened.
func (a *app) demo(ctx context.Context, f demoFlags) (view, error) {
	began := time.Now()
	fault, dir, err := f.check()
	if err != nil {
		return view{}, err
	}
	w, err := openDemo(ctx, f, fault, dir)
	if err != nil {
		return view{}, err
	}
	defer func() {
		if err := w.close(); err != nil {
			a.warn(err)
		}
	}()
	a.screen.say(fmt.Sprintf("version %s in slot a has all traffic, %d requests a second; version %s waits in slot b",
		demoStable, f.rate, demoCandidate))
	code := a.again(dir, a.stdout).execute(ctx, []string{"run", "-c", w.config, "--version", demoCandidate})
	sent, failed := w.load.Stop()
	var status bytes.Buffer
	a.again(dir, &status).execute(ctx, []string{"status", "-c", w.config, "--json"})
	out := demoJSON{
		Exit: code, Result: word(code), Dir: dir, Sent: sent, Failed: failed,
		Seconds: time.Since(began).Seconds(), Document: status.Bytes(),
	}
	if code != exitDone && code != exitFailed {
		return view{}, &exitError{ending: ending{Code: code, Message: "the demo did not end with the rollout's end", Hint: "what it wrote is in " + dir}}
	}
	end := runner.Outcome{Result: runner.Complete}
	if code == exitFailed {
		end = runner.Outcome{Result: runner.Failure, Message: "version " + demoCandidate + " was returned"}
	}
	return view{Outcome: &end, JSON: out, Text: out.text(w.config)}, nil
}

// again is a call of the command line in the demo's directory.
func (a *app) again(dir string, out interface{ Write([]byte) (int, error) }) *app {
	own := newApp(a.version, a.getenv, dir)
	own.stdin, own.stdout, own.stderr = a.stdin, out, a.stderr
	if a.json && out == a.stdout {
		own.stdout = a.stderr
	}
	return own
}

func (f demoFlags) check() (fault float64, dir string, err error) {
	if f.fault != "" {
		var p config.Percent
		if err := p.UnmarshalText([]byte(f.fault)); err != nil {
			return 0, "", usage("such as --fault 5%", "--fault %v", err)
		}
		fault = float64(p)
	}
	if f.rate < 1 || f.rate > 5000 {
		return 0, "", usage("such as --rate 300", "--rate %d, expected 1 to 5000", f.rate)
	}
	if f.dir == "" {
		dir, err = os.MkdirTemp("", "manent-demo-")
		return fault, dir, err
	}
	dir, err = filepath.Abs(f.dir)
	if err != nil {
		return 0, "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(entries) > 0 {
		return 0, "", usage("name one that is empty or not there yet", "--state %s is not an empty directory", f.dir)
	}
	return fault, dir, os.MkdirAll(dir, 0o755)
}

// demoWorld is everything the demo runs.
type demoWorld struct {
	config string
	load   *demo.Load
	stop   context.CancelFunc
	ends   []func() error
	proxy  chan error
}

func (w *demoWorld) close() error {
	w.stop()
	all := []error{<-w.proxy}
	for _, end := range w.ends {
		all = append(all, end())
	}
	return errors.Join(all...)
}

func openDemo(ctx context.Context, f demoFlags, fault float64, dir string) (*demoWorld, error) {
	stable, err := demo.StartService(ctx, demoStable, 0, 0)
	if err != nil {
		return nil, err
	}
	candidate, err := demo.StartService(ctx, demoCandidate, fault, f.latency)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &demoWorld{config: filepath.Join(dir, "demo.yml"), stop: stop, ends: []func() error{stable.Close, candidate.Close}, proxy: make(chan error, 1)}
	ready := make(chan [2]string, 1)
	go func() {
		w.proxy <- wire.Proxy(ctx, wire.ProxyOptions{
			Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Slots: map[string]string{"a": stable.URL, "b": candidate.URL},
			Log: filepath.Join(dir, "access.log"), Keep: filepath.Join(dir, "proxy.json"), HeaderTimeout: time.Minute,
		}, func(listen, admin string) { ready <- [2]string{listen, admin} })
	}()
	select {
	case err := <-w.proxy:
		stop()
		return nil, fmt.Errorf("start the proxy: %w", err)
	case at := <-ready:
		w.load = demo.StartLoad(ctx, "http://"+at[0]+"/", f.rate)
		if err := os.WriteFile(w.config, []byte(f.yaml(dir, at[1])), 0o644); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

// yaml is the configuration that the demo rolls out by.
func (f demoFlags) yaml(dir, admin string) string {
	return fmt.Sprintf(`# Written by manent demo. A configuration like any other: try
# manent plan -c %s
project: demo
application: shop
environment: laptop
state: %s
steps:
  - {name: copy, at: deploy, run: 'echo "version $MANENT_VERSION is in slot $MANENT_SLOT"'}
rollout:
  traffic:
    steps: [%s]
    bake: %s
    maxBake: %s        # go on watching while there are too few requests
    finalBake: 1s
  providers:
    accesslog: {files: [%s], format: proxy}
  health:
    interval: 1s
    metrics:
      - name: errors             # share of answers with 5xx, both slots side by side
        provider: accesslog
        compare: stable
        query: error_rate
        maxDelta: 0.01
        samplesQuery: requests
        minSamples: 20
        delay: 250ms
      - name: p95                # seconds
        provider: accesslog
        compare: stable
        query: p95
        maxDelta: 0.1
        samplesQuery: requests
        minSamples: 20
        delay: 250ms
traffic:
  router: {provider: proxy, settings: {admin: "http://%s"}}
`, filepath.Join(dir, "demo.yml"), strconv.Quote("file:"+filepath.Join(dir, "state")), f.steps,
		config.Duration(f.bake), config.Duration(max(f.bake, 20*time.Second)), strconv.Quote(filepath.Join(dir, "access.log")), admin)
}

// text says what was moved, judged and stored, where to look and what to type.
func (d demoJSON) text(file string) string {
	var doc state.Document
	_ = json.Unmarshal(d.Document, &doc) // on a damaged one the lines below stay short
	shares, readings := make([]string, 0, 8), 0
	if doc.Rollout != nil {
		for _, s := range doc.Rollout.Stages {
			if !s.InForce.IsZero() {
				shares = append(shares, config.ShareText(s.Share))
			}
			readings += s.Count
		}
	}
	ended := "and serves: it was promoted"
	if d.Exit == exitFailed {
		ended = "and went back to 0 %"
	}
	return fmt.Sprintf(`
moved    version %s had %s %% of the traffic, %s;
         %d requests in %.0f s, %d without an answer
judged   %d readings, errors and p95 of both slots side by side
stored   every step, decision and reading in %s
look     manent status -c %s
         manent activity -c %s
next     manent plan -c %s
         manent demo --fault 5%%
`, demoCandidate, strings.Join(shares, ", "), ended, d.Sent, d.Seconds, d.Failed, readings,
		filepath.Join(d.Dir, "state"), file, file, file)
}
