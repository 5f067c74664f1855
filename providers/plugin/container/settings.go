package container

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
)

// Settings are the plugin's settings.
type Settings struct {
	Image       string                         `name:"image" required:"true" help:"registry/app:{version}"`
	Name        string                         `name:"name" required:"true" help:"the container of a slot is called <name>-<slot>"`
	Engine      string                         `name:"engine" default:"docker" enum:"docker,podman" help:"program on the targets"`
	Publish     []string                       `name:"publish" help:"ports, as a list: [\"{port}:8080\"]; {port} is the target's"`
	Env         map[string]string              `name:"env" help:"environment variables; {version}, {slot}, {host} and {port} are replaced"`
	Secrets     map[string]providers.SecretRef `name:"env_secrets" help:"environment variables whose values are secrets"`
	Arguments   []string                       `name:"arguments" help:"more arguments of run, before the image, as a list: [--memory, 512m]; placeholders as in env"`
	Command     []string                       `name:"command" help:"arguments after the image, as a list; placeholders as in env"`
	Restart     string                         `name:"restart_policy" default:"unless-stopped" help:"of the container: no, always, unless-stopped, on-failure[:times]"`
	StopTimeout time.Duration                  `name:"stop_timeout" default:"30s" help:"how long the old container may take to stop before it is killed, whole seconds"`
	Listen      string                         `name:"listen" default:"127.0.0.1" help:"address at which the machine itself reaches the published port"`
	AtOnce      int                            `name:"at_once" default:"1" help:"targets at a time, 1–50"`
	Timeout     time.Duration                  `name:"timeout" default:"10m" help:"for one target, connecting and the pull included"`
	User        string                         `name:"ssh_user" required:"true" help:"may use the engine"`
	KeySecret   providers.SecretRef            `name:"ssh_key_secret" help:"private key in PEM"`
	Password    providers.SecretRef            `name:"ssh_password_secret" help:"password, tried after the key"`
	Port        int                            `name:"ssh_port" default:"22" help:"port of SSH, 1–65535"`
	KnownHosts  string                         `name:"known_hosts" required:"true" help:"path of a known_hosts file, or its lines"`
}

var (
	tagForm     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	imageForm   = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._/:-]*$`)
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,100}$`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	publishForm = regexp.MustCompile(`^([0-9.]+:|\[[0-9a-fA-F:]+\]:)?(\{port\}|[0-9]+):[0-9]+(/tcp|/udp)?$`)
	restartForm = regexp.MustCompile(`^(no|always|unless-stopped|on-failure(:[0-9]+)?)$`)
)

func (s Settings) access() host.Access {
	return host.Access{User: s.User, Port: s.Port, Key: s.KeySecret, Password: s.Password, KnownHosts: s.KnownHosts}
}

func (s Settings) check() error {
	switch {
	case !strings.Contains(s.Image, ":{version}") || !imageForm.MatchString(strings.ReplaceAll(s.Image, "{version}", "1")):
		return fmt.Errorf("image %q, expected registry/app:{version}", s.Image)
	case !nameForm.MatchString(s.Name):
		return fmt.Errorf("name %q, expected letters, digits and _.-", s.Name)
	case !restartForm.MatchString(s.Restart):
		return fmt.Errorf("restart_policy %q, expected no, always, unless-stopped or on-failure", s.Restart)
	case s.StopTimeout < 0 || s.StopTimeout%time.Second != 0:
		return fmt.Errorf("stop_timeout %v, expected whole seconds", s.StopTimeout)
	case s.Listen == "":
		return errors.New("listen is empty, expected an address such as 127.0.0.1")
	case s.AtOnce < 1 || s.AtOnce > 50:
		return fmt.Errorf("at_once %d, expected 1–50", s.AtOnce)
	case s.Timeout <= s.StopTimeout:
		return fmt.Errorf("timeout %v, expected more than stop_timeout, %v", s.Timeout, s.StopTimeout)
	}
	for _, p := range s.Publish {
		if !publishForm.MatchString(p) {
			return fmt.Errorf(`publish %q, expected for example "{port}:8080"`, p)
		}
	}
	if err := s.checkEnv(); err != nil {
		return err
	}
	if err := checkArguments(s.Arguments); err != nil {
		return err
	}
	return s.access().Check()
}

func (s Settings) checkEnv() error {
	for key, value := range s.Env {
		if _, twice := s.Secrets[key]; twice {
			return fmt.Errorf("%s is in env and in env_secrets", key)
		}
		if err := checkVariable(key, value); err != nil {
			return err
		}
	}
	for key, name := range s.Secrets {
		if err := checkVariable(key, ""); err != nil {
			return err
		}
		if name == "" {
			return fmt.Errorf("%s has no secret's name", key)
		}
	}
	return nil
}

// checkVariable refuses what a file of variables cannot hold: it has a line for
// each. The error does not show the value.
func checkVariable(key, value string) error {
	if !variable.MatchString(key) {
		return fmt.Errorf("environment variable %q, expected letters, digits and _", key)
	}
	if strings.ContainsAny(value, "\r\n\x00") {
		return fmt.Errorf("environment variable %s has more than one line", key)
	}
	return nil
}

// checkArguments refuses what the plugin itself gives to run, and what it
// cannot do without.
func checkArguments(args []string) error {
	ours := []string{"--name", "--detach", "-d", "--rm", "--env-file", "--restart", "--replace", "--pull", "--cidfile"}
	for _, arg := range args {
		flag, value, _ := strings.Cut(arg, "=")
		if slices.Contains(ours, flag) || strings.HasPrefix(value, "manent.") || strings.HasPrefix(arg, "manent.") {
			return fmt.Errorf("arguments: %q is the plugin's own", arg)
		}
	}
	return nil
}

// fill puts what is known of a target in the place of placeholders.
func fill(text string, j job, hostName string, port int) string {
	return strings.NewReplacer("{version}", j.version, "{slot}", j.slot, "{host}", hostName, "{port}", strconv.Itoa(port)).Replace(text)
}
