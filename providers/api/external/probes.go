package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/process"
)

// RefusesUnknown asks for what no program can do, and expects its no.
func (c *Client) RefusesUnknown(ctx context.Context, timeout time.Duration) error {
	_, err := Do[any](ctx, c, Call{Method: "no-such-request", Params: None{}, Timeout: timeout})
	return wantInvalid(err, "")
}

// RefusesProtocol asks in a protocol that is not known, and expects a no.
func (c *Client) RefusesProtocol(ctx context.Context, timeout time.Duration) error {
	_, err := Do[any](ctx, c, Call{Method: Describe, Params: None{}, Timeout: timeout, Protocol: Protocol + 98})
	return wantInvalid(err, fmt.Sprintf(", in protocol %d", Protocol))
}

func wantInvalid(err error, more string) error {
	if err == nil {
		return errors.New("it said yes, expected an error of kind invalid" + more)
	}
	if _, own := errors.AsType[*Refusal](err); !own || providers.KindOf(err) != providers.Invalid {
		return fmt.Errorf("%w, expected an error of kind invalid%s", err, more)
	}
	return nil
}

// patient is how long a program may take to end once it was told to; a second
// later it is killed.
const patient = process.Grace - time.Second

// EndsWhenGivenUp asks and soon gives up. It counts from when it did, and takes
// the best of three: a program that has to be killed is never sooner, and a
// busy machine is.
func (c *Client) EndsWhenGivenUp(ctx context.Context, timeout time.Duration) error {
	var took time.Duration
	for range 3 {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		end, _ := short.Deadline()
		_, err := Do[Description](short, c, Call{Method: Describe, Params: None{}, Timeout: timeout})
		took = time.Since(end)
		cancel()
		if err != nil && !providers.Lost(err) {
			return err
		}
		if took <= patient {
			return nil
		}
	}
	return fmt.Errorf("it ended %v after SIGTERM, expected at most %v", took.Round(time.Second), patient)
}

// RefusesGarbage sends what is no request: whatever the program makes of it,
// it must not look like success.
func (c *Client) RefusesGarbage(ctx context.Context, timeout time.Duration) error {
	for _, in := range []string{"", `{"protocol":1,"id":"x","request":"describe"`, "[]\n"} {
		reply, err := c.raw(ctx, Call{Method: Describe, Timeout: timeout}, []byte(in))
		if err != nil {
			return err
		}
		var answer struct{ Result any }
		if json.Unmarshal(reply.Out, &answer) == nil && answer.Result != nil {
			return fmt.Errorf("the input %q was answered with a result", in)
		}
	}
	return nil
}
