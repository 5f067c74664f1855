package f5

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/manent/action/providers"
)

// Device is the device that answers, in its cluster.
type Device struct {
	Name     string
	Failover string // active, standby, offline, forced-offline, unknown
}

// Active reports whether the device deals the traffic. A device without a
// peer is active.
func (d Device) Active() bool { return d.Failover == "active" }

// Standby says why no share can be raised on a device that is not active: what
// it has may be old, and reaches the active one only by a sync.
func (d Device) Standby() error {
	return &providers.Fault{
		Kind: providers.Unavailable, Err: fmt.Errorf("device %s is %s, expected the active one", d.Name, d.Failover),
		Hint: "set management_url to the active device, or to an address that moves with it",
	}
}

// Device reads the failover state of the device that answers.
func (s *Session) Device(ctx context.Context) (Device, error) {
	var list struct {
		Items []struct {
			Name     string `json:"name"`
			Self     any    `json:"selfDevice"` // "true"
			Failover string `json:"failoverState"`
		} `json:"items"`
	}
	op := "read failover state"
	if err := s.send(ctx, call{method: http.MethodGet, path: "/mgmt/tm/cm/device", op: op, into: &list}); err != nil {
		return Device{}, err
	}
	for _, d := range list.Items {
		if fmt.Sprint(d.Self) == "true" && d.Failover != "" {
			return Device{d.Name, d.Failover}, nil
		}
	}
	return Device{}, s.c.http.Unexpected(op, "no device says that it is the one asked")
}

// Status is the state of a device group, or of all for "": whether it exists
// is asked at the same time.
func (s *Session) Status(ctx context.Context, group string) (Sync, error) {
	var missing error
	var asked sync.WaitGroup
	if group != "" {
		asked.Go(func() { missing = s.group(ctx, group) })
	}
	status, err := s.Sync(ctx, group)
	asked.Wait()
	if missing != nil {
		err = missing
	}
	status.group = group
	return status, err
}

// group reads whether a device group exists.
func (s *Session) group(ctx context.Context, name string) error {
	path := name
	if !strings.HasPrefix(path, "/") {
		path = "/Common/" + path
	}
	err := s.send(ctx, call{method: http.MethodGet, path: "/mgmt/tm/cm/device-group/" + tilde(path), op: "read device group " + name, into: &struct{}{}})
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
	group   string
}

// Synced returns nil where nothing is left to send, else why it is not so.
func (y Sync) Synced() error {
	if y.Status == InSync {
		return nil
	}
	what := "the device"
	if y.group != "" {
		what = "device group " + y.group
	}
	return &providers.Fault{
		Kind: providers.Unavailable, Err: fmt.Errorf("%s is not in sync: %s", what, y),
		Hint: "bring the group in sync: see Device Management > Overview",
	}
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
	if err := s.send(ctx, call{method: http.MethodGet, path: "/mgmt/tm/cm/sync-status", op: op, into: &answer}); err != nil {
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

// Keep makes what was changed outlast this device: it is sent to the group, if
// there is one, and saved. A device that was not the active one before sends
// only what its peers had too: they may be ahead of it.
func (s *Session) Keep(ctx context.Context, before Look, save bool) error {
	switch {
	case before.Group == "":
	case before.Standby() != nil && before.Behind() != nil:
		s.c.opts.Log("not sent to device group %s, whose members may have newer changes: %v", before.Group, before.Standby())
	default:
		if err := s.SyncTo(ctx, before.Group); err != nil {
			return hinted(err, "this device has the change, its peers do not: see Device Management > Overview")
		}
	}
	if !save {
		return nil
	}
	return hinted(s.Save(ctx), "the device has the change and would forget it at a restart: let the user save the configuration, or set save_config: false")
}

// bad matches the numbers of the system's errors, and words of some without.
var bad = regexp.MustCompile(`(?i)\b[0-9a-f]{8}:\d|error|fail|cannot|invalid|denied`)

func (s *Session) command(ctx context.Context, path, op string, body map[string]string) error {
	var answer struct {
		Kind   string `json:"kind"`
		Result string `json:"commandResult"`
	}
	if err := s.send(ctx, call{method: http.MethodPost, path: path, op: op, body: body, into: &answer}); err != nil {
		return err
	}
	if answer.Kind == "" {
		return s.c.http.Unexpected(op, "not that of a command")
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

// String is the status with what explains it, on one line.
func (y Sync) String() string {
	return strings.Join(append([]string{y.Status}, y.Details...), "; ")
}
