//go:build unix

package external

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/external/externaltest"
)

var update = flag.Bool("update", false, "write the generated pages of docs/")

// program is the plugin, compiled once.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "manent-external-")
	if err == nil {
		program, err = externaltest.Build(context.Background(), dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const secret = "hunter2hunter2"

// bench is a program and its world.
type bench struct {
	*testing.T
	dir    string
	client *Client
	logged []string
}

func newBench(t *testing.T, w externaltest.World) *bench {
	t.Helper()
	b := &bench{T: t, dir: t.TempDir()}
	w.Spills = secret
	if err := externaltest.Put(b.dir, w); err != nil {
		t.Fatal(err)
	}
	redactor := &providers.Redactor{}
	redactor.Add(providers.NewSecret(secret))
	b.client = New(Options{Provider: "external", Command: []string{program}, Dir: b.dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Redactor: redactor})
	return b
}

func (b *bench) call(method string, params any) Call {
	return Call{Method: method, Params: params, Timeout: 2 * time.Minute, Log: func(line string) { b.logged = append(b.logged, line) }}
}

func deploy() SlotParams {
	return SlotParams{Slot: "b", Release: Release{Version: "v2"}, Step: "r1/deploy"}
}

func TestDo(t *testing.T) {
	b := newBench(t, externaltest.New(1))
	got, err := Do[DeployResult](t.Context(), b.client, b.call(Deploy, deploy()))
	if err != nil || got.Ref["unit"] != "b-v2" {
		t.Fatalf("result %+v, error %v", got, err)
	}
	if strings.Join(b.logged, "|") != "deploy v2 into b" {
		t.Errorf("logged %q", b.logged)
	}
	d, err := Do[Description](t.Context(), b.client, b.call(Describe, None{}))
	if err != nil || d.Name != "externaltest" || d.Traits.Step != 0.01 || len(d.Capabilities) != 4 {
		t.Errorf("description %+v, error %v", d, err)
	}
}

// TestHostilePrograms: whatever a program does instead of answering, nobody
// can say what happened; it never is a success, and never a no.
func TestHostilePrograms(t *testing.T) {
	cases := map[string]struct {
		says    string
		timeout time.Duration
	}{
		externaltest.Dies:      {says: "ended from outside"},
		externaltest.Mute:      {says: "ended from outside"},
		externaltest.Half:      {says: "ends in the middle"},
		externaltest.Silent:    {says: "there is no answer"},
		externaltest.Twice:     {says: "something after the answer"},
		externaltest.Garbage:   {says: "is no JSON"},
		externaltest.Huge:      {says: "more than 1048576 bytes"},
		externaltest.OtherID:   {says: "to another request"},
		externaltest.OtherVers: {says: "of protocol 2, expected 1"},
		externaltest.Fails:     {says: "exit code 3"},
		externaltest.Tells:     {says: "holds a secret"},
		externaltest.Hangs:     {says: "no answer within 300ms", timeout: 300 * time.Millisecond},
	}
	for mood, tc := range cases {
		t.Run(mood, func(t *testing.T) {
			t.Parallel()
			w := externaltest.New(1)
			w.Moods[Deploy] = mood
			b := newBench(t, w)
			call := b.call(Deploy, deploy())
			if tc.timeout > 0 {
				call.Timeout = tc.timeout
			}
			got, err := Do[DeployResult](t.Context(), b.client, call)
			if err == nil || providers.KindOf(err) != providers.Unknown || got.Ref != nil || providers.Lost(err) {
				t.Fatalf("result %+v, kind %v, error %v, expected unknown", got, providers.KindOf(err), err)
			}
			if !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, expected one line that says %q", err, tc.says)
			}
			b.discreet(err)
		})
	}
}

func (b *bench) discreet(err error) {
	b.Helper()
	for what, text := range map[string]string{"error": fmt.Sprint(err), "hint": providers.HintOf(err), "log": strings.Join(b.logged, "\n")} {
		if strings.Contains(text, secret[:7]) {
			b.Errorf("the %s holds the secret: %q", what, text)
		}
	}
}

// TestErrorAnswers: only a well-formed error answer is a no, whatever the exit
// code.
func TestErrorAnswers(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Kind.String(), func(t *testing.T) {
			t.Parallel()
			w := externaltest.New(1)
			w.Moods[Deploy] = "error " + k.Kind.String()
			b := newBench(t, w)
			_, err := Do[DeployResult](t.Context(), b.client, b.call(Deploy, deploy()))
			if providers.KindOf(err) != k.Kind || !strings.Contains(err.Error(), "refused by the test: [redacted]") || providers.HintOf(err) != "look at the test" {
				t.Errorf("kind %v, error %v, hint %q", providers.KindOf(err), err, providers.HintOf(err))
			}
			b.discreet(err)
		})
	}
}

// TestNothingOutlivesItsRequest: a child that ignores SIGTERM and holds the
// output neither delays the answer for ever nor stays.
func TestNothingOutlivesItsRequest(t *testing.T) {
	for _, mood := range []string{externaltest.Family, externaltest.Stubborn} {
		t.Run(mood, func(t *testing.T) {
			t.Parallel()
			w := externaltest.New(1)
			w.Moods[Deploy] = mood
			b := newBench(t, w)
			b.client.opts.Grace = 200 * time.Millisecond
			call := b.call(Deploy, deploy())
			if mood == externaltest.Stubborn {
				call.Timeout = 500 * time.Millisecond
			}
			got, err := Do[DeployResult](t.Context(), b.client, call)
			if mood == externaltest.Stubborn && providers.KindOf(err) != providers.Unknown || mood == externaltest.Family && got.Ref["unit"] != "b-v2" {
				t.Errorf("result %+v, error %v", got, err)
			}
			if mood == externaltest.Family {
				b.gone()
			}
		})
	}
}

// gone waits for the end of the children that a program left: a killed
// process is gone a moment later.
func (b *bench) gone() {
	b.Helper()
	look, late := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	for !externaltest.Gone(b.dir) {
		select {
		case <-look.C:
		case <-late:
			b.Fatal("its children are still there")
		}
	}
}

func TestCancelledCalls(t *testing.T) {
	w := externaltest.New(1)
	w.Moods[Deploy] = externaltest.Hangs
	b := newBench(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for look := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-look.C {
			if _, err := os.Stat(filepath.Join(b.dir, "started-deploy")); err == nil {
				cancel()
			}
		}
	}()
	if _, err := Do[DeployResult](ctx, b.client, b.call(Deploy, deploy())); !providers.Lost(err) || providers.KindOf(err) != providers.Unknown {
		t.Errorf("error %v, expected that of the context", err)
	}
	before, err := externaltest.Get(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Do[DeployResult](ctx, b.client, b.call(Deploy, deploy())); !providers.Lost(err) || !strings.Contains(err.Error(), "was not started") {
		t.Errorf("error %v, expected that nothing was started", err)
	}
	if after, err := externaltest.Get(b.dir); err != nil || len(after.Log) != len(before.Log) {
		t.Errorf("requests %v after %v, error %v", after.Log, before.Log, err)
	}
}

func TestProgramsThatCannotStart(t *testing.T) {
	b := newBench(t, externaltest.New(1))
	for name, command := range map[string][]string{"missing": {"./nothing-here"}, "not in PATH": {"manent-nothing-here"}, "a folder": {"./"}} {
		b.client.opts.Command = command
		_, err := Do[Description](t.Context(), b.client, b.call(Describe, None{}))
		if providers.KindOf(err) != providers.Invalid || !strings.Contains(fmt.Sprint(err), "could not start") || providers.HintOf(err) == "" {
			t.Errorf("%s: error %v, expected a definite one with a hint", name, err)
		}
	}
}

// TestWhatAProgramIsTold compares the whole environment and request of one.
func TestWhatAProgramIsTold(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not for the program")
	dir := t.TempDir()
	c := New(Options{
		Provider: "external", Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "REGION=eu"},
		Command:  []string{"sh", "-c", `cat >request; env >environment; tr '\0' ' ' </proc/$$/cmdline >line 2>/dev/null || echo none >line`},
		Settings: map[string]string{"pool": "web"}, Targets: []Target{{Host: "10.0.0.1", Port: 80}},
		Secrets: func(context.Context) (map[string]string, []string, error) {
			return map[string]string{"KEY": secret}, []string{"TOKEN=" + secret}, nil
		},
	})
	call := Call{Method: Read, Params: ReadParams{}, Vars: map[string]string{"MANENT_STAGE": "25%"}}
	if _, err := Do[ReadResult](t.Context(), c, call); providers.KindOf(err) != providers.Unknown || !strings.Contains(err.Error(), "there is no answer") {
		t.Fatalf("error %v", err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var got Request
	if err := json.Unmarshal([]byte(read("request")), &got); err != nil || got.Protocol != 1 || len(got.ID) != 16 || got.Request != Read ||
		got.Settings["pool"] != "web" || got.Secrets["KEY"] != secret || len(got.Targets) != 1 {
		t.Errorf("request %+v, error %v", got, err)
	}
	env := read("environment")
	for _, has := range []string{"REGION=eu\n", "TOKEN=" + secret, "MANENT_STAGE=25%\n", "MANENT_PROTOCOL=1\n", "MANENT_REQUEST=read\n"} {
		if !strings.Contains(env, has) {
			t.Errorf("environment lacks %q:\n%s", has, env)
		}
	}
	if strings.Contains(env, "AWS_SECRET") || strings.Contains(read("line"), secret) {
		t.Errorf("the program was told too much: %s", env)
	}
}

func TestParse(t *testing.T) {
	const ok = `{"protocol":1,"id":"x","result":{"settled":true}}`
	cases := map[string]struct{ answer, says string }{
		"fine":             {ok, ""},
		"blanks around":    {" \n" + ok + "\n\n", ""},
		"nothing":          {" \n", "there is no answer"},
		"two":              {ok + "\n" + ok, "something after"},
		"text after":       {ok + " done", "something after"},
		"text before":      {"done " + ok, "is no JSON"},
		"half":             {ok[:30], "ends in the middle"},
		"a list":           {"[1]", `answer is "[1]", expected an object`},
		"no UTF-8":         {"{\"protocol\":1,\"id\":\"\xff\"}", "no UTF-8"},
		"protocol":         {strings.Replace(ok, ":1,", ":2,", 1), "of protocol 2"},
		"protocol as text": {strings.Replace(ok, ":1,", `:"1",`, 1), "answer.protocol"},
		"no protocol":      {`{"id":"x","result":{"settled":true}}`, "answer lacks protocol"},
		"other id":         {strings.Replace(ok, "x", "y", 1), "another request"},
		"neither":          {`{"protocol":1,"id":"x"}`, "one of result and error"},
		"both":             {`{"protocol":1,"id":"x","result":{"settled":true},"error":{"kind":"invalid","message":"m"}}`, "one of result and error"},
		"result null":      {`{"protocol":1,"id":"x","result":null}`, `expected an object`},
		"missing key":      {`{"protocol":1,"id":"x","result":{}}`, "result lacks settled"},
		"null for a bool":  {`{"protocol":1,"id":"x","result":{"settled":null}}`, "result.settled"},
		"text for a bool":  {`{"protocol":1,"id":"x","result":{"settled":"true"}}`, `result.settled is "true", expected true or false`},
		"unknown key":      {`{"protocol":1,"id":"x","result":{"settled":true,"Settled":false}}`, `unknown key "Settled"`},
		"unknown around":   {`{"protocol":1,"id":"x","ok":true,"result":{"settled":true}}`, `unknown key "ok"`},
	}
	p := parser{id: "x", result: reflect.TypeFor[SettledResult](), redact: line}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, no, err := p.parse([]byte(tc.answer), 0)
			if no != nil {
				t.Fatalf("it is taken for a no: %+v", no)
			}
			if tc.says == "" && (err != nil || got != SettledResult{Settled: true}) || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("result %v, error %v, expected %q", got, err, tc.says)
			}
		})
	}
	many, long := map[string]string{}, strings.Repeat("x", MaxText+1)
	for i := range MaxEntries + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	for _, receipt := range []map[string]string{many, {"long": long}, {"control": "a\x1bb"}} {
		data, err := json.Marshal(map[string]any{"protocol": 1, "id": "x", "result": WriteResult{Receipt: receipt}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := (parser{id: "x", result: reflect.TypeFor[WriteResult](), redact: line}).parse(data, 0); err == nil {
			t.Errorf("a receipt that must not go into the state is taken: %.60q", data)
		}
	}
	if _, _, err := p.parse([]byte(ok), 1); err == nil {
		t.Error("a result counts although the program failed")
	}
}

func TestParseErrors(t *testing.T) {
	cases := map[string]struct{ answer, says string }{
		"fine":        {`{"kind":"not found","message":"no\npool"}`, ""},
		"no kind":     {`{"message":"m"}`, "error lacks kind"},
		"other kind":  {`{"kind":"fatal","message":"m"}`, "error.kind"},
		"no message":  {`{"kind":"denied"}`, "error lacks message"},
		"empty":       {`{"kind":"denied","message":" "}`, "no message"},
		"text":        {`"denied"`, "expected an object"},
		"retry":       {`{"kind":"throttled","message":"m","retryAfter":"soon"}`, "error.retryAfter"},
		"retry back":  {`{"kind":"throttled","message":"m","retryAfter":"-1s"}`, "error.retryAfter"},
		"drift's NaN": {`{"kind":"conflict","message":"m","drift":{"part":"p","seen":{"a":1e999}}}`, "expected a finite number"},
	}
	p := parser{id: "x", result: reflect.TypeFor[None](), redact: line}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for exit := range 2 {
				_, no, err := p.parse([]byte(`{"protocol":1,"id":"x","error":`+tc.answer+`}`), exit)
				if tc.says == "" && (err != nil || no == nil || no.Message != "no pool") || tc.says != "" && (err == nil || no != nil || !strings.Contains(err.Error(), tc.says)) {
					t.Errorf("exit %d: no %+v, error %v, expected %q", exit, no, err, tc.says)
				}
			}
		})
	}
	long := strings.Repeat("é", 5000)
	_, no, err := p.parse([]byte(`{"protocol":1,"id":"x","error":{"kind":"throttled","message":"`+long+`","retryAfter":"72h"}}`), 1)
	if err != nil || len([]rune(no.Message)) > maxMessage+2 || no.wait() != maxWait {
		t.Errorf("error %v, message of %d characters, wait %v", err, len([]rune(no.Message)), no.wait())
	}
}

// FuzzParse: no answer is both a result and a no, and none of either without
// the right protocol and id.
func FuzzParse(f *testing.F) {
	f.Add(`{"protocol":1,"id":"x","result":{"parts":[{"id":"p","weights":{"a":NaN}},{"id":"p","weights":{"a":1},"shares":{"a":1}}]}}`, 0)
	f.Add(`{"protocol":1,"id":"x","result":{"parts":[{"id":"p","weights":{"a":1},"shares":{"a":100,"b":0}}]}}`, 0)
	f.Add(`{"protocol":1,"id":"x","error":{"kind":"invalid","message":"m"}}`, 1)
	f.Add(`{"protocol":1,"id":"x","result":{"parts":[]},"result":{"parts":[]}}`, 0)
	c := New(Options{Provider: "external"})
	f.Fuzz(func(t *testing.T, answer string, exit int) {
		var list []any
		p := parser{id: "x", result: reflect.TypeFor[ReadResult](), redact: line, list: "parts", items: &list}
		got, no, err := p.parse([]byte(answer), exit)
		for _, part := range c.each(p, list) {
			if part.ID == "" || (part.Err == nil) != (len(part.Weights) > 0) || part.Err != nil && part.Unfit != nil {
				t.Errorf("part %+v", part)
			}
		}
		found := 0
		for _, has := range []bool{got != nil, no != nil, err != nil} {
			if has {
				found++
			}
		}
		if found != 1 || (err == nil && !strings.Contains(answer, `"x"`) && !strings.Contains(answer, `\u`)) || (got != nil && exit != 0) {
			t.Errorf("result %v, no %v, error %v", got, no, err)
		}
	})
}
