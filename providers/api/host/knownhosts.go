package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/manent/action/providers"
)

// readKnownHosts takes a path, a relative one below dir, or the lines of such
// a file, recognised by the space that every line has and no path should.
func readKnownHosts(dir, given string) (ssh.HostKeyCallback, error) {
	path := given
	if lines := strings.TrimSpace(given); strings.ContainsAny(lines, " \t\n") {
		file, err := os.CreateTemp("", "manent-known-hosts-") // the library reads files only
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(file.Name()) }()
		_, err = file.WriteString(lines + "\n")
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		path = file.Name()
	} else if !filepath.IsAbs(path) {
		if !filepath.IsLocal(path) {
			return nil, fmt.Errorf("known_hosts %q leaves the workspace", path)
		}
		path = filepath.Join(dir, path)
	}
	keys, err := knownhosts.New(path)
	if err != nil {
		return nil, fmt.Errorf("known_hosts: %w", err)
	}
	return keys, nil
}

// algorithms are the kinds of host key to ask for: those known_hosts has for
// the address, as a server with several kinds would else show one that is not
// there. Certificates come last. nil, the library's own list, when the address
// is not known.
func algorithms(keys ssh.HostKeyCallback, address string) []string {
	known, ok := errors.AsType[*knownhosts.KeyError](keys(address, &net.TCPAddr{}, nobodysKey{}))
	if !ok || len(known.Want) == 0 {
		return nil
	}
	var wanted []string
	for _, k := range known.Want {
		names := []string{k.Key.Type()}
		if names[0] == ssh.KeyAlgoRSA {
			names = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		if !slices.Contains(wanted, names[0]) {
			wanted = append(wanted, names...)
		}
	}
	return append(wanted, ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01,
		ssh.CertAlgoECDSA521v01, ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01)
}

// nobodysKey is a host key that no file holds.
type nobodysKey struct{}

func (nobodysKey) Type() string                        { return "none" }
func (nobodysKey) Marshal() []byte                     { return nil }
func (nobodysKey) Verify([]byte, *ssh.Signature) error { return errors.New("nobody's key") }

// loginFault says what went wrong between the connection and the login.
func loginFault(op, user string, err error) error {
	if key, ok := errors.AsType[*knownhosts.KeyError](err); ok {
		if len(key.Want) == 0 {
			return fault(providers.Denied, op, errors.New("the host is not in known_hosts"),
				"get its key over a way that you trust and add it")
		}
		return fault(providers.Denied, op, fmt.Errorf("the host shows another key than known_hosts has (%s)", key.Want[0].Key.Type()),
			"find out why: the host was installed anew, or somebody sits in between")
	}
	if _, ok := errors.AsType[*knownhosts.RevokedError](err); ok {
		return fault(providers.Denied, op, errors.New("the host's key is revoked in known_hosts"), "")
	}
	if _, ok := errors.AsType[*ssh.ServerAuthError](err); ok || strings.Contains(err.Error(), "unable to authenticate") {
		return fault(providers.Denied, op, fmt.Errorf("login of user %q was refused", user), "check ssh_user and the secret")
	}
	if _, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		return fault(providers.Denied, op, fmt.Errorf("the host has no key of the kind that known_hosts has, or no common cipher: %w", err), "")
	}
	return fault(providers.Unavailable, op, err, "")
}
