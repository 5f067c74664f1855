package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	gh "github.com/google/go-github/v66/github"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// unsaid is how long GitHub asks to wait at least when it limits and does not
// say how long.
// https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
const unsaid = time.Minute

// fault says what an error means. An answer that cannot be read is Unknown.
func (c *Client) fault(ctx context.Context, call call, err error) error {
	out := &providers.Fault{Provider: name, Op: call.op}
	if no := refused(err); no != nil {
		out.Kind, out.Err = httpx.KindOf(no.status), errors.New(strings.TrimSuffix(fmt.Sprintf("status %d: %s", no.status, c.excerpt(no.said)), ": "))
		if no.limited {
			out.Kind, out.After = providers.Throttled, no.after
		} else {
			out.Hint = hint(no.status, call.permission)
		}
		return out
	}
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		out.Kind, out.Err, out.Hint, out.After = f.Kind, f.Err, f.Hint, f.After
		return out
	}
	if ctx.Err() != nil {
		out.Err = fmt.Errorf("no answer: %w", ctx.Err())
		return out
	}
	out.Err = errors.New("unexpected answer: " + c.excerpt(err.Error()))
	return out
}

// refusal is GitHub's no. It answers 403 to what it refuses for now and to
// what it refuses for good.
type refusal struct {
	status  int
	said    string
	limited bool
	after   time.Duration // if limited
}

// refused returns the refusal that an error stands for, nil for none. The
// limit of requests may be one that go-github knows of from an answer before.
func refused(err error) *refusal {
	if e, ok := errors.AsType[*gh.RateLimitError](err); ok {
		return &refusal{http.StatusForbidden, e.Message, true, within(time.Until(e.Rate.Reset.Time))}
	}
	if e, ok := errors.AsType[*gh.AbuseRateLimitError](err); ok {
		return &refusal{http.StatusForbidden, e.Message, true, retryAfter(e.Response)}
	}
	if e, ok := errors.AsType[*gh.TwoFactorAuthError](err); ok {
		return &refusal{status: http.StatusUnauthorized, said: e.Message}
	}
	e, ok := errors.AsType[*gh.ErrorResponse](err)
	if !ok {
		return nil
	}
	status := e.Response.StatusCode
	limited := status == http.StatusTooManyRequests || (status == http.StatusForbidden && e.Response.Header.Get("Retry-After") != "")
	return &refusal{status, details(e), limited, retryAfter(e.Response)}
}

// details is GitHub's message with what it says of each field.
func details(e *gh.ErrorResponse) string {
	said := []string{e.Message}
	for _, d := range e.Errors {
		if d.Message == "" {
			d.Message = strings.TrimSpace(d.Resource + " " + d.Field + " " + d.Code)
		}
		said = append(said, d.Message)
	}
	return strings.Join(said, ", ")
}

func retryAfter(resp *http.Response) time.Duration {
	if seconds, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil {
		return within(time.Duration(seconds) * time.Second)
	}
	return unsaid
}

func within(d time.Duration) time.Duration { return min(max(d, time.Second), 24*time.Hour) }

func hint(status int, permission string) string {
	grant := fmt.Sprintf("`permissions: {%s}` in the workflow, of the job or at the top (what is not named there is not granted)", permission)
	switch status {
	case http.StatusUnauthorized:
		return "GITHUB_TOKEN is wrong or has expired, it ends with its job: pass `GITHUB_TOKEN: ${{ github.token }}` in the env of this step"
	case http.StatusForbidden:
		return "the token needs " + grant
	case http.StatusNotFound:
		return "either it does not exist, or the token may not see it and needs " + grant
	}
	return ""
}

// excerpt is the beginning of a text on one line, without what is secret. It
// is cut afterwards, so that no half of a secret remains.
func (c *Client) excerpt(text string) string {
	const most = 240
	text = c.token.Clean(text)
	if c.secrets != nil {
		text = c.secrets.Clean(text)
	}
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > most {
		runes = append(runes[:most], '…')
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(runes))
}
