package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// appendLog FILE TRACK REQUESTS ERRORS SECONDS appends requests of a track to
// an access log, as nginx writes '$msec $status $backend $request_time'.
func appendLog(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 5 {
		ts.Fatalf("usage: log FILE TRACK REQUESTS ERRORS SECONDS")
	}
	requests, err := strconv.Atoi(args[2])
	ts.Check(err)
	errors, err := strconv.Atoi(args[3])
	ts.Check(err)
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	for n := range requests {
		status := 200
		if n < errors {
			status = 500
		}
		ts.Check(logLine(file, n, status, args[1], args[4]))
	}
	ts.Check(file.Close())
}

// appendLeft FILE TRACK REQUESTS SECONDS appends requests that the client left
// after so long.
func appendLeft(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: left FILE TRACK REQUESTS SECONDS")
	}
	requests, err := strconv.Atoi(args[2])
	ts.Check(err)
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	for n := range requests {
		ts.Check(logLine(file, n, 499, args[1], args[3]))
	}
	ts.Check(file.Close())
}

func logLine(w io.Writer, n, status int, track, seconds string) error {
	_, err := fmt.Fprintf(w, "%d.%03d %d %s %s\n", 1_800_000_000+n, n%1000, status, track, seconds)
	return err
}

// sparse FILE BYTES makes a file of that size that is not on the disk.
func sparse(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sparse FILE BYTES")
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(file.Truncate(size))
	ts.Check(file.Close())
}
