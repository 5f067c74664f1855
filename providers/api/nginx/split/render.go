package split

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/manent/action/state"
)

// format is the version of the managed file that this build writes.
const format = 1

// metaMark begins the comment line that holds meta.
const metaMark = "# manent: "

// meta says what was written, to be compared with what is there.
type meta struct {
	Format     int                `json:"format"`
	Name       string             `json:"name"`
	Mode       string             `json:"mode"`
	Weights    map[string]float64 `json:"weights"`
	Salt       string             `json:"salt,omitempty"`
	Testers    Testers            `json:"testers,omitzero"`
	Generation string             `json:"generation"`
	Digest     string             `json:"sha256"` // of all lines below this one
}

// Testers are requests that go to a slot because of a header.
type Testers struct {
	Header string     `json:"header,omitempty"` // lower case, with dashes
	Value  string     `json:"value,omitempty"`
	Slot   state.Slot `json:"slot,omitempty"` // "" = off
}

// never is the header's value that leads to the other slot.
const never = "never"

// Render writes the file. Name is for its readers.
func (f File) Render(name string) string {
	body := f.body()
	line, _ := json.Marshal(meta{ // plain data cannot fail
		Format: format, Name: name, Mode: f.Mode, Weights: f.Weights(), Salt: f.Salt, Testers: f.Testers,
		Generation: f.Generation, Digest: digest(body),
	})
	return "# Written by manent. What is changed here by hand is seen as drift and lost at the next write.\n" +
		metaMark + string(line) + "\n" + body
}

// body are the directives.
func (f File) body() string {
	w := &writer{}
	w.open(`map "%s" $%s_key`, f.Key, f.Prefix)
	w.line(`"" "$remote_addr$http_user_agent"`)
	w.line(`default "%s"`, f.Key)
	w.close()
	if f.Mode == Weighted {
		f.weighted(w)
	} else {
		f.hashed(w)
	}
	w.open(`map "" $%s_generation`, f.Prefix)
	w.line(`default "%s"`, f.Generation)
	w.close()
	return w.String()
}

// hashed splits by user. All users go to the slot that the route names, so
// the route is the track; and a retry stays in the slot, so the status holds.
func (f File) hashed(w *writer) {
	route := "none"
	if len(f.Lines) > 0 {
		route = "$" + f.Prefix + "_bucket"
		w.open(`split_clients "%s:$%s_key" $%s_bucket`, f.Salt, f.Prefix, f.Prefix)
		for _, l := range f.Lines {
			if l.Hundredths < 0 {
				w.line(`* %s`, l.Slot)
			} else {
				w.line(`%s %s`, percent(l.Hundredths), l.Slot)
			}
		}
		w.close()
	}
	f.routed(w, route)
	w.open(`map $%s_route $%s_track`, f.Prefix, f.Prefix)
	w.line(`default ""`)
	w.line(`a a`)
	w.line(`b b`)
	w.close()
	w.open(`map $status $%s_status`, f.Prefix)
	w.line(`default $status`)
	w.close()
}

// weighted splits by turns. A request may be tried at one slot and answered by
// the other, so track and status are those of the first attempt: else the
// stable would hide what the candidate failed. They are known at the end only;
// volatile keeps an earlier look from being remembered.
//
// max_fails=0 because one failed attempt else takes a server out for 10 s and
// its weight away for longer: at a share of 1 %, one connection that a single
// stable server breaks would send all its traffic to the candidate.
func (f File) weighted(w *writer) {
	route := "none"
	if len(f.Servers) > 0 {
		route = "weights"
		w.open(`upstream %s_weights`, f.Prefix)
		w.line(`zone %s_weights 64k`, f.Prefix)
		for _, s := range f.Servers {
			w.line(`server %s%s`, s.Address, strings.Join(s.params(), ""))
		}
		if f.Cookie != "" {
			w.line(`sticky cookie %s expires=%s path=/ httponly`, f.Cookie, f.Expires)
		}
		w.line(`keepalive 32`)
		w.close()
	}
	f.routed(w, route)
	w.open(`map $upstream_addr $%s_track`, f.Prefix)
	w.line(`volatile`)
	w.line(`default ""`)
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		for _, address := range f.Addresses[slot] {
			w.line(`"%s%s%s" %s`, addressBegin, regexp.QuoteMeta(address), addressEnd, slot)
		}
	}
	w.close()
	w.open(`map $upstream_status $%s_status`, f.Prefix)
	w.line(`volatile`)
	w.line(`default $status`)
	w.line(`"~^(?<%s_first>[0-9]+)," $%s_first`, f.Prefix, f.Prefix)
	w.close()
}

// What stands around an address in the map from $upstream_addr, which lists
// all attempts, joined by commas (colons after an internal redirect).
const (
	addressBegin = "~^"
	addressEnd   = "(,| |$)"
)

func (s Server) params() []string {
	params := []string{fmt.Sprintf(" weight=%d", s.Weight), " max_fails=0"}
	if s.Route != "" {
		params = append(params, " route="+s.Route)
	}
	if s.Down {
		params = append(params, " down")
	}
	return params
}

// routed lets the testers' header decide before the split does.
func (f File) routed(w *writer, route string) {
	source := `""`
	if f.Testers.Slot != "" {
		source = "$http_" + strings.ReplaceAll(f.Testers.Header, "-", "_")
	}
	w.open(`map %s $%s_route`, source, f.Prefix)
	w.line(`default %s`, route)
	if f.Testers.Slot != "" {
		w.line(`"%s" %s`, f.Testers.Value, f.Testers.Slot)
		w.line(`%s %s`, never, f.Testers.Slot.Other())
	}
	w.close()
}

func percent(hundredths int) string { return fmt.Sprintf("%d.%02d%%", hundredths/100, hundredths%100) }

// writer writes directives.
type writer struct{ strings.Builder }

func (w *writer) open(text string, args ...any) { w.add(text+" {\n", args) }
func (w *writer) line(text string, args ...any) { w.add("    "+text+";\n", args) }
func (w *writer) close()                        { w.add("}\n", nil) }

func (w *writer) add(text string, args []any) {
	_, _ = fmt.Fprintf(w, text, args...) // a Builder takes everything
}
