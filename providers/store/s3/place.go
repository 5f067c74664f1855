package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/aws"
	"github.com/manent/action/providers/store"
)

// place is where in which bucket the documents are.
type place struct {
	bucket, prefix   string // the prefix ends in a slash, if there is one
	region, endpoint string
}

func parse(address string) (place, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return place{}, errors.New("the address is not a URL, expected s3://bucket/prefix")
	case u.User != nil:
		return place{}, errors.New("the address carries credentials, expected them in the environment")
	case u.Scheme != "s3" || u.Host == "" || u.Fragment != "":
		return place{}, fmt.Errorf("address %q, expected s3://bucket/prefix?region=…&endpoint=…", address)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return place{}, fmt.Errorf("address: %w", err)
	}
	for name := range query {
		if name != "region" && name != "endpoint" {
			return place{}, fmt.Errorf("unknown parameter %q, expected region or endpoint", name)
		}
	}
	p := place{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), region: query.Get("region"), endpoint: query.Get("endpoint")}
	if p.prefix != "" {
		if path.Clean("/"+p.prefix) != "/"+p.prefix { // gateways to a file system would follow the dots
			return place{}, fmt.Errorf("prefix %q, expected neither empty nor dotted segments", p.prefix)
		}
		p.prefix += "/"
	}
	if p.endpoint != "" {
		if _, err := providers.CheckURL(p.endpoint, false); err != nil {
			return place{}, fmt.Errorf("endpoint: %w", err)
		}
	}
	return p, nil
}

func (p place) documents() string { return p.prefix + "state/" }

func (p place) document(key string) (string, error) {
	escaped, err := store.EscapeKey(key)
	return p.documents() + escaped + ".json", err
}

func (p place) key(document string) (string, bool) {
	escaped, ok := strings.CutSuffix(strings.TrimPrefix(document, p.documents()), ".json")
	if !ok {
		return "", false
	}
	return store.UnescapeKey(escaped)
}

func (p place) objects(key string) (string, error) {
	escaped, err := store.EscapeKey(key)
	return p.prefix + "objects/" + escaped + "/", err
}

func (p place) object(key, name string) (string, error) {
	below, err := p.objects(key)
	escaped, nameErr := store.EscapeName(name)
	return below + escaped, cmp.Or(err, nameErr)
}

// newClient returns a function that makes the client when it is first needed:
// the SDK's chain reads files.
func newClient(env providers.Env, p place) func() (*s3.Client, error) {
	return sync.OnceValues(func() (*s3.Client, error) {
		cfg, err := api.Config(context.Background(), env, p.region)
		if err != nil {
			return nil, err
		}
		if cfg.Region == "" && p.endpoint != "" {
			cfg.Region = "us-east-1" // compatible stores mostly take any
		}
		if cfg.Region == "" {
			return nil, api.NoRegion("add ?region=… to the address or set AWS_REGION")
		}
		// Other stores refuse the checksums that the SDK adds unasked.
		cfg.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		cfg.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		return s3.NewFromConfig(cfg, func(o *s3.Options) {
			if p.endpoint != "" {
				o.BaseEndpoint, o.UsePathStyle = aws.String(p.endpoint), true
			}
		}), nil
	})
}
