package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// APIConfig says how the API is reached and what is asked of it.
type APIConfig struct {
	Targets   []Target   `json:"targets"`
	CA        string     `json:"ca"`
	Namespace string     `json:"namespace"`
	Object    string     `json:"object"`
	Rate      float64    `json:"rate"`
	WriteRate float64    `json:"write_rate"`
	PodStart  *PodStarts `json:"pod_start"`
}

// Target is one way to the API. The first one is also used for writes and watches.
type Target struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Client talks to the API at one address, with the token in DIR/token, which may be replaced while it runs.
type Client struct {
	url       string
	token     *Token
	http      *http.Client
	connected atomic.Bool
}

func (a *Agent) startAPI(ctx context.Context, loops *sync.WaitGroup) error {
	config := a.config.API
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(config.CA)) {
		return errors.New("config.json has no certificate of the API's CA")
	}
	if len(config.Targets) == 0 {
		return errors.New("config.json names no way to the API")
	}
	token := &Token{path: filepath.Join(a.dir, "token")}
	path := fmt.Sprintf("/api/v1/namespaces/%s/configmaps/%s", config.Namespace, config.Object)
	start := func(run func()) {
		loops.Add(1)
		go func() { defer loops.Done(); run() }()
	}
	for _, target := range config.Targets {
		fresh, kept := a.add("api-new", target.Name), a.add("api-kept", target.Name)
		start(func() {
			a.every(ctx, config.Rate, fresh, func(ctx context.Context, request *Request) {
				transport := newTransport(pool, false)
				defer transport.CloseIdleConnections()
				client := &Client{url: target.URL, token: token, http: &http.Client{Transport: transport}}
				client.probe(ctx, request, path)
			})
		})
		shared := &Client{url: target.URL, token: token, http: &http.Client{Transport: newTransport(pool, true)}}
		start(func() {
			a.every(ctx, config.Rate, kept, func(ctx context.Context, request *Request) { shared.probe(ctx, request, path) })
		})
	}
	first := config.Targets[0]
	primary := func() *Client {
		return &Client{url: first.URL, token: token, http: &http.Client{Transport: newTransport(pool, true)}}
	}
	a.writes = newWrites(a, primary(), primary(), config.Namespace)
	start(func() { a.every(ctx, config.WriteRate, a.writes.series, a.writes.write) })
	start(func() { a.writes.verifyUntil(ctx) })
	go a.writes.watchUntil(a.requests)
	a.nodes = newNodes(primary())
	start(func() { a.nodes.watchUntil(ctx) })
	if config.PodStart != nil {
		starts := &podStarting{client: primary(), config: *config.PodStart, namespace: config.Namespace}
		starts.series = a.add("pod-start", first.Name)
		start(func() { a.every(ctx, 1/config.PodStart.Every, starts.series, starts.start) })
	}
	return nil
}

// newTransport makes connections as Kubernetes' own clients do: HTTP/2 where they are kept, checked by pings.
func newTransport(pool *x509.CertPool, keep bool) *http.Transport {
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		DialContext:         (&net.Dialer{Timeout: requestTimeout}).DialContext,
		TLSHandshakeTimeout: requestTimeout,
		DisableKeepAlives:   !keep,
		ForceAttemptHTTP2:   keep,
	}
	if keep {
		transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	}
	return transport
}

// probe reads one object and counts how that ended.
func (c *Client) probe(ctx context.Context, request *Request, path string) {
	limited, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	connections := 0
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			connections++
			if !info.Reused && c.connected.Swap(true) {
				request.reconnected()
			}
		},
	})
	_, err := c.call(traced, http.MethodGet, path, nil, http.StatusOK)
	if connections > 1 {
		request.retried()
	}
	request.done(err)
}

// call sends a request and returns its body; statusError if the answer has none of the wanted codes.
func (c *Client) call(ctx context.Context, method, path string, body any, wanted ...int) ([]byte, error) {
	response, err := c.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	for _, code := range wanted {
		if response.StatusCode == code {
			return data, nil
		}
	}
	return data, &statusError{code: response.StatusCode, text: brief(data)}
}

func (c *Client) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
	if err != nil {
		return nil, err
	}
	token, err := c.token.read()
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("User-Agent", "kubexm-probe")
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return c.http.Do(request)
}

// brief is the message of an API error, or the beginning of whatever it is.
func brief(data []byte) string {
	var status struct{ Message string }
	if json.Unmarshal(data, &status) == nil && status.Message != "" {
		return clip(status.Message)
	}
	return clip(strings.TrimSpace(string(data)))
}

func clip(text string) string {
	if len(text) > 200 {
		return text[:200]
	}
	return text
}

// Token is a bearer token in a file, read again when the file changes.
type Token struct {
	path string

	mu       sync.Mutex
	value    string
	modified time.Time
	checked  time.Time
}

func (t *Token) read() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value != "" && time.Since(t.checked) < time.Second {
		return t.value, nil
	}
	info, err := os.Stat(t.path)
	if err != nil {
		return "", err
	}
	if t.value == "" || !info.ModTime().Equal(t.modified) {
		data, err := os.ReadFile(t.path)
		if err != nil {
			return "", err
		}
		t.value, t.modified = strings.TrimSpace(string(data)), info.ModTime()
	}
	t.checked = time.Now()
	return t.value, nil
}
