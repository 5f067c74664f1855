package prometheustest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// Start runs the real program, which has to be in the path together with
// promtool, on a loopback port until the test ends, and returns its address.
// samples is a text in the OpenMetrics format with a time on each sample and
// "# EOF" at its end; the server holds exactly these, whenever they are from.
func Start(t testing.TB, samples string) string {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if samples != "" {
		file := filepath.Join(dir, "samples.om")
		write(t, file, samples)
		if out, err := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", file, data).CombinedOutput(); err != nil {
			t.Fatalf("promtool: %v\n%s", err, out)
		}
	}
	return run(t, dir, "global: {scrape_interval: 15s}\n")
}

// Scrape runs the real program as Start does, without samples of its own: it
// reads /metrics of the targets (host:port) at every interval.
func Scrape(t testing.TB, interval time.Duration, targets ...string) string {
	t.Helper()
	return run(t, t.TempDir(), fmt.Sprintf(`global: {scrape_interval: %s, scrape_timeout: %[1]s}
scrape_configs:
  - job_name: test
    static_configs:
      - targets: [%s]
`, model.Duration(interval), strings.Join(targets, ", ")))
}

// run starts the program with its data below dir, which may hold some.
func run(t testing.TB, dir, settings string) string {
	t.Helper()
	config := filepath.Join(dir, "prometheus.yml")
	write(t, config, settings)
	cmd := exec.CommandContext(t.Context(), "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--storage.tsdb.retention.time=100y", "--log.format=logfmt")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("prometheus: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := "http://" + address(t, log)
	ready(t, url)
	return url
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// address reads the log up to the line that tells the port, and goes on
// emptying it, so that the program never waits for us.
func address(t testing.TB, log io.Reader) string {
	t.Helper()
	listening := regexp.MustCompile(`msg="?Listening on"? address=(127\.0\.0\.1:\d+)`)
	lines := bufio.NewScanner(log)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return m[1]
		}
	}
	t.Fatalf("prometheus ended: %v\n%q", lines.Err(), seen)
	return ""
}

func ready(t testing.TB, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/-/ready", nil)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatal("test ended before prometheus was ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatal("prometheus was not ready within 30 s")
}
