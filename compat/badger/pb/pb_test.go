package pb_test

import (
	"testing"

	genuine "github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/brockdb/brock/compat/badger/pb"
)

// TestMessagesAreThoseOfBadger compares all messages and enums, field by field. That both packages are
// linked into one program is half of the test: the runtime refuses a name that is there already.
func TestMessagesAreThoseOfBadger(t *testing.T) {
	ours, theirs := pb.File_brockbadger_proto, genuine.File_badgerpb4_proto
	if ours.Messages().Len() != theirs.Messages().Len() || ours.Enums().Len() != theirs.Enums().Len() {
		t.Fatal("another number of messages or enums")
	}
	for i := range theirs.Messages().Len() {
		compareMessages(t, ours.Messages().Get(i), theirs.Messages().Get(i))
	}
	compareEnums(t, ours.Enums(), theirs.Enums())
}

func compareMessages(t *testing.T, ours, theirs protoreflect.MessageDescriptor) {
	if ours.Name() != theirs.Name() || ours.Fields().Len() != theirs.Fields().Len() {
		t.Fatalf("%v and %v", ours.FullName(), theirs.FullName())
	}
	for i := range theirs.Fields().Len() {
		a, b := ours.Fields().Get(i), theirs.Fields().Get(i)
		if a.Name() != b.Name() || a.Number() != b.Number() || a.Kind() != b.Kind() || a.Cardinality() != b.Cardinality() {
			t.Errorf("%v and %v", a, b)
		}
	}
	compareEnums(t, ours.Enums(), theirs.Enums())
}

func compareEnums(t *testing.T, ours, theirs protoreflect.EnumDescriptors) {
	if ours.Len() != theirs.Len() {
		t.Fatalf("%d enums and %d", ours.Len(), theirs.Len())
	}
	for i := range theirs.Len() {
		a, b := ours.Get(i), theirs.Get(i)
		if a.Name() != b.Name() || a.Values().Len() != b.Values().Len() {
			t.Fatalf("%v and %v", a.FullName(), b.FullName())
		}
		for j := range b.Values().Len() {
			if x, y := a.Values().Get(j), b.Values().Get(j); x.Name() != y.Name() || x.Number() != y.Number() {
				t.Errorf("%v and %v", x, y)
			}
		}
	}
}

// TestPairOnTheWire sends a pair with every field to Badger's type and back.
func TestPairOnTheWire(t *testing.T) {
	kv := &pb.KV{Key: []byte("k"), Value: []byte("v"), UserMeta: []byte{1}, Version: 1 << 60,
		ExpiresAt: 9, Meta: []byte{5}, StreamId: 3, StreamDone: true}
	wire, err := proto.Marshal(&pb.KVList{Kv: []*pb.KV{kv, {}}, AllocRef: 4})
	if err != nil {
		t.Fatal(err)
	}
	list := &genuine.KVList{}
	if err := proto.Unmarshal(wire, list); err != nil {
		t.Fatal(err)
	}
	if g := list.Kv[0]; string(g.Key) != "k" || g.Version != 1<<60 || !g.StreamDone || g.Meta[0] != 5 || len(list.Kv) != 2 {
		t.Fatal(list)
	}
	back, err := proto.MarshalOptions{Deterministic: true}.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	again := &pb.KVList{}
	if err := proto.Unmarshal(back, again); err != nil || !proto.Equal(again.Kv[0], kv) || again.AllocRef != 4 {
		t.Fatal(again, err)
	}
}
