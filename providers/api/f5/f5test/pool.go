package f5test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

func (m *Member) path() string { return "/" + m.Partition + "/" + m.Name }

// session and state are as the device shows them, which is not as they are
// written.
func (m *Member) session() string {
	switch {
	case m.Disabled:
		return "user-disabled"
	case m.Monitor == "unchecked":
		return "user-enabled"
	}
	return "monitor-enabled"
}

func (m *Member) state() string {
	if m.Forced {
		return "user-down"
	}
	return m.Monitor
}

// pool has its members in it when that is asked for.
func (b *BigIP) pool(r request) answer {
	reference := map[string]any{"link": "https://localhost/mgmt/tm/ltm/pool/~Common~shop/members", "isSubcollection": true}
	if r.URL.Query().Get("expandSubcollections") == "true" && !b.Plain && len(b.Members) > 0 {
		reference["items"] = b.items()
	}
	return ok(map[string]any{
		"kind": "tm:ltm:pool:poolstate", "fullPath": b.Pool, "loadBalancingMode": b.Mode, "minActiveMembers": b.MinActive,
		"monitor": "/Common/http", "membersReference": reference,
	})
}

func (b *BigIP) members() answer {
	list := map[string]any{"kind": "tm:ltm:pool:members:memberscollectionstate"}
	if items := b.items(); len(items) > 0 {
		list["items"] = items
	}
	return ok(list)
}

func (b *BigIP) items() []any {
	items := []any{}
	for _, m := range b.Members {
		items = append(items, map[string]any{
			"kind": "tm:ltm:pool:members:membersstate", "name": m.Name, "partition": m.Partition, "fullPath": m.path(),
			"generation": b.next, "address": m.Address, "connectionLimit": 0, "monitor": "default", "priorityGroup": m.Priority,
			"ratio": m.Ratio, "session": m.session(), "state": m.state(),
		})
	}
	return items
}

func describe(text string) map[string]any { return map[string]any{"description": text} }

// stats nest as most versions do, or flat as some do.
func (b *BigIP) stats() answer {
	entries := map[string]any{}
	for _, m := range b.Members {
		if m.Name == b.Uncounted {
			continue
		}
		enabled, available := "enabled", map[string]string{"up": "available", "unchecked": "unknown"}[m.Monitor]
		if available == "" || m.Forced {
			available = "offline"
		}
		if m.Disabled {
			enabled = "disabled"
		} else if m.Parent {
			enabled = "disabled-by-parent"
		}
		sep := strings.LastIndexAny(m.Name, ":.")
		leaves := map[string]any{
			"nodeName": describe("/" + m.Partition + "/" + m.Name[:sep]), "port": map[string]any{"value": json.Number(m.Name[sep+1:])},
			"serverside.curConns": map[string]any{"value": m.Connections}, "serverside.maxConns": map[string]any{"value": 7},
			"status.availabilityState": describe(available), "status.enabledState": describe(enabled), "status.statusReason": describe("by the test"),
		}
		if b.FlatStats {
			delete(leaves, "nodeName")
			entries["https://localhost/mgmt/tm/ltm/pool/~Common~shop/members/~"+m.Partition+"~"+m.Name+"/stats"] = map[string]any{"entries": leaves}
			continue
		}
		key := fmt.Sprintf("https://localhost/mgmt/tm/ltm/pool/members/~%s~%s/~%s~shop/stats", m.Partition, m.Name, m.Partition)
		entries[key] = map[string]any{"nestedStats": map[string]any{"kind": "tm:ltm:pool:members:membersstats", "entries": leaves}}
	}
	return ok(map[string]any{"kind": "tm:ltm:pool:members:memberscollectionstats", "entries": entries})
}

// patch changes a member, or adds that to a transaction.
func (b *BigIP) patch(r request, name string) answer {
	at := slices.IndexFunc(b.Members, func(m *Member) bool { return strings.ReplaceAll(m.path(), "/", "~") == name })
	if at < 0 && b.Role == "guest" {
		return forbidden()
	}
	if at < 0 {
		return refuse(http.StatusNotFound, "01020036:3: The requested Pool Member (%s) was not found.", name)
	}
	var in map[string]any
	if err := json.Unmarshal(r.body, &in); err != nil || len(in) == 0 {
		b.t.Errorf("PATCH of member %s with %q", name, r.body)
	}
	apply, refused := b.change(b.Members[at], in)
	if refused.code != 0 {
		return refused
	}
	id := r.Header.Get("X-F5-REST-Coordination-Id")
	if id == "" {
		apply()
		b.Changes++
		b.changed()
		return ok(map[string]any{"kind": "tm:ltm:pool:members:membersstate", "name": b.Members[at].Name})
	}
	return b.queue(id, r.URL.Path, apply)
}

// forbidden is for a user that may only read.
func forbidden() answer {
	return refuse(http.StatusUnauthorized, "Authorization failed: user=https://localhost/mgmt/shared/authz/users/%s resource=/mgmt/tm/ltm/pool verb=PATCH", User)
}

// change checks what is to be written: what is shown is not what can be.
func (b *BigIP) change(m *Member, in map[string]any) (apply func(), refused answer) {
	var do []func()
	for key, value := range in {
		text := fmt.Sprint(value)
		switch {
		case b.Role == "guest":
			return nil, forbidden()
		case key == "ratio" && b.Role != "manager":
			return nil, refuse(http.StatusForbidden, "01070822:3: Access Denied: User (%s) may not change ratio", User)
		case key == "ratio":
			n, isNumber := value.(float64)
			if !isNumber || n < 1 || n > 65535 {
				return nil, refuse(http.StatusBadRequest, "01070734:3: Configuration error: ratio %v", value)
			}
			do = append(do, func() { m.Ratio = int(n) })
		case key == "session" && (text == "user-enabled" || text == "user-disabled"):
			do = append(do, func() { m.Disabled = text == "user-disabled" })
		case key == "state" && (text == "user-up" || text == "user-down"):
			do = append(do, func() { m.Forced = text == "user-down" })
		default:
			return nil, refuse(http.StatusBadRequest, "invalid property value %q:%q", key, text)
		}
	}
	return func() {
		for _, one := range do {
			one()
		}
	}, answer{}
}

// changed is what any change leaves to do.
func (b *BigIP) changed() {
	b.next++
	b.Unsaved = true
	if b.Group != "" {
		b.Status = "Changes Pending"
	}
}

// Serve deals n new connections by ratio to the members that may get some, and
// returns how many each got.
func (b *BigIP) Serve(n int) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	got, due := map[string]int{}, map[string]int{}
	for range n {
		total, best := 0, ""
		for _, m := range b.Members {
			if m.Disabled || m.Forced || m.Parent || m.Monitor == "down" || m.Monitor == "checking" {
				continue
			}
			due[m.Name] += m.Ratio
			total += m.Ratio
			if best == "" || due[m.Name] > due[best] {
				best = m.Name
			}
		}
		if best != "" {
			due[best] -= total
			got[best]++
		}
	}
	return got
}
