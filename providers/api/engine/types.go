package engine

import "strings"

// Container is what is read of a container that `container inspect` describes.
// Older Podman says Healthcheck for Health.
type Container struct {
	ID     string `json:"Id"`
	Name   string // docker's begins with a slash
	Config struct{ Labels map[string]string }
	State  struct {
		Status      string // created, running, paused, restarting, exited, dead; podman also configured, stopped
		ExitCode    int
		Health      *health
		Healthcheck *health
	}
}

type health struct{ Status string } // starting, healthy, unhealthy; "" or none without a check

// Health is starting, healthy or unhealthy; "" without a check.
func (c Container) Health() string {
	for _, h := range []*health{c.State.Health, c.State.Healthcheck} {
		if h != nil && h.Status != "none" {
			return h.Status
		}
	}
	return ""
}

// Running reports whether it runs.
func (c Container) Running() bool { return c.State.Status == "running" }

// Ended reports whether nothing brings it up again.
func (c Container) Ended() bool {
	return c.State.Status == "exited" || c.State.Status == "dead" || c.State.Status == "stopped"
}

// Image is what is read of an image.
type Image struct{ RepoDigests []string }

// DigestOf is the digest of a repository's image, "" for none. Podman writes
// the registry that a short name stands for in front.
func (i Image) DigestOf(repository string) string {
	for _, full := range []string{repository, "docker.io/" + repository, "docker.io/library/" + repository, "localhost/" + repository} {
		for _, d := range i.RepoDigests {
			if digest, ok := strings.CutPrefix(d, full+"@"); ok {
				return digest
			}
		}
	}
	return ""
}
