// Package s3 keeps state documents in an S3 bucket, or in a store that speaks
// its protocol and honours conditional writes: If-None-Match to create,
// If-Match to replace. Many that speak the protocol do not honour them;
// store.Probe finds out. It must not know what a document means.
//
// Below the prefix, a document is state/<escaped key>.json and an object is
// objects/<escaped key>/<escaped name>, apart so that a list of documents does
// not page through readings. Objects are written before the document that
// names them. Facts about the API: PutObject in the S3 reference, conditional
// requests in the user guide.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

var _ store.Store = (*Store)(nil)

// callLimit bounds one call of the store with all its requests. It is shorter
// than the time after which another process may take a lease over.
const callLimit = 25 * time.Second

// Store is a bucket, or a part of one.
type Store struct {
	place  place
	client func() (*s3.Client, error)
	log    func(format string, args ...any)
}

// Spec describes the store to the wiring.
func Spec() store.Spec {
	return store.Spec{
		Scheme:  "s3",
		Summary: "an S3 bucket, or a compatible store with conditional writes",
		Example: "s3://bucket/prefix?region=eu-central-1",
		Open:    func(env providers.Env, address string) (store.Store, error) { return Open(env, address) },
	}
}

// Open takes s3://bucket/prefix?region=…&endpoint=…. The credentials are
// those of api/aws: keys of the environment, a role taken with the job's
// identity, or what the SDK's own chain finds. No request is made before the
// first call.
func Open(env providers.Env, address string) (*Store, error) {
	p, err := parse(address)
	if err != nil {
		return nil, &providers.Fault{Provider: "s3", Op: "open", Kind: providers.Invalid, Err: err}
	}
	if env.Getenv == nil {
		env.Getenv = func(string) string { return "" }
	}
	if env.Log == nil {
		env.Log = func(string, ...any) {}
	}
	return &Store{place: p, client: newClient(env, p), log: env.Log}, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, store.Revision, error) {
	op := fmt.Sprintf("get %q", key)
	name, err := s.place.document(key)
	if err != nil {
		return nil, "", s.invalid(op, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	data, revision, err := s.read(ctx, name)
	if err != nil {
		return nil, "", s.fault(op, err)
	}
	return data, revision, nil
}

// Object implements store.Store.
func (s *Store) Object(ctx context.Context, key, name string) ([]byte, error) {
	op := fmt.Sprintf("object %q of %q", name, key)
	path, err := s.place.object(key, name)
	if err != nil {
		return nil, s.invalid(op, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	data, revision, err := s.read(ctx, path)
	if err == nil && revision == "" {
		err = &providers.Fault{Kind: providers.NotFound, Err: errors.New("no such object")}
	}
	if err != nil {
		return nil, s.fault(op, err)
	}
	return data, nil
}

// read gets an object of the bucket; no revision when there is none. The
// revision is the ETag as it came, quotes included.
func (s *Store) read(ctx context.Context, name string) ([]byte, store.Revision, error) {
	client, err := s.client()
	if err != nil {
		return nil, "", err
	}
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.place.bucket, Key: &name})
	if code(err) == "NoSuchKey" {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = out.Body.Close() }()
	data, err := store.ReadAll(out.Body)
	if err != nil {
		return nil, "", err
	}
	if aws.ToString(out.ETag) == "" {
		return nil, "", refused(errors.New("the answer has no ETag"), "this store cannot compare and set")
	}
	return data, store.Revision(*out.ETag), nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	op := fmt.Sprintf("list %q", prefix)
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	names, err := s.names(ctx, s.place.documents())
	if err != nil {
		return nil, s.fault(op, err)
	}
	var keys []string
	for _, name := range names {
		if key, ok := s.place.key(name); ok && store.Below(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// names lists what is below a prefix of the bucket, page by page.
func (s *Store) names(ctx context.Context, prefix string) (names []string, err error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &s.place.bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, object := range page.Contents {
			names = append(names, aws.ToString(object.Key))
		}
	}
	return names, nil
}

func (s *Store) write(ctx context.Context, name string, data []byte, condition func(*s3.PutObjectInput)) (store.Revision, error) {
	client, err := s.client()
	if err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{Bucket: &s.place.bucket, Key: &name, Body: bytes.NewReader(data), ContentType: aws.String("application/json")}
	condition(in)
	out, err := client.PutObject(ctx, in)
	if err != nil {
		return "", err
	}
	return store.Revision(aws.ToString(out.ETag)), nil
}

func isAbsent(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") }

func always(*s3.PutObjectInput) {}

// is demands that the object still has this revision, or does not exist.
func is(expect store.Revision) func(*s3.PutObjectInput) {
	if expect == "" {
		return isAbsent
	}
	return func(in *s3.PutObjectInput) { in.IfMatch = aws.String(string(expect)) }
}

func (s *Store) invalid(op string, err error) error {
	return s.fault(op, &providers.Fault{Kind: providers.Invalid, Err: err})
}

// fault gives an error its provider, operation and place.
func (s *Store) fault(op string, err error) error {
	err = classify(err)
	return &providers.Fault{
		Provider: "s3", Op: op + " at s3://" + strings.TrimSuffix(s.place.bucket+"/"+s.place.prefix, "/"),
		Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err),
	}
}
