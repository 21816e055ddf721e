package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	echoPort   = 18731
	httpPort   = 8080
	udpTimeout = time.Second
)

// PodConfig says what a pod measures: its peers, the service and names.
type PodConfig struct {
	UDPRate     float64 `json:"udp_rate"`
	TCPRate     float64 `json:"tcp_rate"`
	Service     string  `json:"service"`
	ServiceRate float64 `json:"service_rate"`
	DNS         string  `json:"dns"`
	DNSName     string  `json:"dns_name"`
	DNSRate     float64 `json:"dns_rate"`
}

func (a *Agent) startPod(ctx context.Context, loops *sync.WaitGroup) error {
	config := a.config.Pod
	if err := echo(ctx); err != nil {
		return err
	}
	start := func(run func()) {
		loops.Add(1)
		go func() { defer loops.Done(); run() }()
	}
	if config.Service != "" {
		series := a.add("service", "ClusterIP")
		url := fmt.Sprintf("http://%s/", config.Service)
		start(func() {
			a.every(ctx, config.ServiceRate, series, func(ctx context.Context, r *Request) { r.done(fetch(ctx, url)) })
		})
	}
	if config.DNS != "" {
		series := a.add("dns", config.DNSName)
		start(func() {
			a.every(ctx, config.DNSRate, series, func(ctx context.Context, r *Request) {
				r.done(lookup(ctx, config.DNS, config.DNSName))
			})
		})
	}
	start(func() { a.followPeers(ctx, loops) })
	return nil
}

// followPeers measures to every peer DIR/peers.json names (node to address), and follows its changes.
func (a *Agent) followPeers(ctx context.Context, loops *sync.WaitGroup) {
	peers := map[string]*peer{}
	for {
		var wanted map[string]string
		data, err := os.ReadFile(filepath.Join(a.dir, "peers.json"))
		if err == nil && json.Unmarshal(data, &wanted) == nil {
			for name, address := range wanted {
				known := peers[name]
				if known == nil {
					known = newPeer(a, name)
					peers[name] = known
					known.udp.moved(address)
					known.tcp.moved(address)
					for _, run := range []func(){
						func() { a.every(ctx, a.config.Pod.UDPRate, known.udp.series, known.udp.send) },
						func() { a.every(ctx, a.config.Pod.TCPRate, known.tcp.series, known.tcp.send) },
					} {
						loops.Add(1)
						go func() { defer loops.Done(); run() }()
					}
				}
				known.udp.moved(address)
				known.tcp.moved(address)
			}
		}
		if !sleepUntil(ctx, time.Now().Add(time.Second)) {
			return
		}
	}
}

// peer is the agent in the pod of another node, and the two connections to it.
type peer struct {
	udp, tcp link
}

// link is a connection to a peer that is made again when it breaks.
type link struct {
	network string
	limit   time.Duration
	series  *Series

	mu      sync.Mutex
	address string
	held    *exchange
	dialing chan struct{}
	failure error
	made    bool
}

func newPeer(a *Agent, name string) *peer {
	return &peer{
		udp: link{network: "udp", limit: udpTimeout, series: a.add("pod-udp", name)},
		tcp: link{network: "tcp", limit: requestTimeout, series: a.add("pod-tcp", name)},
	}
}

// moved drops a connection to an address the peer does not have any more.
func (l *link) moved(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.address != address && l.held != nil {
		l.held.close()
		l.held = nil
	}
	l.address = address
}

func (l *link) send(ctx context.Context, request *Request) {
	conn, err := l.connect(ctx, request)
	if err != nil {
		request.done(err)
		return
	}
	conn.ask(request, l.limit)
}

// connect returns the connection; where there is none, the first to ask makes one and the others share its outcome.
func (l *link) connect(ctx context.Context, request *Request) (*exchange, error) {
	l.mu.Lock()
	if l.held != nil && !l.held.broken() {
		defer l.mu.Unlock()
		return l.held, nil
	}
	if waiting := l.dialing; waiting != nil {
		l.mu.Unlock()
		<-waiting
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.held, l.failure
	}
	done, address := make(chan struct{}), l.address
	l.dialing = done
	l.mu.Unlock()
	dialer := net.Dialer{Timeout: udpTimeout}
	conn, err := dialer.DialContext(ctx, l.network, net.JoinHostPort(address, fmt.Sprint(echoPort)))
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(done)
	l.held, l.failure, l.dialing = nil, err, nil
	if err != nil {
		return nil, err
	}
	if l.made {
		request.reconnected()
	}
	l.held, l.made = newExchange(conn, l.network == "udp"), true
	return l.held, nil
}

// exchange numbers messages on one connection and waits for their echoes.
type exchange struct {
	conn     net.Conn
	datagram bool

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan error
	refused time.Time
	failed  error
}

func newExchange(conn net.Conn, datagram bool) *exchange {
	link := &exchange{conn: conn, datagram: datagram, waiting: map[uint64]chan error{}}
	go link.receive()
	return link
}

func (e *exchange) ask(request *Request, limit time.Duration) {
	answer := make(chan error, 1)
	e.mu.Lock()
	if e.failed != nil {
		err := e.failed
		e.mu.Unlock()
		request.done(err)
		return
	}
	number := e.next
	e.next++
	e.waiting[number] = answer
	var message [8]byte
	binary.BigEndian.PutUint64(message[:], number)
	_ = e.conn.SetWriteDeadline(time.Now().Add(limit))
	_, err := e.conn.Write(message[:])
	e.mu.Unlock()
	defer e.forget(number)
	if err != nil {
		if !e.datagram {
			e.fail(err)
		}
		request.done(err)
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-answer:
		request.done(err)
	case <-timer.C:
		switch {
		case e.wasRefused(limit):
			request.lost(causeRefused, "the port is closed")
		case e.datagram:
			request.lost(causeLost, fmt.Sprintf("no echo within %s", limit))
		default:
			request.lost(causeLate, fmt.Sprintf("no echo within %s", limit))
		}
	}
}

func (e *exchange) receive() {
	for {
		var message [8]byte
		var err error
		if e.datagram {
			_, err = e.conn.Read(message[:])
		} else {
			_, err = io.ReadFull(e.conn, message[:])
		}
		if err != nil && e.datagram && causeOf(err) == causeRefused {
			e.mu.Lock()
			e.refused = time.Now()
			e.mu.Unlock()
			continue
		}
		if err != nil {
			e.fail(err)
			return
		}
		e.mu.Lock()
		if answer := e.waiting[binary.BigEndian.Uint64(message[:])]; answer != nil {
			select {
			case answer <- nil:
			default:
			}
		}
		e.mu.Unlock()
	}
}

// fail ends the connection; everything that waits for an echo on it fails with this cause.
func (e *exchange) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed == nil {
		e.failed = err
	}
	for _, answer := range e.waiting {
		select {
		case answer <- e.failed:
		default:
		}
	}
	e.conn.Close()
}

func (e *exchange) close() { e.fail(net.ErrClosed) }

func (e *exchange) broken() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed != nil
}

func (e *exchange) wasRefused(within time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.refused.IsZero() && time.Since(e.refused) < within+udpTimeout
}

func (e *exchange) forget(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, number)
}

// fetch asks an HTTP server once, on a connection of its own.
func fetch(ctx context.Context, url string) error {
	limited, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(limited, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return &statusError{code: response.StatusCode}
	}
	return nil
}

// echo answers UDP and TCP messages with themselves until the context ends.
func echo(ctx context.Context) error {
	packets, err := net.ListenPacket("udp", fmt.Sprintf(":%d", echoPort))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", echoPort))
	if err != nil {
		packets.Close()
		return err
	}
	go func() {
		buffer := make([]byte, 64)
		for {
			count, from, err := packets.ReadFrom(buffer)
			if err != nil && ctx.Err() != nil {
				return
			}
			if err == nil {
				_, _ = packets.WriteTo(buffer[:count], from)
			}
		}
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); _, _ = io.Copy(conn, conn) }()
		}
	}()
	context.AfterFunc(ctx, func() { packets.Close(); listener.Close() })
	return nil
}

// serve is a replica of the probed service. Asked to end, it finishes what it is at.
func serve(ctx context.Context) error {
	name, _ := os.Hostname()
	server := &http.Server{
		Addr: fmt.Sprintf(":%d", httpPort),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, name)
		}),
		ReadHeaderTimeout: requestTimeout,
	}
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		limited, stop := context.WithTimeout(context.Background(), requestTimeout)
		defer stop()
		return server.Shutdown(limited)
	}
}
