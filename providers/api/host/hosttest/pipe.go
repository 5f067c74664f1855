package hosttest

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// pipe is a connection to a server that has only this one.
func pipe(handler http.Handler) net.Conn {
	client, server := net.Pipe()
	one := &listener{conn: server, closed: make(chan struct{})}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(one) }()
	return &closer{Conn: client, also: one}
}

// listener gives its one connection and then waits until it is closed.
type listener struct {
	conn   net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, errors.New("closed")
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// closer ends the server with the connection.
type closer struct {
	net.Conn
	also *listener
}

func (c *closer) Close() error {
	_ = c.also.Close()
	return c.Conn.Close()
}
