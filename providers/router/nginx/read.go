package nginx

import (
	"context"
	"fmt"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/nginx"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

const connections = 20 // that all have to meet new workers

// instance is one NGINX while a call lasts.
type instance struct {
	*Router
	host host.Host
	id   string
}

// file is the managed file as found.
type file struct {
	split.File
	Digest     string
	Unfinished bool
}

// on does something on the named instance and names both in the error.
func (r *Router) on(ctx context.Context, op, id string, do func(context.Context, instance) error) error {
	late := fmt.Errorf("no answer within %v", r.settings.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, r.settings.Timeout, late)
	defer cancel()
	at := id
	if len(r.settings.Hosts) == 0 {
		at = ""
	}
	h, err := r.open(ctx, at)
	if err == nil {
		defer func() { _ = h.Close() }()
		err = do(ctx, instance{Router: r, host: h, id: id})
	}
	return router.Named(name, op+" on "+id, err)
}

func (i instance) server() nginx.Server {
	return nginx.Server{Host: i.host, Command: i.settings.Command, Reload: i.settings.Reload}
}

// read reports a part, and whether the testers' entry is in place. Only a file
// that cannot be had is an error.
func (i instance) read(ctx context.Context) (part router.Part, testers bool, err error) {
	f, err := i.look(ctx)
	if err != nil && f.Digest == "" {
		return part, false, err
	}
	part.Revision, part.Unfit, part.Pending = f.Digest, err, f.Unfinished || err != nil
	part.Units = map[state.Slot]int{state.SlotA: len(i.settings.SlotA), state.SlotB: len(i.settings.SlotB)}
	if err == nil {
		part.Weights, part.Shares, part.Foreign = f.Weights(), f.Shares(), f.Foreign()
	}
	if err == nil && i.settings.Cookie != "" {
		part.Unfit = i.server().Since(ctx, nginx.Version{1, 29, 6}, "sticky cookie")
	}
	return part, f.Testers.Slot != "", nil
}

// look reads the file. A content that means nothing is an error, with the
// digest of it in the file all the same.
func (i instance) look(ctx context.Context) (file, error) {
	content, err := host.ReadFile(ctx, i.host, i.settings.IncludeFile)
	if err != nil {
		return file{}, err
	}
	f := file{Digest: content.Digest, Unfinished: content.Unfinished}
	if content.Digest == host.Absent {
		return f, nil
	}
	var byHand bool
	f.File, byHand, err = split.Parse(string(content.Data), i.settings.Prefix)
	if err != nil {
		return f, &providers.Fault{Op: "read " + i.settings.IncludeFile, Kind: providers.Invalid, Err: err,
			Hint: "put back what manent wrote there, or the file that manent generate nginx prints"}
	}
	if byHand {
		i.log.Once("%s on %s was changed by hand", i.settings.IncludeFile, i.id)
	}
	return f, nil
}

func (i instance) serves(ctx context.Context, generation string) (bool, error) {
	return i.server().Status(ctx, i.settings.StatusURL, generation, connections)
}
