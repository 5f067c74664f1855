package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
)

const (
	putTries = 5                      // of a write that others are in the way of
	putPause = 100 * time.Millisecond // before the second, doubled each time
	perBatch = 1000                   // objects of one DeleteObjects request, the API's own limit
)

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, change store.Change, expect store.Revision) (store.Revision, error) {
	op := fmt.Sprintf("put %q", key)
	name, err := s.place.document(key)
	if err == nil {
		err = change.Check()
	}
	if err != nil {
		return "", s.invalid(op, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for _, object := range slices.Sorted(maps.Keys(change.Objects)) {
		if err := s.putObject(ctx, key, object, change.Objects[object], expect); err != nil {
			return "", s.fault(op, err)
		}
	}
	revision, err := s.putDocument(ctx, name, change.Data, expect)
	if err != nil {
		return "", s.fault(op, err)
	}
	for _, prefix := range change.Drop {
		if err := s.drop(ctx, key, prefix); err != nil {
			s.log("s3: objects of %s below %s stay: %v", key, prefix, classify(err))
		}
	}
	return revision, nil
}

// putDocument writes under the condition that the object is as expected. The
// SDK repeats a request whose answer was lost, and then the condition fails on
// our own write: so after every refusal the object is read and compared.
func (s *Store) putDocument(ctx context.Context, name string, data []byte, expect store.Revision) (store.Revision, error) {
	pause := putPause
	for try := 1; ; try++ {
		revision, failed := s.write(ctx, name, data, is(expect))
		switch {
		case failed == nil && revision != "":
			return revision, nil
		case failed != nil && !contested(failed):
			return "", failed
		}
		found, now, err := s.read(ctx, name)
		switch {
		case err != nil:
			return "", &providers.Fault{Err: fmt.Errorf("nobody knows what became of the write; reading it back: %w", classify(err))}
		case now != "" && bytes.Equal(found, data):
			return now, nil
		case now != expect:
			return "", &providers.Fault{Kind: providers.Conflict, Err: fmt.Errorf("revision is %q, expected %q", now, expect)}
		case failed == nil:
			return "", &providers.Fault{Err: errors.New("the write was accepted, but is not there")}
		case try == putTries:
			return "", failed
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// putObject writes a side object. One of the same name with other bytes is
// only replaced while the document is as expected: then it is left from a
// write that was refused, else it may be what the document names.
func (s *Store) putObject(ctx context.Context, key, object string, data []byte, expect store.Revision) error {
	path, err := s.place.object(key, object)
	if err != nil {
		return err
	}
	_, err = s.write(ctx, path, data, isAbsent)
	if err == nil || !contested(err) {
		return err
	}
	found, revision, err := s.read(ctx, path)
	if err != nil || revision != "" && bytes.Equal(found, data) {
		return err
	}
	document, err := s.place.document(key)
	if err != nil {
		return err
	}
	if _, now, err := s.read(ctx, document); err != nil {
		return err
	} else if now != expect {
		return &providers.Fault{Kind: providers.Conflict, Err: fmt.Errorf("object %q exists and the document's revision is %q, expected %q", object, now, expect)}
	}
	_, err = s.write(ctx, path, data, always)
	return err
}

// drop removes objects once the document has landed. What cannot be removed
// stays, named by nothing: that is reported and no error of the write.
func (s *Store) drop(ctx context.Context, key, prefix string) error {
	below, err := s.place.objects(key)
	if err != nil {
		return err
	}
	escaped, err := store.EscapePrefix(prefix)
	if err != nil {
		return err
	}
	names, err := s.names(ctx, below+escaped)
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(names, perBatch) {
		gone := make([]types.ObjectIdentifier, 0, len(batch))
		for _, name := range batch {
			gone = append(gone, types.ObjectIdentifier{Key: &name})
		}
		out, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &s.place.bucket, Delete: &types.Delete{Objects: gone, Quiet: aws.Bool(true)},
		})
		if err != nil {
			return err
		}
		if len(out.Errors) > 0 {
			return fmt.Errorf("%d of %d: %s", len(out.Errors), len(batch), aws.ToString(out.Errors[0].Message))
		}
	}
	return nil
}
