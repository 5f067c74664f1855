package s3

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

const (
	maxText    = 300 // bytes of a host's message that are shown
	deniedHint = "the credentials need s3:GetObject, s3:PutObject, s3:ListBucket and s3:DeleteObject; without s3:ListBucket, S3 answers 403 for a key that does not exist"
)

// code is the name S3 gives an error; "" for none.
func code(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return ""
}

// status is the HTTP status of an error; 0 when no answer came.
func status(err error) int {
	if e, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return e.HTTPStatusCode()
	}
	return 0
}

// contested reports whether a conditional write was refused for what the
// object is: 412 for another revision, 409 for one that is being written, 404
// for one that is gone.
func contested(err error) bool {
	switch status(err) {
	case http.StatusPreconditionFailed, http.StatusConflict:
		return true
	case http.StatusNotFound:
		return code(err) != "NoSuchBucket"
	}
	return false
}

// classify turns an error of the SDK into a fault, without provider.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*providers.Fault](err); ok { // of the credentials, without the SDK's words around it
		return f
	}
	f := &providers.Fault{Err: err}
	if e, ok := errors.AsType[smithy.APIError](err); ok && status(err) != 0 {
		f.Err = fmt.Errorf("%s (HTTP %d %s)", clean(e.ErrorMessage()), status(err), clean(e.ErrorCode()))
	}
	f.Kind, f.Hint = meaning(err)
	return f
}

func meaning(err error) (providers.Kind, string) {
	s, name := status(err), code(err)
	switch {
	case providers.Lost(err):
		return providers.Unknown, ""
	case errors.Is(err, store.ErrTooLarge):
		return providers.Invalid, ""
	case s == http.StatusTooManyRequests, name == "SlowDown", strings.HasPrefix(name, "Throttl"):
		return providers.Throttled, ""
	case name == "ExpiredToken", name == "InvalidToken":
		return providers.Denied, "the session has ended: let manent take one when it needs one, with AWS_ROLE_ARN and the job's identity"
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return providers.Denied, deniedHint
	case s == http.StatusNotFound:
		return providers.NotFound, "check the bucket's name, its region and the endpoint"
	case s == http.StatusNotImplemented:
		return providers.Invalid, "this store does not know conditional writes; use another one"
	case s >= 500, s == http.StatusConflict, s == http.StatusPreconditionFailed:
		return providers.Unavailable, ""
	case s >= 300:
		return providers.Invalid, ""
	}
	return silence(err)
}

// silence is about errors without an answer.
func silence(err error) (providers.Kind, string) {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" { // no such host included
		return providers.Unavailable, ""
	}
	return providers.Unknown, ""
}

// clean makes one short line of a host's text.
func clean(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}

func refused(err error, hint string) error {
	return &providers.Fault{Kind: providers.Invalid, Err: err, Hint: hint}
}
