package pairs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/brockdb/brock"
)

// Section says in which keyspace the pairs after it are, and how that keyspace is kept.
// Pairs before the first section are in the default keyspace. Only JSON lines have
// sections.
type Section struct {
	Name    []byte
	Options Options
}

// Options are brock.KeyspaceOptions as JSON: each field is written, durations as in "24h0m0s".
type Options struct{ brock.KeyspaceOptions }

// SectionOf returns the section of a keyspace.
func SectionOf(ks *brock.Keyspace) Section {
	return Section{Name: []byte(ks.Name()), Options: Options{ks.Options()}}
}

var compressions = map[string]brock.Compression{"none": brock.NoCompression, "s2": brock.S2, "zstd": brock.Zstd}

// CompressionOf returns a compression by its name; DefaultCompression for an unknown name.
func CompressionOf(name string) brock.Compression { return compressions[name] }

type jsonOptions struct {
	ValueThreshold int    `json:"valueThreshold"`
	TTL            string `json:"ttl"`
	Versions       int    `json:"versions"`
	KeepFor        string `json:"keepFor"`
	Manual         bool   `json:"manual,omitempty"` // until SetDiscardVersion
	Compression    string `json:"compression"`
	CompressAbove  int    `json:"compressAbove"`
}

// MarshalJSON writes all fields.
func (o Options) MarshalJSON() ([]byte, error) {
	j := jsonOptions{ValueThreshold: o.ValueThreshold, TTL: o.TTL.String(), Versions: o.Versions.Versions,
		KeepFor: o.Versions.Age.String(), Manual: o.Versions.Manual, CompressAbove: o.CompressAbove}
	for name, c := range compressions {
		if c == o.Compression {
			j.Compression = name
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes; a field that is missing is a default. It
// refuses fields that it doesn't know.
func (o *Options) UnmarshalJSON(b []byte) (err error) {
	j := jsonOptions{TTL: "0s", KeepFor: "0s", Compression: "none"}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return err
	}
	*o = Options{brock.KeyspaceOptions{ValueThreshold: j.ValueThreshold, Compression: CompressionOf(j.Compression), CompressAbove: j.CompressAbove}}
	o.Versions.Versions, o.Versions.Manual = j.Versions, j.Manual
	if o.Compression == brock.DefaultCompression {
		return fmt.Errorf("compression %q is none of none, s2 and zstd", j.Compression)
	}
	if o.TTL, err = time.ParseDuration(j.TTL); err != nil {
		return err
	}
	o.Versions.Age, err = time.ParseDuration(j.KeepFor)
	return err
}

// MarshalJSON writes the section as a line of a .jsonl file.
func (s Section) MarshalJSON() ([]byte, error) {
	j := jsonPair{Options: &s.Options}
	if utf8.Valid(s.Name) {
		j.Keyspace = quote(s.Name)
	} else {
		j.KeyspaceB64 = s.Name
	}
	return j.encode()
}

// section returns the section that a line begins; nil if the line is a pair.
func (j *jsonPair) section() (*Section, error) {
	if j.Keyspace == nil && j.KeyspaceB64 == nil {
		if j.Options != nil {
			return nil, errors.New(`"options" without "keyspace"`)
		}
		return nil, nil
	}
	if j.Keyspace != nil && j.KeyspaceB64 != nil {
		return nil, errors.New(`both "keyspace" and "keyspaceB64"`)
	}
	if j.Key != nil || j.KeyB64 != nil || j.Value != nil || j.ValueB64 != nil || j.Meta != 0 || !j.Expires.IsZero() {
		return nil, errors.New(`"keyspace" begins a part of the file: it stands on a line of its own, without a pair`)
	}
	s := &Section{Name: j.KeyspaceB64}
	if j.Options != nil {
		s.Options = *j.Options
	}
	var err error
	if j.Keyspace != nil {
		if s.Name, err = unquote(j.Keyspace); err != nil {
			return nil, fmt.Errorf("keyspace: %w", err)
		}
	}
	if len(s.Name) == 0 {
		return nil, errors.New("a keyspace without a name")
	}
	return s, nil
}
