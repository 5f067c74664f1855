package f5test

import (
	"encoding/json"
	"net/http"
	"strings"
)

func (b *BigIP) cluster(r request) answer {
	var in map[string]string
	if r.Method == http.MethodPost {
		if err := json.Unmarshal(r.body, &in); err != nil {
			b.t.Errorf("POST %s with %q", r.URL.Path, r.body)
		}
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /mgmt/tm/cm/device":
		return b.devices()
	case "GET /mgmt/tm/cm/sync-status":
		return b.syncStatus()
	case "POST /mgmt/tm/cm":
		return b.sync(in)
	case "POST /mgmt/tm/sys/config":
		if len(in) != 1 || in["command"] != "save" {
			b.t.Errorf("sys config with %v", in)
		}
		if b.SaveSays == "" {
			b.Saves++
			b.Unsaved = false
		}
		return said(in, b.SaveSays)
	}
	if group, found := strings.CutPrefix(r.URL.Path, "/mgmt/tm/cm/device-group/~Common~"); found && r.Method == http.MethodGet {
		if group != b.Group || group == "" {
			return refuse(http.StatusNotFound, "01020036:3: The requested device group (/Common/%s) was not found.", group)
		}
		return ok(map[string]any{"name": group, "type": "sync-failover"})
	}
	b.t.Errorf("unexpected request %s %s", r.Method, r.URL)
	return refuse(http.StatusNotFound, "Public URI path not registered")
}

// devices lists the peer first: the one asked has to be looked for.
func (b *BigIP) devices() answer {
	other := "standby"
	if b.Failover == "standby" {
		other = "active"
	}
	items := []any{map[string]any{"name": "bigip1.example.com", "selfDevice": "true", "failoverState": b.Failover}}
	if b.Group != "" {
		items = append([]any{map[string]any{"name": "bigip2.example.com", "selfDevice": "false", "failoverState": other}}, items...)
	}
	return ok(map[string]any{"kind": "tm:cm:device:devicecollectionstate", "items": items})
}

func nested(entries map[string]any) map[string]any {
	return map[string]any{"nestedStats": map[string]any{"entries": entries}}
}

// syncStatus shows the worst of all groups, and each group's in the details.
func (b *BigIP) syncStatus() answer {
	status := b.Status
	if b.Group == "" {
		status = "Standalone"
	}
	if b.Status == "Syncing" {
		if b.SyncTook--; b.SyncTook < 1 {
			b.Status = "In Sync"
		}
	}
	base := "https://localhost/mgmt/tm/cm/syncStatus/0/details"
	details := map[string]any{base + "/0": nested(map[string]any{"details": describe("bigip2.example.com: connected")})}
	if b.Group != "" {
		details[base+"/1"] = nested(map[string]any{"details": describe(b.Group + " (" + status + "): by the test")})
		details[base+"/2"] = nested(map[string]any{"details": describe("device_trust_group (In Sync): All devices in the device group are in sync")})
	}
	entries := map[string]any{
		"color": describe("green"), "mode": describe("high-availability"), "status": describe(status), "summary": describe(" "),
		base: nested(details),
	}
	return ok(map[string]any{"kind": "tm:cm:sync-status:sync-statusstats", "entries": map[string]any{
		"https://localhost/mgmt/tm/cm/sync-status/0": nested(entries),
	}})
}

// sync is answered with 200 whatever comes of it.
func (b *BigIP) sync(in map[string]string) answer {
	if in["command"] != "run" || in["utilCmdArgs"] != "config-sync to-group "+b.Group || len(in) != 2 {
		b.t.Errorf("config-sync with %v, expected group %s", in, b.Group)
	}
	if b.Failover != "active" && b.Behind {
		b.t.Error("config-sync from a standby that is behind overwrites the active device")
	}
	if b.SyncSays == "" {
		b.Syncs++
		b.Status = "In Sync"
		if b.SyncTook > 0 {
			b.Status = "Syncing"
		}
	}
	return said(in, b.SyncSays)
}

func said(in map[string]string, result string) answer {
	out := map[string]any{"kind": "runstate"}
	for key, value := range in {
		out[key] = value
	}
	if result != "" {
		out["commandResult"] = result
	}
	return ok(out)
}
