package pairs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
	j.setKeyspace(s.Name)
	return j.encode()
}

// section returns the section that a line begins; nil if the line is a pair.
func (j *jsonPair) section() (*Section, error) {
	pair := j.Key != nil || j.KeyB64 != nil || j.Value != nil || j.ValueB64 != nil || j.Meta != 0 || j.Version != 0 || !j.Expires.IsZero() || j.Deleted || j.OnlyLatest
	named := j.Keyspace != nil || j.KeyspaceB64 != nil
	switch {
	case j.Options != nil && (pair || !named):
		return nil, errors.New(`"options" are for a line of their own, with a "keyspace" and without a pair`)
	case pair || !named:
		return nil, nil
	}
	name, err := j.keyspace()
	if err != nil {
		return nil, err
	}
	if *name == "" {
		return nil, errors.New("a keyspace without a name")
	}
	s := &Section{Name: []byte(*name)}
	if j.Options != nil {
		s.Options = *j.Options
	}
	return s, nil
}

// keyspace returns the keyspace that a line names; nil if it names none.
func (j *jsonPair) keyspace() (*string, error) {
	name := j.KeyspaceB64
	switch {
	case j.Keyspace != nil && name != nil:
		return nil, errors.New(`both "keyspace" and "keyspaceB64"`)
	case j.Keyspace != nil:
		var err error
		if name, err = unquote(j.Keyspace); err != nil {
			return nil, fmt.Errorf("keyspace: %w", err)
		}
	case name == nil:
		return nil, nil
	}
	text := string(name)
	return &text, nil
}
