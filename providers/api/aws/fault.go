package aws

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/manent/action/providers"
)

// maxText is how much of a service's message is shown, in bytes.
const maxText = 300

// Fault gives an error of the SDK its meaning, with neither provider nor
// operation. A service never says Conflict here: what is one is the caller's
// to know. Services that answer in JSON use status 400 for nearly everything,
// so the code counts first.
// https://docs.aws.amazon.com/general/latest/gr/api-retries.html and the
// common errors of each service's reference.
//
// Its text is one line without what secrets knows, which may be nil: a service
// may echo what it does not like. Nothing of the SDK's error stays in the
// chain, in which a client's own timeout would look like the caller's end: a
// caller looks at its context first.
func Fault(err error, secrets *providers.Redactor) *providers.Fault {
	if f, ok := errors.AsType[*providers.Fault](err); ok {
		return f
	}
	clean := func(text string) string {
		if secrets != nil {
			text = secrets.Clean(text)
		}
		return line(text)
	}
	f := &providers.Fault{Kind: meaning(err), Err: errors.New(clean(err.Error()))}
	if e, ok := errors.AsType[smithy.APIError](err); ok && status(err) != 0 {
		f.Err = fmt.Errorf("%s (HTTP %d %s)", clean(e.ErrorMessage()), status(err), clean(e.ErrorCode()))
	}
	return f
}

// code is the name a service gives an error; "" for none.
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

func meaning(err error) providers.Kind {
	s := status(err)
	if s == 0 {
		return silence(err)
	}
	if kind, ok := codes(code(err)); ok {
		return kind
	}
	switch {
	case s == http.StatusTooManyRequests:
		return providers.Throttled
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return providers.Denied
	case s == http.StatusNotFound:
		return providers.NotFound
	case s >= 500, s == http.StatusRequestTimeout, s == http.StatusConflict, s == http.StatusPreconditionFailed:
		return providers.Unavailable
	case s >= 300:
		return providers.Invalid
	}
	return providers.Unknown // an answer of success that could not be read
}

func codes(code string) (providers.Kind, bool) {
	switch code {
	case "AccessDenied", "AccessDeniedException", "UnauthorizedException", "NotAuthorized", "OptInRequired",
		"ExpiredToken", "ExpiredTokenException", "InvalidToken", "InvalidIdentityToken", "IDPRejectedClaim",
		"InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException", "MissingAuthenticationToken", "MissingAuthenticationTokenException",
		"SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature", "IncompleteSignatureException", "RequestExpired":
		return providers.Denied, true
	case "TooManyRequestsException", "RequestLimitExceeded", "SlowDown", "LimitExceededException":
		return providers.Throttled, true
	case "IDPCommunicationError", "InternalServiceError", "InternalFailure", "ServiceUnavailable":
		return providers.Unavailable, true
	case "ResourceNotFoundException":
		return providers.NotFound, true
	}
	return providers.Throttled, strings.HasPrefix(code, "Throttl")
}

// silence is about errors without an answer.
func silence(err error) providers.Kind {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" { // no such host included
		return providers.Unavailable
	}
	return providers.Unknown
}

// line makes one short line of a service's text.
func line(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return strings.TrimSuffix(text, ".")
}
