package main

import (
	"fmt"
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
		_, err := fmt.Fprintf(file, "%d.%03d %d %s %s\n", 1_800_000_000+n, n%1000, status, args[1], args[4])
		ts.Check(err)
	}
	ts.Check(file.Close())
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
