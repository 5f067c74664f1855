package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	"github.com/manent/action/runner"
	"github.com/manent/action/runner/gate"
)

// probe makes one request of a gate. It follows no redirect, since the status
// that is judged is the first one, and opens a connection of its own, so that
// it is spread over the servers as a new user's would be.
func probe(ctx context.Context, p runner.Probe) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("User-Agent", "manent-probe")
	for name, value := range p.Header {
		request.Header.Set(name, value)
	}
	client := http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, gate.ProbeLimit))
	if err != nil {
		return answer.StatusCode, nil, fmt.Errorf("read the answer: %w", err)
	}
	return answer.StatusCode, body, nil
}
