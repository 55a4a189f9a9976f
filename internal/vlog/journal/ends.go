package journal

import (
	"github.com/brockdb/brock/internal/base/crypt"
	"github.com/brockdb/brock/internal/vlog/frame"
)

// ends are the frames with which segments end, by what comes after them: the header of another
// segment names the frame before its first one, a session has recorded the frame with which it
// found the journal to end, and so has the session that closed it. Nothing is ever appended behind
// such a frame, and what lies there in its file is not read. So it doesn't matter how the segment
// came to its end: by a seal, by a frame that was taken back, or by a crash and what was cut after
// it.
//
// A segment of which nothing comes after ends before its first frame that isn't whole.
//
// The value is the segment that goes on behind the frame, nil if there is none. If there are two,
// an earlier recovery gave up the older one, and the newer one counts, even if it has no frame:
// what was given up never comes back.
type ends map[frame.Name]*candidate

// newEnds is the ends that a manifest and the headers of the candidates name, which are ascending.
func newEnds(k *Known, found []*candidate) ends {
	e := ends{}
	for _, end := range k.Found {
		e[endName(end.Name)] = nil
	}
	if n := len(k.Durable); k.Closed && n > 0 {
		e[endName(k.Durable[n-1].Name)] = nil
	}
	for _, c := range found {
		if c.bad == nil {
			// Of two that continue the same frame the later one overwrites the earlier: see ends.
			e[c.header.Before] = c
		}
	}
	return e
}

// endName is the name of a frame as the header of the next segment has it: the tag stands for the
// file key id.
func endName(n frame.Name) frame.Name {
	n.KeyID = crypt.FileKeyID{}
	return n
}

// isEnd reports whether a segment ends with the frame of this name.
func (e ends) isEnd(n frame.Name) bool {
	_, ok := e[endName(n)]
	return ok
}
