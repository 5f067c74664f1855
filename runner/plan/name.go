package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/manent/action/runner/config"
)

// retireName is a workflow's name too, which is why it carries manent's.
const retireName = "manent.traffic-retire"

// plain are the names that stand alone or in front of @pass and #batch.
func plain() map[string]Kind {
	return map[string]Kind{
		"config":          Config,
		"secrets":         Secrets,
		"deploy":          Deploy,
		"traffic:prepare": Prepare,
		"traffic:testers": Testers,
		"traffic:promote": Promote,
		"traffic:revert":  Revert,
		retireName:        Retire,
		"drain":           Drain,
		"drain-wait":      DrainWait,
		"restore":         Restore,
		"restore-wait":    RestoreWait,
	}
}

var passForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// StageName is the name of a share's stage: 25%, with waves eu/25%.
func StageName(pass string, share float64) string {
	name := config.ShareText(share) + "%"
	if pass != "" {
		name = pass + "/" + name
	}
	return name
}

// String is the name as it is written; the inverse of ParseName.
func (n Name) String() string {
	name := n.head()
	if n.Pass != "" {
		name += "@" + n.Pass
	}
	switch {
	case n.Kind == Gate && n.Number > 0:
		name += "#" + strconv.Itoa(n.Number)
	case n.InBatch:
		name += "#" + strconv.Itoa(n.Batch)
		if n.Retry > 0 {
			name += "." + strconv.Itoa(n.Retry)
		}
	}
	return name
}

func (n Name) head() string {
	share := config.ShareText(n.Share)
	switch n.Kind {
	case Command:
		return n.Command
	case Traffic:
		return "traffic@" + share
	case Gate:
		return "gate@traffic@" + share
	case Approval:
		if n.Wave != "" {
			return "approval@" + n.Wave
		}
		return "approval@" + share
	}
	for word, kind := range plain() {
		if kind == n.Kind {
			return word
		}
	}
	return string(n.Kind)
}

// ParseName reads the name of a step, with the number of a reading, a batch or
// a retry where it has one. The error lists the forms that exist.
func ParseName(text string) (Name, error) {
	body, number, hasNumber := strings.Cut(text, "#")
	n, ok := parseBody(strings.Split(body, "@"))
	if ok && hasNumber {
		ok = n.number(number)
	}
	if !ok || n.batchOnly() && !n.InBatch || n.String() != text {
		return Name{}, fmt.Errorf("%q is not the name of a step, expected one such as deploy, traffic@25, gate@traffic@25, approval@25, traffic:promote, one of your own steps, and with waves @pass behind it", text)
	}
	return n, nil
}

func parseBody(parts []string) (Name, bool) {
	head, rest := parts[0], parts[1:]
	switch head {
	case "gate":
		if len(rest) < 2 || rest[0] != "traffic" {
			return Name{}, false
		}
		return withShare(Gate, rest[1:])
	case "traffic":
		return withShare(Traffic, rest)
	case "approval":
		if len(rest) == 1 && passForm.MatchString(rest[0]) {
			return Name{Kind: Approval, Wave: rest[0]}, true
		}
		return withShare(Approval, rest)
	}
	if kind, ok := plain()[head]; ok {
		n := Name{Kind: kind}
		return n, n.pass(rest) && (kind != Config && kind != Secrets || n.Pass == "")
	}
	n := Name{Kind: Command, Command: head}
	return n, config.CommandName(head) == nil && n.pass(rest)
}

func withShare(kind Kind, rest []string) (Name, bool) {
	if len(rest) == 0 {
		return Name{}, false
	}
	share, ok := config.ParseShare(rest[0])
	n := Name{Kind: kind, Share: share}
	return n, ok && (share > 0 || kind != Traffic) && n.pass(rest[1:])
}

func (n *Name) pass(rest []string) bool {
	if len(rest) == 0 {
		return true
	}
	n.Pass = rest[0]
	return len(rest) == 1 && passForm.MatchString(n.Pass)
}

// number reads what is behind #: a reading's number, or a batch and a retry.
func (n *Name) number(text string) bool {
	switch n.Kind {
	case Gate:
		var err error
		n.Number, err = strconv.Atoi(text)
		return err == nil && n.Number > 0
	case Command, Deploy, Drain, DrainWait, Restore, RestoreWait:
		batch, retry, retried := strings.Cut(text, ".")
		var err, err2 error
		n.InBatch = true
		n.Batch, err = strconv.Atoi(batch)
		if retried {
			n.Retry, err2 = strconv.Atoi(retry)
		}
		return err == nil && err2 == nil && n.Batch >= 0 && (!retried || n.Retry > 0 && n.batchOnly())
	}
	return false
}

// batchOnly reports whether the kind exists in batches only.
func (n Name) batchOnly() bool {
	return slices.Contains([]Kind{Drain, DrainWait, Restore, RestoreWait}, n.Kind)
}
