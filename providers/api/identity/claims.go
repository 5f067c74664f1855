package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
)

// maxToken is the longest token that is looked at, in bytes.
const maxToken = 32 << 10

// claims are what is read of a token, unverified: it was given to this job,
// and who it is for verifies it.
type claims struct {
	Audience audience `json:"aud"`
	Expires  float64  `json:"exp"` // seconds since 1970; RFC 7519 allows fractions
}

// audience is one text or a list of them. RFC 7519, section 4.1.3.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// leeway is for the time on the way, and for clocks that differ.
const leeway = 30 * time.Second

func (c claims) end() time.Time { return time.Unix(int64(c.Expires), 0) }

// expired reports whether a token is of no use any more.
func (c claims) expired(now time.Time) bool { return !now.Add(leeway).Before(c.end()) }

var errNoToken = errors.New("not a JSON Web Token with aud and exp")

// parse reads a token in its compact form. Its text is in no error.
func parse(token string) (claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken || strings.ContainsAny(token, " \t\r\n") {
		return claims{}, errNoToken
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}, errNoToken
	}
	var c claims
	if json.Unmarshal(data, &c) != nil || len(c.Audience) == 0 || c.Audience[0] == "" || c.Expires <= 0 || c.Expires > math.MaxInt32*100 {
		return claims{}, errNoToken
	}
	return c, nil
}
