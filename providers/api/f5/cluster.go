package f5

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/manent/action/providers"
)

// Failover is the failover state of the device that answers: active, standby,
// offline, forced-offline or unknown. A device without a peer is active.
func (s *Session) Failover(ctx context.Context) (name, failover string, err error) {
	var list struct {
		Items []struct {
			Name     string `json:"name"`
			Self     any    `json:"selfDevice"` // "true"
			Failover string `json:"failoverState"`
		} `json:"items"`
	}
	op := "read failover state"
	if _, err := s.send(ctx, call{method: http.MethodGet, path: "/mgmt/tm/cm/device", op: op, into: &list}); err != nil {
		return "", "", err
	}
	for _, d := range list.Items {
		if fmt.Sprint(d.Self) == "true" && d.Failover != "" {
			return d.Name, d.Failover, nil
		}
	}
	return "", "", s.c.http.Unexpected(op, "no device says that it is the one asked")
}

// Group reads whether a device group exists.
func (s *Session) Group(ctx context.Context, name string) error {
	path := name
	if !strings.HasPrefix(path, "/") {
		path = "/Common/" + path
	}
	_, err := s.send(ctx, call{method: http.MethodGet, path: "/mgmt/tm/cm/device-group/" + tilde(path), op: "read device group " + name, into: &struct{}{}})
	if f, ok := asFault(err); ok && f.Kind == providers.NotFound {
		f.Hint = "set sync_group to a device group of type sync-failover, or leave it out"
		return f
	}
	return err
}

// InSync is the status of a device group that has nothing left to send.
const InSync = "In Sync"

// Sync is the state of a device group's configuration.
type Sync struct {
	Status  string   // In Sync, Changes Pending, Disconnected, …
	Details []string // as the system explains it
}

// Pending reports whether the status passes by itself or with a sync.
func (y Sync) Pending() bool {
	switch {
	case strings.HasPrefix(y.Status, "Awaiting Initial Sync"):
		return true
	}
	switch y.Status {
	case "Changes Pending", "Syncing", "Not All Devices Synced":
		return true
	}
	return false
}

var groupStatus = regexp.MustCompile(`^(\S+) \(([^)]+)\)`)

// Sync reads the status of a device group: its own where the system's details
// give one ("GROUP (In Sync): …"), else that of all groups.
func (s *Session) Sync(ctx context.Context, group string) (Sync, error) {
	var answer node
	op := "read sync status"
	if _, err := s.send(ctx, call{method: http.MethodGet, path: "/mgmt/tm/cm/sync-status", op: op, into: &answer}); err != nil {
		return Sync{}, err
	}
	out := Sync{Status: answer.text("status"), Details: answer.all("details")}
	if out.Status == "" {
		return Sync{}, s.c.http.Unexpected(op, "no status")
	}
	for _, line := range out.Details {
		if m := groupStatus.FindStringSubmatch(line); m != nil && lastPart(m[1]) == lastPart(group) {
			out.Status = m[2]
		}
	}
	return out, nil
}

func lastPart(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// SyncTo sends this device's configuration to the group: all that is pending,
// whoever changed it. The system answers 200 also when it does not work, and
// says so in words; the status tells when it is done.
func (s *Session) SyncTo(ctx context.Context, group string) error {
	return s.command(ctx, "/mgmt/tm/cm", "sync to group "+group, map[string]string{"command": "run", "utilCmdArgs": "config-sync to-group " + group})
}

// Save stores the running configuration, which a restart forgets otherwise.
func (s *Session) Save(ctx context.Context) error {
	return s.command(ctx, "/mgmt/tm/sys/config", "save configuration", map[string]string{"command": "save"})
}

// bad matches the numbers of the system's errors, and words of some without.
var bad = regexp.MustCompile(`(?i)\b[0-9a-f]{8}:\d|error|fail|cannot|invalid|denied`)

func (s *Session) command(ctx context.Context, path, op string, body map[string]string) error {
	var answer struct {
		Result string `json:"commandResult"`
	}
	if _, err := s.send(ctx, call{method: http.MethodPost, path: path, op: op, body: body, into: &answer}); err != nil {
		return err
	}
	said := strings.Join(strings.Fields(s.c.secrets.Clean(answer.Result)), " ")
	if !bad.MatchString(said) {
		return nil
	}
	kind := providers.Unavailable // a peer that is away, say
	if denied(said) {
		kind = providers.Denied
	}
	return s.c.fault(op, kind, fmt.Errorf("the device says: %.240s", said))
}
