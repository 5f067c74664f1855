package gitcli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Object is an object of a repository; no Kind when there is none.
type Object struct {
	ID, Kind string // a hash; blob, tree, commit or tag
	Size     int
	Data     []byte // nil, with an error, when the objects together are too large to be kept
}

// Show reads objects of a scratch repository by one process, in the order of
// their names. A name is anything that git rev-parse takes, without a newline.
func (c *Client) Show(ctx context.Context, dir string, names ...string) ([]Object, error) {
	r := c.Run(ctx, dir, []byte(strings.Join(names, "\n")+"\n"), "cat-file", "--batch")
	if err := r.Fault(); err != nil {
		return nil, err
	}
	return parseObjects(r.Out, len(names))
}

// parseObjects reads n answers of cat-file --batch: "<id> <kind> <size>", the
// data and a newline, or "<name> missing". What it could read comes with an
// error too.
func parseObjects(out []byte, n int) ([]Object, error) {
	objects := make([]Object, n)
	for i := range objects {
		line, rest, found := bytes.Cut(out, []byte("\n"))
		if !found {
			return objects, errors.New("cat-file ended early")
		}
		out = rest
		if bytes.HasSuffix(line, []byte(" missing")) {
			continue
		}
		fields := strings.Fields(string(line))
		if len(fields) != 3 {
			return objects, fmt.Errorf("cat-file answered %q", line)
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size < 0 {
			return objects, fmt.Errorf("cat-file answered %q", line)
		}
		objects[i] = Object{ID: fields[0], Kind: fields[1], Size: size}
		if len(rest) <= size {
			return objects, errors.New("cat-file ended early")
		}
		objects[i].Data = rest[:size:size]
		out = rest[size+1:]
	}
	return objects, nil
}
