package haproxytest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// reload loads the file now, or when it is no longer held.
func (a *API) reload(f file) *reload {
	r := &reload{ID: fmt.Sprintf("2026-11-30-%d", len(a.reloads)+1), Status: "in_progress", after: f}
	a.reloads = append(a.reloads, r)
	if !a.modes.Held {
		a.finish(r)
	}
	return r
}

func (a *API) finish(r *reload) {
	err := fmt.Errorf("exit status 1")
	if !a.modes.FailReloads {
		err = a.haproxy.Reload(a.Path)
	}
	if err == nil {
		r.Status, r.Stamp, a.good = "succeeded", 1796060222, r.after
		return
	}
	r.Status, r.Response = "failed", err.Error()
	if err := a.good.save(a.Path); err != nil {
		a.t.Errorf("haproxytest: %v", err)
	}
}

func (a *API) showReload(w http.ResponseWriter, id string) {
	for _, r := range a.reloads {
		if r.ID == id {
			answer(w, http.StatusOK, r)
			return
		}
	}
	answer(w, http.StatusNotFound, problem(404, "reload with given ID does not exist"))
}

// runtime shows the servers of "show servers state".
func (a *API) runtime(w http.ResponseWriter, backend string) {
	said, err := a.haproxy.Command("show servers state " + backend)
	if err != nil || a.modes.NoRuntime || !strings.HasPrefix(said, "1\n") {
		answer(w, http.StatusNotFound, problem(404, "no data"))
		return
	}
	list := []object{}
	for line := range strings.Lines(said) {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] == "#" {
			continue
		}
		s := object{"name": f[3], "id": f[2], "address": f[4], "operational_state": "up", "admin_state": adminState(f[6])}
		if f[5] == "0" {
			s["operational_state"] = "down"
		}
		if a.version == "v3" {
			s["uweight"] = number(f[7])
		}
		list = append(list, s)
	}
	answer(w, http.StatusOK, list)
}

// adminState reads the bits of srv_admin_state.
func adminState(text string) string {
	bits, _ := strconv.Atoi(text)
	switch {
	case bits&0x67 != 0:
		return "maint"
	case bits&0x18 != 0:
		return "drain"
	}
	return "ready"
}

// stats shows "show stat".
func (a *API) stats(w http.ResponseWriter, r *http.Request) {
	out := object{"runtimeAPI": "/run/haproxy.sock", "stats": []object{}}
	said, err := a.haproxy.Command("show stat")
	if err != nil || a.modes.NoRuntime {
		out["error"] = "runtime: option is not available"
	} else {
		out["stats"] = statistics(said, r.URL.Query().Get)
	}
	if a.version == "v2" {
		answer(w, http.StatusOK, []object{out})
		return
	}
	answer(w, http.StatusOK, out)
}

func statistics(csv string, want func(string) string) []object {
	list := []object{}
	var head []string
	for line := range strings.Lines(csv) {
		cells := strings.Split(strings.TrimSpace(line), ",")
		if text, ok := strings.CutPrefix(cells[0], "# "); ok {
			head = append([]string{text}, cells[1:]...)
			continue
		}
		row := map[string]string{}
		for i := range min(len(head), len(cells)) {
			row[head[i]] = cells[i]
		}
		kind := map[string]string{"1": "backend", "2": "server"}[row["type"]]
		item := object{"type": kind, "name": row["svname"], "stats": object{"status": row["status"], "algo": row["algo"]}}
		if kind == "backend" {
			item["name"] = row["pxname"]
		} else {
			item["backend_name"] = row["pxname"]
		}
		if kind == "" || kind != want("type") || kind == "server" && row["pxname"] != want("parent") || kind == "backend" && row["pxname"] != want("name") {
			continue
		}
		item["stats"].(object)["weight"] = number(row["weight"])
		list = append(list, item)
	}
	return list
}
