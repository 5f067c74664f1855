//go:build peers

package s3_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/storetest"
)

// TestConformanceReal runs the suite against versitygw, which checks
// signatures and keeps its objects on disk.
func TestConformanceReal(t *testing.T) {
	endpoint := gateway(t)
	client := awss3.New(awss3.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
	})
	var buckets atomic.Int32
	fresh := func(t *testing.T) (bucket, address string) {
		t.Helper()
		bucket = fmt.Sprintf("state-%d", buckets.Add(1))
		if _, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &bucket}); err != nil {
			t.Fatal(err)
		}
		return bucket, "s3://" + bucket + "/some/where?endpoint=" + endpoint
	}
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		bucket, address := fresh(t)
		return storetest.Harness{
			Open: func(t *testing.T) store.Store { return open(t, address, "AWS_SESSION_TOKEN", "") },
			Denied: func(t *testing.T) store.Store {
				return open(t, address, "AWS_SESSION_TOKEN", "", "AWS_SECRET_ACCESS_KEY", "an0ther/s3cret")
			},
			Secrets: []string{secret, "an0ther/s3cret"},
			Plant: func(t *testing.T, key string, data []byte) {
				in := &awss3.PutObjectInput{Bucket: &bucket, Key: aws.String("some/where/state/" + key + ".json"), Body: bytes.NewReader(data)}
				if _, err := client.PutObject(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
	t.Run("racing processes", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", id)
		t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
		t.Setenv("AWS_SESSION_TOKEN", "")
		_, address := fresh(t)
		storetest.RaceProcesses(t, address)
	})
}

// gateway starts versitygw on loopback over an empty directory.
func gateway(t *testing.T) (endpoint string) {
	t.Helper()
	binary := filepath.Join(os.Getenv("MANENT_PEERS_BIN"), "versitygw")
	if os.Getenv("MANENT_PEERS_BIN") == "" {
		binary = "versitygw"
	}
	address := hosttest.FreeAddress(t)
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "--port", address, "--quiet", "posix", t.TempDir())
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + id, "ROOT_SECRET_KEY=" + secret}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("versitygw, in PATH or in the folder MANENT_PEERS_BIN names: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	deadline, look := time.After(20*time.Second), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for {
		if connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address); err == nil {
			_ = connection.Close()
			return "http://" + address
		}
		select {
		case <-look.C:
		case <-deadline:
			_ = cmd.Process.Kill()
			t.Fatalf("versitygw does not listen: %s", out.String())
		}
	}
}
