package f5

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/manent/action/providers"
)

// transactionLimit bounds the wait for a transaction to be carried out.
const transactionLimit = 20 * time.Second

type transaction struct {
	ID     int64  `json:"transId"`
	State  string `json:"state"` // STARTED, VALIDATING, COMPLETED, FAILED, …
	Reason string `json:"failureReason"`
}

// Transact collects calls and has them carried out together, or none of them.
// Invalid, Denied and Unavailable say that nothing was changed; after Unknown
// nobody can say.
func (s *Session) Transact(ctx context.Context, add func(id int64) error) (id int64, err error) {
	var t transaction
	err = s.send(ctx, call{method: http.MethodPost, path: "/mgmt/tm/transaction", op: "begin transaction", body: struct{}{}, into: &t})
	if err != nil {
		return 0, err
	}
	if t.ID == 0 {
		return 0, s.c.http.Unexpected("begin transaction", "no transId")
	}
	if err := add(t.ID); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.discard(ctx, t.ID)
		return t.ID, err
	}
	return t.ID, s.commit(ctx, t.ID)
}

// discard takes a transaction away that will not be committed. Else the system
// does so after 120 s.
func (s *Session) discard(ctx context.Context, id int64) {
	if err := s.send(ctx, call{method: http.MethodDelete, path: transactionPath(id), op: "discard transaction"}); err != nil {
		s.c.opts.Log("%v; it ends by itself in 2 minutes", err)
	}
}

// open are the transactions of all users that have not ended.
func (s *Session) open(ctx context.Context) ([]transaction, error) {
	var list struct {
		Kind  string        `json:"kind"`
		Items []transaction `json:"items"`
	}
	op := "list transactions"
	err := s.send(ctx, call{method: http.MethodGet, path: "/mgmt/tm/transaction", op: op, into: &list})
	if err == nil && list.Kind == "" {
		err = s.c.http.Unexpected(op, "not a list")
	}
	var open []transaction
	for _, t := range list.Items {
		switch t.State {
		case "COMPLETED", "FAILED", "UNKNOWN_FAILURE":
			continue
		}
		if t.ID == 0 || t.State == "" {
			err = s.c.http.Unexpected(op, fmt.Sprintf("transaction %d in state %q", t.ID, t.State))
		}
		open = append(open, t)
	}
	return open, err
}

// Unfinished says which transaction may still change a pool or its members, ""
// for none: what is read of them before it ends is not what they stay. One that
// is not committed yet and changes nothing but the members is taken away, so
// that a commit on its way finds nothing; that it is gone the next call sees.
// Any other one is let be: what becomes of one that is taken away while it is
// carried out is not documented.
func (s *Session) Unfinished(ctx context.Context, pool string) (left string, err error) {
	open, err := s.open(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range open {
		touches, wholly := s.touches(ctx, t, pool)
		if wholly && t.State == "STARTED" {
			s.discard(ctx, t.ID)
		}
		if touches {
			left = fmt.Sprintf("transaction %d, in state %s, may still change pool %s", t.ID, t.State, pool)
		}
	}
	return left, nil
}

// touches reports whether a transaction has a command for a pool or its
// members, and whether all are for members. One of which that cannot be told
// may have one.
func (s *Session) touches(ctx context.Context, t transaction, pool string) (touches, wholly bool) {
	var list struct {
		Items []struct {
			URI string `json:"uri"` // https://localhost/mgmt/tm/ltm/pool/~Common~shop/members/…
		} `json:"items"`
	}
	err := s.send(ctx, call{method: http.MethodGet, path: transactionPath(t.ID) + "/commands", op: "list commands", into: &list})
	if err != nil || len(list.Items) == 0 {
		return err != nil || t.State != "STARTED", false
	}
	wholly = true
	for _, command := range list.Items {
		uri, _ := url.PathUnescape(command.URI)
		_, rest, found := strings.Cut(uri, "/ltm/pool/"+strings.ReplaceAll(pool, "/", "~"))
		touches = touches || uri == "" || found && (rest == "" || rest[0] == '/' || rest[0] == '?')
		wholly = wholly && found && strings.HasPrefix(rest, "/members/")
	}
	return touches, wholly
}

func transactionPath(id int64) string { return fmt.Sprintf("/mgmt/tm/transaction/%d", id) }

// commit has the calls carried out. The header that adds a call must not be on
// this one: it would be added itself.
func (s *Session) commit(ctx context.Context, id int64) error {
	op := fmt.Sprintf("commit transaction %d", id)
	var t transaction
	err := s.send(ctx, call{method: http.MethodPatch, path: transactionPath(id), op: op, body: map[string]string{"state": "VALIDATING"}, into: &t})
	if lost, ok := errors.AsType[*foreignError](err); ok {
		return s.c.fault(op, providers.Unknown, fmt.Errorf("sent, its outcome was not told: %w", lost))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, transactionLimit, fmt.Errorf("not carried out within %v", transactionLimit))
	defer cancel()
	for {
		switch t.State {
		case "COMPLETED":
			return nil
		case "FAILED", "UNKNOWN_FAILURE":
			return s.failed(op, t)
		case "VALIDATING", "STARTED", "COMPLETING":
		default:
			return s.c.http.Unexpected(op, fmt.Sprintf("state %q", t.State))
		}
		if !sleep(ctx, s.c.opts.Pause) {
			return s.c.fault(op, providers.Unknown, fmt.Errorf("state %s: %w", t.State, context.Cause(ctx)))
		}
		t = transaction{}
		if err := s.send(ctx, call{method: http.MethodGet, path: transactionPath(id), op: op, into: &t}); err != nil {
			// It was sent: that it cannot be read says nothing about what it did.
			return s.c.fault(op, providers.Unknown, fmt.Errorf("sent, its outcome could not be read: %w", err))
		}
	}
}

func (s *Session) failed(op string, t transaction) error {
	f := &providers.Fault{
		Provider: s.c.opts.Provider, Op: op, Kind: providers.Invalid, Hint: "see /var/log/ltm on the device",
		Err: fmt.Errorf("state %s, nothing was changed: %s", t.State, s.c.secrets.Clean(t.Reason)),
	}
	if denied(t.Reason) {
		f.Kind, f.Hint = providers.Denied, roleHint
	}
	return f
}
