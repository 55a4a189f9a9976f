package typed

import (
	"encoding"
	"encoding/json"
)

// RecordCodec turns records into bytes. Calls may come at once from any number of goroutines.
type RecordCodec[R any] interface {
	// Name is a part of the table's declaration: change it when the bytes change.
	Name() string
	// Marshal returns the bytes of r.
	Marshal(r *R) ([]byte, error)
	// Unmarshal fills in r, which is zero, from p. It does not keep p, which is read-only.
	Unmarshal(p []byte, r *R) error
}

// JSON is the codec of package encoding/json.
func JSON[R any]() RecordCodec[R] { return jsonRecords[R]{} }

type jsonRecords[R any] struct{}

func (jsonRecords[R]) Name() string                   { return "json" }
func (jsonRecords[R]) Marshal(r *R) ([]byte, error)   { return json.Marshal(r) }
func (jsonRecords[R]) Unmarshal(p []byte, r *R) error { return json.Unmarshal(p, r) }

// BinaryRecord is a pointer to a record that makes its own bytes.
type BinaryRecord[R any] interface {
	*R
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// Binary is the codec of records that have the methods MarshalBinary and UnmarshalBinary:
// typed.Binary[User]().
func Binary[R any, P BinaryRecord[R]]() RecordCodec[R] { return binaryRecords[R, P]{} }

type binaryRecords[R any, P BinaryRecord[R]] struct{}

func (binaryRecords[R, P]) Name() string                   { return "binary" }
func (binaryRecords[R, P]) Marshal(r *R) ([]byte, error)   { return P(r).MarshalBinary() }
func (binaryRecords[R, P]) Unmarshal(p []byte, r *R) error { return P(r).UnmarshalBinary(p) }
