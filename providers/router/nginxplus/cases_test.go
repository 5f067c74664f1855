package nginxplus

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/nginxplus/nginxplustest"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/state"
)

func TestSettings(t *testing.T) {
	good := map[string]any{"api_urls": "https://lb1:8443/api, https://lb2:8443/api", "upstream": "app"}
	tests := map[string]struct {
		more map[string]any
		env  providers.Env
		text string
	}{
		"plain http":         {more: map[string]any{"api_urls": "http://lb1/api"}, text: "plain http"},
		"credentials in it":  {more: map[string]any{"api_urls": "https://u:" + secret + "@lb1/api"}, text: "*_secret"},
		"no url":             {more: map[string]any{"api_urls": []any{}}, text: "api_urls is empty"},
		"url twice":          {more: map[string]any{"api_urls": "https://lb1/api, https://lb1/api/"}, text: "lb1 is there twice"},
		"url with query":     {more: map[string]any{"api_urls": "https://lb1/api?x=y"}, text: "without a query"},
		"url with version":   {more: map[string]any{"api_urls": "https://lb1/api/9/"}, text: "the version in api_version only"},
		"no upstream":        {more: map[string]any{"upstream": ""}, text: "upstream"},
		"path as upstream":   {more: map[string]any{"upstream": "../stream"}, text: "upstream"},
		"version":            {more: map[string]any{"api_version": -1}, text: "api_version -1"},
		"version as text":    {more: map[string]any{"api_version": "v9"}, text: "an integer"},
		"pinned_for":         {more: map[string]any{"pinned_for": "-1s"}, text: "pinned_for"},
		"timeout":            {more: map[string]any{"timeout": "30s"}, text: "1s to 15s"},
		"ca_file":            {more: map[string]any{"ca_file": "../ca.pem"}, text: "ca_file"},
		"unknown":            {more: map[string]any{"api_url": "https://lb1"}, text: "unknown setting"},
		"member":             {more: map[string]any{"member": "{hots}"}, env: env(), text: "{hots}, expected {host}"},
		"targets of no slot": {env: providers.Env{Targets: []providers.Target{{Host: "h"}}}, text: "no target has the label slot: a"},
	}
	if _, err := Spec().Build(providers.Env{}, good); err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			settings := maps.Clone(good)
			maps.Copy(settings, tt.more)
			_, err := Spec().Build(tt.env, settings)
			wantKind(t, err, providers.Invalid, tt.text)
			if err != nil && !strings.HasPrefix(err.Error(), "nginx-plus: settings: ") {
				t.Errorf("error %q does not say where", err)
			}
		})
	}
}

// Each refusal is told apart, before anything is changed.
func TestRefused(t *testing.T) {
	tests := map[string]struct {
		change   func(*nginxplustest.Instance)
		settings func(*Settings)
		kind     providers.Kind
		text     string
	}{
		"no such upstream": {settings: func(s *Settings) { s.Upstream = "other" }, kind: providers.NotFound, text: "UpstreamNotFound hint: expected the name of an upstream"},
		"no zone":          {change: func(n *nginxplustest.Instance) { n.Static = true }, kind: providers.Invalid, text: "UpstreamStatic hint: give the upstream a zone"},
		"version":          {settings: func(s *Settings) { s.Version = 12 }, kind: providers.Invalid, text: "UnknownVersion hint: leave api_version out"},
		"location": {settings: func(s *Settings) {
			s.URLs = []string{strings.TrimSuffix(s.URLs[0], "/api")}
		}, kind: providers.Unavailable, text: "which answers in JSON: expected in api_urls the address of the location"},
		"password":       {change: func(n *nginxplustest.Instance) { n.Password = "another" }, kind: providers.Denied, text: "hint: credentials_secret"},
		"no credentials": {settings: func(s *Settings) { s.Credentials = "" }, kind: providers.Denied, text: "hint: credentials_secret"},
		"no such server": {settings: func(s *Settings) { s.Member = "{host}" }, kind: providers.NotFound, text: "no server 10.0.1.1, 10.0.1.2, 10.0.2.1, 10.0.2.2, 10.0.2.3 hint: it has 10.0.2.1:8080"},
		"backup": {change: func(n *nginxplustest.Instance) {
			n.Edit("10.0.2.1:8080", func(s *nginxplustest.Server) { s.Backup = true })
		}, kind: providers.Invalid, text: "server 10.0.2.1:8080 is a backup"},
		"no version": {change: func(n *nginxplustest.Instance) { n.Versions = nil }, kind: providers.Unknown, text: "unexpected answer: versions"},
		"weight 0": {change: func(n *nginxplustest.Instance) {
			n.Edit("10.0.2.1:8080", func(s *nginxplustest.Server) { s.Weight = 0 })
		}, kind: providers.Unknown, text: "unexpected answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			seen := read(t, w.router(t))
			s := w.settings()
			if tt.settings != nil {
				tt.settings(&s)
			}
			if tt.change != nil {
				tt.change(w.nginx[0])
			}
			r, err := New(env(), s, httpx.Options{Backoff: 1})
			if err != nil {
				t.Fatal(err)
			}
			now, err := r.Read(t.Context(), candidateB())
			if err != nil {
				t.Fatal(err)
			}
			said := now.Parts[0].Err
			if said == nil {
				said = now.Parts[0].Unfit
			}
			wantKind(t, said, tt.kind, tt.text)
			want := []state.PartWeights{{ID: seen.Parts[0].ID, Weights: map[string]float64{"10.0.1.1:8080": 3, "10.0.2.1:8080": 1}}}
			if tt.settings != nil && s.Member == "{host}" {
				want[0].Weights = map[string]float64{"10.0.1.1": 3}
			}
			_, err = r.Write(t.Context(), candidateB(), want, seen)
			wantKind(t, err, tt.kind, tt.text)
			if n := w.patches(); n != 0 {
				t.Errorf("%d changes were made", n)
			}
		})
	}
}

// A read-only API, and one that lets these credentials only read, keep a share
// from being raised before anything is written.
func TestReadOnly(t *testing.T) {
	for name, change := range map[string]func(*nginxplustest.Instance){
		"MethodDisabled hint: the API is read-only: write `api write=on;`": func(n *nginxplustest.Instance) { n.ReadOnly = true },
		"status 403": func(n *nginxplustest.Instance) { n.Readers = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w.nginx[1])
			r := w.router(t)
			seen := read(t, r)
			if seen.Parts[0].Unfit != nil {
				t.Errorf("the first instance is unfit: %v", seen.Parts[0].Unfit)
			}
			wantKind(t, seen.Parts[1].Unfit, providers.Denied, name)
			_, _, err := r.Plan(state.SlotB, 25, 0.5, seen)
			wantKind(t, err, providers.Denied, name)
			if _, _, err := r.Plan(state.SlotB, 0, 0.5, seen); err != nil {
				t.Errorf("a return: %v", err)
			}
			want := []state.PartWeights{{ID: seen.Parts[1].ID, Weights: map[string]float64{"10.0.1.1:8080": 3, "10.0.1.2:8080": 3, "10.0.2.1:8080": 1}}}
			_, err = r.Write(t.Context(), candidateB(), want, seen)
			wantKind(t, err, providers.Denied, name)
			if n := w.patches(); n != 0 {
				t.Errorf("%d changes were made", n)
			}
		})
	}
}

func TestWeightsRefused(t *testing.T) {
	w := newWorld(t)
	r := w.router(t)
	seen := read(t, r)
	for name, tt := range map[string]struct {
		weights map[string]float64
		text    string
	}{
		"half a unit": {map[string]float64{"10.0.1.1:8080": 1.5}, "whole number"},
		"negative":    {map[string]float64{"10.0.1.1:8080": -1}, "whole number"},
		"nan":         {map[string]float64{"10.0.1.1:8080": math.NaN()}, "whole number"},
		"too large":   {map[string]float64{"10.0.1.1:8080": 1e9}, "whole number"},
		"no target":   {map[string]float64{"10.0.7.7:8080": 1}, "no target's"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Write(t.Context(), candidateB(), []state.PartWeights{{ID: seen.Parts[0].ID, Weights: tt.weights}}, seen)
			wantKind(t, err, providers.Invalid, tt.text)
		})
	}
	if n := w.patches(); n != 0 {
		t.Errorf("%d changes were made", n)
	}
}

func TestSecretRefused(t *testing.T) {
	w := newWorld(t)
	e := env()
	e.Secret = func(context.Context, string) (providers.Secret, error) { return providers.NewSecret(secret), nil }
	r, err := New(e, w.settings(), httpx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Read(t.Context(), candidateB())
	wantKind(t, err, providers.Invalid, "secret api is not user:password")
	e.Secret = func(context.Context, string) (providers.Secret, error) {
		return providers.Secret{}, &providers.Fault{Provider: "vault", Kind: providers.Denied, Err: errors.New("sealed")}
	}
	if r, err = New(e, w.settings(), httpx.Options{}); err != nil {
		t.Fatal(err)
	}
	_, err = r.Settled(t.Context(), nil, nil)
	wantKind(t, err, providers.Denied, "vault: sealed")
}

func TestVersions(t *testing.T) {
	for name, tt := range map[string]struct {
		offered []int
		set     int
		want    string
	}{
		"newest known":  {[]int{1, 8, 9, 10, 11}, 0, "/api/9/"},
		"older server":  {[]int{1, 2, 3, 6}, 0, "/api/6/"},
		"as set":        {[]int{1, 8, 9}, 8, "/api/8/"},
		"any order":     {[]int{9, 1}, 0, "/api/9/"},
		"set and newer": {[]int{9, 10}, 10, "/api/10/"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.settings()
			s.URLs, s.Version = s.URLs[:1], tt.set
			w.nginx[0].Versions = tt.offered
			r, err := New(env(), s, httpx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			read(t, r)
			requests := w.nginx[0].Requests()
			if tt.set != 0 && slices.Contains(requests, "GET /api/") {
				t.Errorf("requests %q, want none for the list of versions", requests) // else it is asked beside, and given up when version 9 answers first
			}
			if last := requests[len(requests)-1]; !strings.Contains(last, " "+tt.want) {
				t.Errorf("request %s, want version %s", last, tt.want)
			}
		})
	}
}

// What drains keeps its weight, and comes back with drain false.
func TestDrainAndBack(t *testing.T) {
	w := newWorld(t)
	w.move(t, 25)
	kept := w.nginx[0].Server("10.0.2.1:8080")
	if kept.Drain || kept.Weight < 1 {
		t.Fatalf("at 25 %%: %+v", kept)
	}
	w.move(t, 0)
	if got := w.nginx[0].Server("10.0.2.1:8080"); !got.Drain || got.Weight != kept.Weight {
		t.Errorf("at 0 %%: %+v, want it to drain with weight %d", got, kept.Weight)
	}
	want := w.move(t, 25)
	if got := w.nginx[0].Server("10.0.2.1:8080"); got.Drain || float64(got.Weight) != want[0].Weights["10.0.2.1:8080"] {
		t.Errorf("back at 25 %%: %+v", got)
	}
}
