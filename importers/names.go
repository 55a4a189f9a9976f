package importers

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/brockdb/brock"
)

// Keyspaces of the import itself. No bucket becomes one of them: in the name of a bucket's keyspace
// every % is followed by 25 or 2F.
const (
	// SequencesKeyspace has the sequences of buckets that have one: the name of the bucket's
	// keyspace, and the number in decimal digits.
	SequencesKeyspace = "%sequences"
	// NamesKeyspace has the paths of buckets whose keyspace has a short name: that name, and the
	// path as KeyspaceName would write it if there was no limit.
	NamesKeyspace = "%names"

	longPrefix = "%long."
)

var (
	escaper   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescaper = strings.NewReplacer("%25", "%", "%2F", "/")
)

// KeyspaceName returns the name of the keyspace for a bucket, which is named by its path: the names
// of the buckets around it, and its own. They are joined by slashes; a slash in a name is written
// %2F, and a percent sign %25. If that is longer than brock.MaxKeyspaceName, name is %long. and the
// SHA-256 of full in hexadecimal digits, and full is kept in NamesKeyspace.
func KeyspaceName(path ...string) (name, full string) {
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = escaper.Replace(p)
	}
	full = strings.Join(escaped, "/")
	if len(full) <= brock.MaxKeyspaceName {
		return full, full
	}
	sum := sha256.Sum256([]byte(full))
	return longPrefix + hex.EncodeToString(sum[:]), full
}

// BucketPath returns the path of the bucket for a keyspace. It is the reverse of KeyspaceName: full is
// the keyspace's name or, for one that NamesKeyspace has, what stands there. A name that KeyspaceName
// can't have made, as it has an empty part or another use of the percent sign, is the name of one
// bucket.
func BucketPath(full string) []string {
	parts := strings.Split(full, "/")
	for i, p := range parts {
		rest := strings.ReplaceAll(strings.ReplaceAll(p, "%25", ""), "%2F", "")
		if p == "" || strings.Contains(rest, "%") {
			return []string{full}
		}
		parts[i] = unescaper.Replace(p)
	}
	return parts
}
