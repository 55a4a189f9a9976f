package otelstorage

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"go.opentelemetry.io/collector/component"

	"github.com/brockdb/brock"
)

// keyspaceName returns the name of a client's keyspace: kind, type and name of its component, and
// the name of the storage, as in exporter/otlp/backup/traces. Parts are escaped as in a URL, and
// all four are always there, so different clients have different names.
//
// A name that is too long for Brock keeps its beginning, so that people recognize it, and gets a
// hash. No other name has the character before the hash, as it is escaped elsewhere.
func keyspaceName(kind component.Kind, id component.ID, storageName string) string {
	name := strings.Join([]string{
		strings.ToLower(kind.String()),
		url.PathEscape(id.Type().String()), url.PathEscape(id.Name()), url.PathEscape(storageName),
	}, "/")
	if len(name) <= brock.MaxKeyspaceName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "#" + hex.EncodeToString(sum[:])
	return name[:brock.MaxKeyspaceName-len(hash)] + hash
}
