package haproxytest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Set changes how the API behaves.
func (a *API) Set(m Modes) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.modes = m
}

// Release ends the reloads in progress; with Held taken away later ones end
// by themselves.
func (a *API) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.modes.Held = false
	for _, r := range a.reloads {
		if r.Status == "in_progress" {
			a.finish(r)
		}
	}
}

// Writes counts the changes that were accepted.
func (a *API) Writes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

// Sneak runs change just before the next write is looked at.
func (a *API) Sneak(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sneak = change
}

// SetWeight is what another client of the API does.
func (a *API) SetWeight(backend, server string, weight int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.load()
	servers, places := f.servers(backend)
	i := slices.IndexFunc(servers, func(s object) bool { return s["name"] == server })
	if i < 0 {
		a.t.Fatalf("haproxytest: there is no server %s/%s", backend, server)
	}
	servers[i]["weight"] = weight
	f.lines[places[i]] = lineOf(servers[i])
	f.setVersion(f.version() + 1)
	if err := f.save(a.Path); err != nil {
		a.t.Fatal(err)
	}
	a.Command("set weight " + backend + "/" + server + " " + strconv.Itoa(weight))
}

// Touch is what another client of the API does elsewhere in the file.
func (a *API) Touch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.load()
	f.setVersion(f.version() + 1)
	f.lines = append(f.lines, fmt.Sprintf("# touched at version %d", f.version()))
	if err := f.save(a.Path); err != nil {
		a.t.Fatal(err)
	}
}

// Edit changes the file by hand, and leaves HAProxy alone.
func (a *API) Edit(change func(string) string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := os.WriteFile(a.Path, []byte(change(a.text())), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// Text is the file.
func (a *API) Text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text()
}

func (a *API) text() string {
	text, err := os.ReadFile(a.Path)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(text)
}

// Reload is somebody's reload of HAProxy.
func (a *API) Reload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.haproxy.Reload(a.Path); err != nil {
		a.t.Fatal(err)
	}
	a.good = a.load()
}

// Command sends a line to HAProxy's stats socket, as somebody would by hand.
func (a *API) Command(line string) string {
	said, err := a.haproxy.Command(line)
	if err != nil {
		a.t.Fatal(err)
	}
	return said
}
