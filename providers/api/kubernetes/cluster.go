package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Cluster is the one that a client talks to, and why it is that one.
type Cluster struct {
	Server  string // URL of its API server
	Context string // of the kubeconfig, "" for a pod's own account
	Current bool   // it is the kubeconfig's current one: nobody named it
	Source  string // where that is written, such as "KUBECONFIG /ci/kubeconfig"
}

// String is `https://10.0.0.1:6443 (context "eu" of KUBECONFIG /ci/kubeconfig)`.
func (k Cluster) String() string {
	switch {
	case k.Server == "":
		return "the API server"
	case k.Context == "":
		return fmt.Sprintf("%s (%s)", k.Server, k.Source)
	case k.Current:
		return fmt.Sprintf("%s (context %q, the current one of %s)", k.Server, k.Context, k.Source)
	}
	return fmt.Sprintf("%s (context %q of %s)", k.Server, k.Context, k.Source)
}

// another says how to get to another cluster, if this one does not answer.
func (k Cluster) another() string {
	switch {
	case k.Current:
		return "no context is set, and so the current one counts: name yours with the setting context, or see why this server does not answer from here"
	case k.Context == "":
		return "see why this server does not answer from here"
	}
	return "see why this server does not answer from here, or name another cluster with the settings context and kubeconfig"
}

// Cluster says which one it is. Nothing is sent.
func (c *Client) Cluster() (Cluster, error) {
	f, err := c.find()
	if err != nil {
		return Cluster{}, c.fault(call{op: "find the cluster"}, err)
	}
	return f.cluster, nil
}

// cluster is the one that was found, for an error of its connection.
func (c *Client) cluster() Cluster {
	f, err := c.find()
	if err != nil {
		return Cluster{}
	}
	return f.cluster
}

// Release is the API server's version, such as "v1.34.1".
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles
func (c *Client) Release(ctx context.Context) (string, error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	err := c.do(ctx, call{op: "read the cluster's version"}, func(ctx context.Context, l *connection) error {
		data, err := l.raw.Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return err
		}
		if json.Unmarshal(data, &version) != nil || version.GitVersion == "" {
			return errors.New("the answer has no gitVersion")
		}
		return nil
	})
	return oneLine(version.GitVersion), err
}
