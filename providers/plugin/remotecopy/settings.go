package remotecopy

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/payload"
)

// Settings are the plugin's settings.
type Settings struct {
	Source      string              `name:"source" required:"true" help:"what is copied: a file, folder or archive in the workspace, with {version} and {slot}"`
	Unpack      bool                `name:"unpack" default:"true" help:"unpack a source that ends in .tar, .tar.gz, .tgz or .zip"`
	Destination string              `name:"destination" required:"true" help:"absolute folder on the targets, for releases/ and current; with {slot} where a machine has both slots"`
	Restart     []string            `name:"restart" help:"program with arguments, as a list: [sudo, -n, systemctl, restart, shop]; run without a shell when the release is current; with {version}, {slot} and {destination}"`
	Keep        int                 `name:"keep" default:"3" help:"releases to keep on a target, the current one included, 1–100"`
	Listen      string              `name:"listen" default:"127.0.0.1" help:"address at which the machine itself reaches the application's port"`
	AtOnce      int                 `name:"at_once" default:"1" help:"targets at a time, 1–50"`
	MaxSize     int                 `name:"max_size" default:"1024" help:"largest source, unpacked, MiB"`
	MaxFiles    int                 `name:"max_files" default:"20000" help:"most files and folders in the source, up to 200000"`
	Timeout     time.Duration       `name:"timeout" default:"10m" help:"for one target, connecting and the restart included"`
	User        string              `name:"ssh_user" required:"true" help:"may write the destination and restart"`
	KeySecret   providers.SecretRef `name:"ssh_key_secret" help:"private key in PEM"`
	Password    providers.SecretRef `name:"ssh_password_secret" help:"password, tried after the key"`
	Port        int                 `name:"ssh_port" default:"22" help:"port of SSH, 1–65535"`
	KnownHosts  string              `name:"known_hosts" required:"true" help:"path of a known_hosts file, or its lines"`
}

var (
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)
	destForm    = regexp.MustCompile(`^/[A-Za-z0-9._/@+-]+$`)
	placeholder = regexp.MustCompile(`\{[^{}]*\}`)
)

func (s Settings) access() host.Access {
	return host.Access{User: s.User, Port: s.Port, Key: s.KeySecret, Password: s.Password, KnownHosts: s.KnownHosts}
}

func (s Settings) limits() payload.Limits {
	return payload.Limits{Bytes: int64(s.MaxSize) << 20, Count: s.MaxFiles, Unpack: s.Unpack}
}

func (s Settings) check() error {
	sample := job{slot: "a", version: "1", dest: "/d"}
	source, dest := fill(s.Source, sample), fill(s.Destination, sample)
	switch {
	case !filepath.IsLocal(source):
		return fmt.Errorf("source %q, expected a path in the workspace", s.Source)
	case !destForm.MatchString(dest) || path.Clean(dest) != dest:
		return fmt.Errorf("destination %q, expected an absolute path of letters, digits and ._@+-", s.Destination)
	case strings.Contains(s.Destination, "{version}"):
		return fmt.Errorf("destination %q has {version}, expected the folder that holds all releases", s.Destination)
	case len(s.Restart) > 0 && (s.Restart[0] == "" || strings.ContainsAny(s.Restart[0], " \t")):
		return fmt.Errorf("restart %q, expected a list: [program, argument, …]", s.Restart)
	case s.Listen == "":
		return fmt.Errorf("listen is empty, expected an address such as 127.0.0.1")
	case s.Timeout <= 0:
		return fmt.Errorf("timeout %v, expected more than 0", s.Timeout)
	}
	for _, text := range append([]string{s.Source, s.Destination}, s.Restart...) {
		for _, found := range placeholder.FindAllString(text, -1) {
			if found != "{version}" && found != "{slot}" && found != "{destination}" {
				return fmt.Errorf("%q: %s, expected {version} or {slot}", text, found)
			}
		}
	}
	if err := s.checkNumbers(); err != nil {
		return err
	}
	return s.access().Check()
}

func (s Settings) checkNumbers() error {
	for _, n := range []struct {
		name      string
		got, most int
	}{
		{"keep", s.Keep, 100}, {"at_once", s.AtOnce, 50},
		{"max_size", s.MaxSize, 1 << 20}, {"max_files", s.MaxFiles, 200000},
	} {
		if n.got < 1 || n.got > n.most {
			return fmt.Errorf("%s %d, expected 1–%d", n.name, n.got, n.most)
		}
	}
	return nil
}

// fill puts what a job says in the place of placeholders.
func fill(text string, j job) string {
	return strings.NewReplacer("{version}", j.version, "{slot}", j.slot, "{destination}", j.dest).Replace(text)
}
