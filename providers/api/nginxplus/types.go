package nginxplus

import (
	"bytes"
	"strconv"
)

// Server is one entry of an upstream: what the configuration of the running
// NGINX says of it, with its live state.
type Server struct {
	ID      string // of this instance, until its next reload
	Address string // "10.0.0.1:8080"
	Name    string // as the server directive has it, "" when not known
	Host    string // the domain name that this address was resolved from, "" for none
	Parent  string // the entry that holds this domain name, "" for none
	Weight  int    // 1 and up; kept while it drains
	Drain   bool   // gets only requests of clients that are bound to it
	Down    bool   // marked as not in use
	Backup  bool   // gets requests only while all others are unavailable
	Live    bool   // has a state: an entry that only holds a domain name has none
	Up      bool   // would get requests if it neither drained nor was marked down
	Idle    bool   // its state is one of those that get no requests; false for one that is not known
}

// Units are the weight, 0 while the server drains.
func (s Server) Units() int {
	if s.Drain {
		return 0
	}
	return s.Weight
}

// Takes reports whether the server may get requests: it has weight, and nothing
// says that it is out.
func (s Server) Takes() bool { return !s.Down && !s.Idle && s.Units() > 0 }

// Out says how somebody took the server out of service, "" for not at all.
func (s Server) Out() string {
	switch {
	case s.Down:
		return "is marked down"
	case s.Drain:
		return "drains"
	}
	return ""
}

// number is an id: the description says integer for id and string for parent.
type number string

// UnmarshalJSON takes an integer, also in quotes.
func (n *number) UnmarshalJSON(data []byte) error {
	text := string(bytes.Trim(data, `"`))
	if text == "null" {
		return nil
	}
	if _, err := strconv.Atoi(text); err != nil {
		return err
	}
	*n = number(text)
	return nil
}

// configured is NginxHTTPUpstreamConfServer of the description.
type configured struct {
	ID     number `json:"id"`
	Server string `json:"server"`
	Weight int    `json:"weight"`
	Backup bool   `json:"backup"`
	Down   bool   `json:"down"`
	Drain  bool   `json:"drain"`
	Parent number `json:"parent"`
	Host   string `json:"host"`
}

// status is NginxHTTPUpstream of the description.
type status struct {
	Peers []peer `json:"peers"`
}

// peer is NginxHTTPUpstreamPeer.
type peer struct {
	ID     number `json:"id"`
	Server string `json:"server"`
	Name   string `json:"name"`
	State  string `json:"state"`
	Checks struct {
		LastPassed *bool `json:"last_passed"` // absent before the first check
	} `json:"health_checks"`
}

// up reports whether a peer would get requests. What drains is up unless its
// last health check failed; a state that is not known is not up.
func (p peer) up() bool {
	switch p.State {
	case "up":
		return true
	case "draining":
		return p.Checks.LastPassed == nil || *p.Checks.LastPassed
	}
	return false
}

// idle reports whether a peer gets no requests.
func (p peer) idle() bool {
	switch p.State {
	case "down", "unavail", "checking", "unhealthy":
		return true
	}
	return false
}

// change is the body of a PATCH. What is nil stays as it is; drain false has
// to be sent, or a server that drains never comes back.
type change struct {
	Weight *int  `json:"weight,omitempty"`
	Drain  *bool `json:"drain,omitempty"`
}

// problem is NginxError.
type problem struct {
	Error struct {
		Status int  `json:"status"`
		Code   code `json:"code"`
	} `json:"error"`
}
