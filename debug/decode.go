package debug

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Decode lets the page show the values of keys that begin with prefix as what fn returns, as JSON.
// Of several prefixes the longest decides. fn must not keep the value, and may be called by several
// goroutines at once. If it returns an error or panics, the page says so and shows the bytes. It has
// no effect without Values.
//
// Values that are Protocol Buffers are shown by the descriptor that the program has compiled in. This
// package needs no library for that; fn returns the JSON of google.golang.org/protobuf:
//
//	debug.Decode("order/", func(value []byte) (any, error) {
//		m := new(orderpb.Order)
//		if err := proto.Unmarshal(value, m); err != nil {
//			return nil, err
//		}
//		text, err := protojson.Marshal(m)
//		return json.RawMessage(text), err
//	})
//
// If the type is known by its name only, as of a descriptor set that was read from a file, m is
// dynamicpb.NewMessage of what protoregistry.Files.FindDescriptorByName has found, as a
// protoreflect.MessageDescriptor.
func Decode(prefix string, fn func(value []byte) (any, error)) Option {
	return func(c *config) { c.decoders = append(c.decoders, decoder{prefix: prefix, decode: fn}) }
}

// DecodeIn is Decode for the keys of one keyspace; "" is the default one. It goes before Decode.
func DecodeIn(keyspace, prefix string, fn func(value []byte) (any, error)) Option {
	return func(c *config) {
		c.decoders = append(c.decoders, decoder{keyspace: &keyspace, prefix: prefix, decode: fn})
	}
}

// decoder makes something to read of some values.
type decoder struct {
	keyspace *string // nil: any
	prefix   string
	decode   func([]byte) (any, error)
}

// Limits of what is decoded.
const (
	maxDecode  = 1 << 20   // bytes of a value
	maxDecoded = 256 << 10 // bytes of its JSON
)

// findDecoder returns the decoder of a key; nil = none. The list has long prefixes first.
func (c *config) findDecoder(keyspace string, key []byte) (found *decoder) {
	for i := range c.decoders {
		d := &c.decoders[i]
		if d.decode == nil || !strings.HasPrefix(string(key), d.prefix) {
			continue
		}
		if d.keyspace != nil && *d.keyspace == keyspace {
			return d
		}
		if d.keyspace == nil && found == nil {
			found = d
		}
	}
	return found
}

// run decodes a value. A panic of the user's function becomes an error: the page must not end the
// program that it looks into.
func (d *decoder) run(value []byte) (text json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = nil, fmt.Errorf("the decoder panicked: %v", p)
		}
	}()
	if len(value) > maxDecode {
		return nil, fmt.Errorf("values above %d bytes are not decoded", maxDecode)
	}
	v, err := d.decode(value)
	if err != nil {
		return nil, err
	}
	text, err = json.Marshal(v)
	switch {
	case err != nil: // such as a map with keys of another kind
		text, err = json.Marshal(fmt.Sprintf("%+v", v))
	case len(text) > maxDecoded:
		return nil, fmt.Errorf("what the decoder returned is above %d bytes", maxDecoded)
	}
	return text, err
}
