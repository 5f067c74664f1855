package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/generate"
	"github.com/manent/action/runner/plan"
)

// filesJSON is the document of what is generated.
type filesJSON struct {
	Files []generate.File `json:"files"` // to be committed
}

// fileSetFlags say what becomes of generated files.
type fileSetFlags struct {
	out   string
	check bool
	cmd   *cobra.Command
}

func (f *fileSetFlags) flags(cmd *cobra.Command) {
	f.cmd, cmd.Args = cmd, cobra.ArbitraryArgs
	cmd.Flags().StringVar(&f.out, "out", "", "write the files below `DIR`, the root of the repository")
	cmd.Flags().BoolVar(&f.check, "check", false, "end with 1 if a file below the root of the repository is not what would be written")
}

// environments loads -c and the further files, each with its plan.
func (a *app) environments(more []string) ([]generate.Environment, error) {
	if a.file == "" {
		return nil, need("-c FILE", "no configuration is named")
	}
	first := a.file
	defer func() { a.file = first }()
	var all []generate.Environment
	for _, file := range append([]string{a.file}, more...) {
		if !filepath.IsLocal(file) {
			return nil, usage("such as envconfig/shop/web/prod.yml; call manent there", "%s is not a path from the root of the repository", file)
		}
		a.file = file
		cfg, err := a.load(false, false)
		if err != nil {
			return nil, err
		}
		all = append(all, environmentOf(cfg, file, a.host.Catalog()))
	}
	return all, nil
}

func environmentOf(cfg config.Config, file string, catalog config.Catalog) generate.Environment {
	return generate.Environment{File: filepath.ToSlash(filepath.Clean(file)), Config: cfg, Plan: plan.Build(cfg, catalog)}
}

// call is the command that writes the files of configurations again.
func (f fileSetFlags) call(configurations []string) string {
	words := []string{f.cmd.CommandPath(), "-c"}
	for _, file := range configurations {
		words = append(words, shellWord(filepath.ToSlash(file)))
	}
	for _, name := range []string{"descriptor", "mode", "granularity", "queue", "max-time", "runs-on", "binary-path", "runner-tags", "image", "action", "tags", "schedule", "id-token"} {
		flag := f.cmd.Flags().Lookup(name)
		switch {
		case flag == nil || !flag.Changed:
		case flag.Value.Type() == "bool":
			words = append(words, "--"+name+"="+flag.Value.String())
		default:
			value := flag.Value.String()
			if list, ok := flag.Value.(interface{ GetSlice() []string }); ok {
				value = strings.Join(list.GetSlice(), ",")
			}
			words = append(words, "--"+name, shellWord(value))
		}
	}
	return strings.Join(append(words, "--out", "."), " ")
}

func shellWord(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t\"'\\$&|;<>()*?[]#~=%!{}`") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// files shows, writes or compares what was generated.
func (a *app) files(envs []generate.Environment, files []generate.File, f fileSetFlags, err error) (view, error) {
	if wrong, ok := errors.AsType[*generate.Error](err); ok {
		return view{}, usage(wrong.Hint, "%s", wrong.Reason)
	}
	if err != nil {
		return view{}, err
	}
	v := view{JSON: filesJSON{Files: files}}
	root := f.out
	if root == "" {
		root = a.dir
	}
	if f.check || f.out != "" {
		if err := f.dropped(root, a.dir, envs, files); err != nil {
			return view{}, err
		}
	}
	switch {
	case f.check:
		v.Text, err = compareFiles(root, files)
	case f.out != "":
		v.Text, err = writeFiles(root, files)
	default:
		for i, file := range files {
			if i > 0 {
				v.Text += "\n"
			}
			v.Text += "# --- " + file.Path + "\n" + file.Text
		}
	}
	return v, err
}

// dropped refuses a call whose files would no longer be about a configuration
// that they are about now, and that is still there: nobody would notice that
// its rollouts are not resumed any more.
func (f fileSetFlags) dropped(root, dir string, envs []generate.Environment, files []generate.File) error {
	var named, all, lost []string
	for _, e := range envs {
		named = append(named, e.File)
	}
	where := ""
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file.Path)))
		if err != nil {
			continue // there is none, or writing and comparing say what is wrong
		}
		for _, name := range generate.Configurations(string(data)) {
			known := slices.Contains(named, name)
			if !known && !there(root, name) && !there(dir, name) {
				continue
			}
			if !known && !slices.Contains(lost, name) {
				lost, where = append(lost, name), file.Path
			}
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	for _, name := range named {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	whole := f.call(all)
	if f.check {
		whole = strings.TrimSuffix(whole, "--out .") + "--check"
	}
	return usage("name all in one call: `"+whole+"`; or delete the configuration of what is no longer rolled out",
		"%s is also about %s, which this call does not name", where, strings.Join(lost, ", "))
}

func there(root, name string) bool {
	if name = filepath.FromSlash(name); !filepath.IsLocal(name) {
		return false // no call has written that
	}
	_, err := os.Stat(filepath.Join(root, name)) //nolint:gosec // below the root, and only looked for
	return err == nil
}

// compareFiles finds files that are not what would be written. Line ends may
// be those of the checkout.
func compareFiles(root string, files []generate.File) (string, error) {
	var stale []string
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.Path)))
		switch {
		case errors.Is(err, os.ErrNotExist):
			stale = append(stale, f.Path+" is missing")
		case err != nil:
			return "", usage("make it readable", "%v", err)
		default:
			if line := differs(strings.ReplaceAll(string(data), "\r\n", "\n"), f.Text); line > 0 {
				stale = append(stale, fmt.Sprintf("%s is stale from line %d on", f.Path, line))
			}
		}
	}
	if len(stale) > 0 {
		return "", &exitError{ending: ending{
			Code: exitFailed, Message: strings.Join(stale, ", "),
			Hint: "the same command with --out . in place of --check writes them; commit what has changed",
		}}
	}
	return fmt.Sprintf("%d files are what is generated", len(files)), nil
}

// differs returns the first line in which two texts differ, 0 for none.
func differs(have, want string) int {
	if have == want {
		return 0
	}
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i + 1
		}
	}
	return min(len(a), len(b)) + 1
}

// writeFiles writes what has changed. A file that somebody wrote by hand is
// not replaced.
func writeFiles(root string, files []generate.File) (string, error) {
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.Path)))
		if err == nil && !generate.Generated(string(data)) {
			return "", usage("move it away, or give the application another name", "%s is there and was not generated", f.Path)
		}
	}
	var text strings.Builder
	for _, f := range files {
		path := filepath.Join(root, filepath.FromSlash(f.Path))
		if data, err := os.ReadFile(path); err == nil && string(data) == f.Text {
			fmt.Fprintf(&text, "%s is as it was\n", f.Path)
			continue
		}
		if err := writeFile(path, f.Text); err != nil {
			return "", usage("name a directory that can be written to", "write %s: %v", f.Path, err)
		}
		fmt.Fprintf(&text, "%s is written\n", f.Path)
	}
	return text.String(), nil
}

// writeFile replaces a file at once, so that nobody meets half of it.
func writeFile(path, text string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".manent-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.WriteString(text)
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
