// Package wire puts a store behind a gRPC service with two methods, Read and
// Write, as a small server would. The service is described by hand: a message is
// a key and a value, or one of them, and its codec is below. So there is no .proto
// file, and nothing is generated.
package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/brockdb/brock/bench/internal/kv"
)

const (
	serviceName = "brock.bench.Store"
	mostMessage = 64 << 20 // gRPC's default of 4 MB is enough for the workloads, not for tests
)

// message is what goes over the wire: the length of the key as an unsigned
// varint, the key, and the value up to the end.
type message struct{ key, value []byte }

// codec encodes messages.
type codec struct{}

func (codec) Name() string { return "pair" }

func (codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("wire: %T is no message", v)
	}
	b := make([]byte, 0, binary.MaxVarintLen64+len(m.key)+len(m.value))
	b = binary.AppendUvarint(b, uint64(len(m.key)))
	b = append(b, m.key...)
	return append(b, m.value...), nil
}

var errMessage = errors.New("wire: a message ends within its key")

// Unmarshal copies: gRPC takes its buffer back.
func (codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("wire: %T is no message", v)
	}
	n, size := binary.Uvarint(data)
	if size <= 0 || n > uint64(len(data)-size) {
		return errMessage
	}
	b := append([]byte(nil), data[size:]...)
	m.key, m.value = b[:n:n], b[n:]
	return nil
}

// service is the server's side.
type service interface {
	read(*message) (*message, error)
	write(*message) (*message, error)
}

type server struct {
	store kv.Store
	copy  kv.Copier
}

func (s *server) read(m *message) (*message, error) {
	v, found, err := s.copy.AppendValue(nil, m.key)
	if err == nil && !found {
		err = status.Error(codes.NotFound, "no such key")
	}
	return &message{value: v}, err
}

func (s *server) write(m *message) (*message, error) {
	return &message{}, s.store.Set(m.key, m.value)
}

func description() *grpc.ServiceDesc {
	method := func(name string, call func(service, *message) (*message, error)) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(srv any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			m := new(message)
			if err := decode(m); err != nil {
				return nil, err
			}
			return call(srv.(service), m)
		}}
	}
	return &grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*service)(nil),
		Methods:     []grpc.MethodDesc{method("Read", service.read), method("Write", service.write)},
	}
}

// Serve starts a server before the store, on a port of this machine, and returns
// a client of it. The client's Close ends both, and leaves the store open.
func Serve(s kv.Store) (kv.Store, error) {
	c, ok := s.(kv.Copier)
	if !ok {
		return nil, errors.New("wire: the store can't copy values")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.MaxRecvMsgSize(mostMessage))
	g.RegisterService(description(), &server{store: s, copy: c})
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(mostMessage)))
	if err != nil {
		g.Stop()
		return nil, errors.Join(err, <-ended)
	}
	return &client{conn: conn, server: g, ended: ended}, nil
}

// client is a store at the other end. It has no scans and no batches.
type client struct {
	conn   *grpc.ClientConn
	server *grpc.Server
	ended  chan error
}

func (c *client) Get(key []byte) (sum uint64, found bool, err error) {
	var reply message
	err = c.conn.Invoke(context.Background(), "/"+serviceName+"/Read", &message{key: key}, &reply)
	if status.Code(err) == codes.NotFound {
		return 0, false, nil
	}
	return kv.Touch(reply.value), err == nil, err
}

func (c *client) Set(key, value []byte) error {
	return c.conn.Invoke(context.Background(), "/"+serviceName+"/Write", &message{key: key, value: value}, &message{})
}

func (c *client) Close() error {
	err := c.conn.Close()
	c.server.GracefulStop()
	return errors.Join(err, <-c.ended)
}
