package haproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/manent/action/providers"
)

// Backend is what is read of a backend.
type Backend struct {
	Name          string         `json:"name"`
	Balance       *Balance       `json:"balance"`
	HashType      *HashType      `json:"hash_type"`
	Cookie        *Cookie        `json:"cookie"`
	StickTable    *StickTable    `json:"stick_table"`
	DefaultServer *DefaultServer `json:"default_server"`
}

// DefaultServer is what the backend's servers have where their lines do not
// say. What a defaults section has of it the API does not show here.
type DefaultServer struct {
	Weight     *int   `json:"weight"`
	AgentCheck string `json:"agent-check"`
	SlowStart  int64  `json:"slowstart"` // milliseconds
}

// Balance is how requests are spread.
type Balance struct {
	Algorithm string `json:"algorithm"`
}

// HashType is how the algorithms that hash find a server.
type HashType struct {
	Method string `json:"method"` // "map-based", which is HAProxy's default, or "consistent"
}

// Cookie keeps a client at its server.
type Cookie struct {
	Name    string `json:"name"`
	MaxLife int64  `json:"maxlife"` // seconds, 0 for as long as the client keeps it
}

// StickTable remembers where a client was.
type StickTable struct {
	Expire *int64 `json:"expire"` // milliseconds after the last request, nil for never
}

// Server is one as configured. All its fields are kept for the way back.
type Server struct {
	Name       string
	Weight     *int // nil where the configuration does not say
	Backup     bool
	AgentCheck bool
	SlowStart  bool

	without   bool  // the line takes an inherited agent-check off
	steady    bool  // the line says slowstart, be it 0
	senseless error // a weight that is none; Weight is nil then
	fields    map[string]json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Server) UnmarshalJSON(data []byte) error {
	var known struct {
		Name       string `json:"name"`
		Weight     *int   `json:"weight"`
		Backup     string `json:"backup"`
		AgentCheck string `json:"agent-check"`
		SlowStart  *int64 `json:"slowstart"`
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return err
	}
	*s = Server{Name: known.Name, Weight: known.Weight}
	if s.Weight != nil && (*s.Weight < 0 || *s.Weight > 256) {
		s.senseless = &providers.Fault{
			Kind: providers.Unknown, Err: fmt.Errorf("server %s has weight %d, expected 0 to 256", s.Name, *s.Weight),
			Hint: "see what answers at dataplane_urls",
		}
		s.Weight = nil
	}
	s.Backup, s.AgentCheck, s.without = known.Backup == "enabled", known.AgentCheck == "enabled", known.AgentCheck == "disabled"
	if s.steady = known.SlowStart != nil; s.steady {
		s.SlowStart = *known.SlowStart > 0
	}
	return json.Unmarshal(data, &s.fields)
}

// MarshalJSON refuses: a server without an explicit weight makes HAProxy
// reload, and this is how one would come about.
func (s Server) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a server is sent with a weight only")
}

// with is the whole server with another weight.
func (s Server) with(weight int) map[string]json.RawMessage {
	all := maps.Clone(s.fields)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	all["weight"] = json.RawMessage(fmt.Sprint(weight))
	return all
}

// Running is a server as HAProxy runs it.
type Running struct {
	Name  string `json:"name"`
	Admin string `json:"admin_state"`       // "ready", "drain" or "maint": what a person set
	State string `json:"operational_state"` // "up", "down" or "stopping"
	User  *int   `json:"uweight"`           // the weight set; nil from APIs that do not say
	// Weight is the effective one, of the statistics: less than the one set
	// while the server is new (slowstart) or its agent says so, 0 in drain.
	Weight int `json:"-"`
}

// Reload is one of HAProxy's.
type Reload struct {
	ID       string `json:"id"`
	Status   string `json:"status"` // InProgress, Succeeded or Failed
	Response string `json:"response"`
}

// Ends of a reload.
const (
	InProgress = "in_progress"
	Succeeded  = "succeeded"
	Failed     = "failed"
)

type stats struct {
	Error string `json:"error"`
	Stats []stat `json:"stats"`
}

type stat struct {
	Name  string `json:"name"`
	Stats struct {
		Weight *int   `json:"weight"`
		Algo   string `json:"algo"`
	} `json:"stats"`
}
