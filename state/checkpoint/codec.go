package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/state"
)

const newerHint = "a newer manent wrote it; use that version, or a later one"

// Encode gives the one form a document is stored in: compact JSON in the
// order of the types, keys of maps sorted, a newline at the end. It refuses
// what Decode would refuse, so that no process writes what the next cannot
// read.
func Encode(doc *state.Document) ([]byte, error) {
	if err := check(doc, doc.Key); err != nil {
		return nil, bad(doc.Key, fmt.Errorf("not written: %w", err), "")
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(doc); err != nil {
		return nil, bad(doc.Key, fmt.Errorf("not written: %w", err), "")
	}
	if out.Len() > store.MaxDocument {
		return nil, bad(doc.Key, fmt.Errorf("not written: %w: %d bytes, expected at most %d", store.ErrTooLarge, out.Len(), store.MaxDocument), "")
	}
	return out.Bytes(), nil
}

// Decode reads a stored document of this or an older schema. It refuses, with
// a *providers.Fault of kind Invalid: damaged JSON, with the position; a newer
// schema; a document of another key; values that no build writes; and fields
// it does not know. The last because the next write would drop them: a build
// that adds a field raises state.Schema.
func Decode(data []byte, key string) (*state.Document, error) {
	if len(data) > store.MaxDocument {
		return nil, bad(key, fmt.Errorf("%w: %d bytes, expected at most %d", store.ErrTooLarge, len(data), store.MaxDocument), "")
	}
	var doc state.Document
	err := strict(data, &doc)
	if err != nil || doc.Schema != state.Schema { // the schema decides what the rest means
		if doc, err = older(data, key, err); err != nil {
			return nil, err
		}
	}
	if err := check(&doc, key); err != nil {
		return nil, damaged(key, data, err)
	}
	return &doc, nil
}

// older decodes what is not simply a document of this schema: one to migrate,
// or to refuse with the reason that its schema gives. failed is why it did
// not decode as it is.
func older(data []byte, key string, failed error) (doc state.Document, err error) {
	schema, err := schemaOf(data)
	switch {
	case err != nil:
		return doc, damaged(key, data, err)
	case schema > state.Schema:
		return doc, bad(key, fmt.Errorf("schema %d, this build reads up to %d", schema, state.Schema), newerHint)
	case schema < state.Schema:
		if data, err = migrate(data, schema); err != nil {
			return doc, damaged(key, data, err)
		}
		failed = strict(data, &doc)
	}
	if failed != nil && strings.HasPrefix(failed.Error(), "json: unknown field") { // the decoder has no type for it
		return doc, bad(key, failed, newerHint)
	}
	if failed != nil {
		return doc, damaged(key, data, failed)
	}
	return doc, nil
}

func schemaOf(data []byte) (int, error) {
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return 0, err
	}
	if head.Schema == nil {
		return 0, errors.New("no schema version, this is no state document")
	}
	if *head.Schema < 0 {
		return 0, fmt.Errorf("schema %d", *head.Schema)
	}
	return *head.Schema, nil
}

// strict decodes exactly one JSON value and knows every field of it.
func strict(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("more after the end of the document at byte %d", decoder.InputOffset())
	}
	return nil
}

// Digest is the sha256 of a value's canonical JSON in hex: keys sorted, no
// spaces, numbers as they were written. Two spellings of one configuration
// have one digest.
func Digest(value any) (string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("digest: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return "", fmt.Errorf("digest: %w", err)
	}
	if data, err = json.Marshal(plain); err != nil {
		return "", fmt.Errorf("digest: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// damaged says where a document is damaged, if the decoder knows.
func damaged(key string, data []byte, err error) error {
	offset := int64(-1)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = e.Offset
	} else if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		offset = int64(len(data))
	}
	if offset >= 0 {
		err = fmt.Errorf("damaged at byte %d of %d: %w", offset, len(data), err)
	} else {
		err = fmt.Errorf("damaged: %w", err)
	}
	return bad(key, err, "restore the last good version from the store's history and compare it with the router before the next step")
}

func bad(key string, err error, hint string) error {
	return &providers.Fault{Provider: "state", Op: key, Kind: providers.Invalid, Err: err, Hint: hint}
}
