package github

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/manent/action/providers"
)

// oneDocument refuses a successful answer that is anything but one JSON
// document: go-github decodes the first one and passes over what follows. An
// empty answer is left to who reads it.
type oneDocument struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o oneDocument) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(req)
	if err != nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp, err
	}
	data, err := io.ReadAll(resp.Body) // in memory, and no longer than httpx reads
	err = errors.Join(err, resp.Body.Close())
	if err == nil && len(bytes.TrimSpace(data)) > 0 && !json.Valid(data) {
		err = fmt.Errorf("unexpected answer: %d bytes that are not one JSON document", len(data))
	}
	if err != nil {
		return nil, &providers.Fault{Provider: name, Op: req.Method, Kind: providers.Unknown, Err: err}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}
