package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ask sends one probe to a TLS server on a new or a kept connection and returns what was counted.
func ask(t *testing.T, client *Client, limit time.Duration) Stats {
	t.Helper()
	series := newSeries("api", "test")
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	client.probe(ctx, series.send("run", 0), "/object")
	return series.snapshot().Phases["run"]
}

func clientOf(t *testing.T, server *httptest.Server, url string) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return &Client{url: url, token: &Token{path: path}, http: &http.Client{Transport: newTransport(pool, true)}}
}

func TestEveryMissHasItsCause(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer secret":
		default:
			t.Error("the token was not sent")
		}
		switch r.URL.Path {
		case "/hang/object":
			<-hang
		case "/cut/object":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		default:
			var code int
			fmt.Sscanf(r.URL.Path, "/%d/object", &code)
			w.WriteHeader(code)
			fmt.Fprint(w, `{"message": "said the server"}`)
		}
	}))
	defer server.Close()
	defer close(hang) // before the server, which waits for its handlers
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := gone.Addr().String()
	gone.Close()
	for url, cause := range map[string]string{
		server.URL + "/401":  causeUnauthorized,
		server.URL + "/403":  causeForbidden,
		server.URL + "/404":  causeClient,
		server.URL + "/429":  causeClient,
		server.URL + "/500":  causeServer,
		server.URL + "/503":  causeServer,
		server.URL + "/hang": causeLate,
		server.URL + "/cut":  causeEOF,
		"https://" + closed:  causeRefused,
	} {
		limit := 20 * time.Second
		if cause == causeLate {
			limit = 300 * time.Millisecond
		}
		stats := ask(t, clientOf(t, server, url), limit)
		if stats.OK != 0 || len(stats.Misses) != 1 || stats.Misses[cause] != 1 || len(stats.Recent) != 1 {
			t.Errorf("%s: expected one %q, got %+v", url, cause, stats)
		}
	}
	stats := ask(t, clientOf(t, server, server.URL+"/200"), 20*time.Second)
	if stats.OK != 1 || len(stats.Misses) != 0 {
		t.Errorf("expected one answer, got %+v", stats)
	}
}

func TestAResetIsNotAnEnd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.(*net.TCPConn).SetLinger(0) // closing sends a reset
			conn.Close()
		}
	}()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	stats := ask(t, clientOf(t, server, "https://"+listener.Addr().String()), 5*time.Second)
	if stats.Misses[causeReset] != 1 {
		t.Errorf("expected a reset, got %+v", stats)
	}
}

func TestAnUnknownAuthorityIsTLS(t *testing.T) {
	one, other := httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewUnstartedServer(http.NotFoundHandler())
	defer one.Close()
	other.StartTLS()
	defer other.Close()
	client := clientOf(t, one, other.URL)
	client.http.Transport = newTransport(x509.NewCertPool(), false)
	if stats := ask(t, client, 5*time.Second); stats.Misses[causeTLS] != 1 {
		t.Errorf("expected a TLS error, got %+v", stats)
	}
}

func TestARenewedTokenIsUsed(t *testing.T) {
	token := &Token{path: filepath.Join(t.TempDir(), "token")}
	for _, value := range []string{"one", "two"} {
		if err := os.WriteFile(token.path, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		changed := time.Now().Add(time.Duration(len(value)+int(value[0])) * time.Minute)
		if err := os.Chtimes(token.path, changed, changed); err != nil {
			t.Fatal(err)
		}
		token.checked = time.Time{}
		if found, err := token.read(); err != nil || found != value {
			t.Fatalf("expected %q, got %q, %v", value, found, err)
		}
	}
}

func TestGapsAreBetweenGoodAnswers(t *testing.T) {
	series := newSeries("api", "test")
	now := time.Unix(1000, 0)
	series.now = func() time.Time { return now }
	step := func(after time.Duration, err error) {
		request := series.send("run", 0)
		now = now.Add(after)
		request.done(err)
	}
	step(100*time.Millisecond, nil)
	step(400*time.Millisecond, io.EOF)
	step(500*time.Millisecond, &statusError{code: 503})
	step(1100*time.Millisecond, nil) // an answer, and a slow one
	step(100*time.Millisecond, nil)
	stats := series.snapshot().Phases["run"]
	if stats.LongestGap != 2 || stats.GapEnded != 1002.1 {
		t.Errorf("expected a gap of 2 s until 1002.1, got %+v", stats)
	}
	if stats.Sent != 5 || stats.OK != 3 || stats.Slow != 1 || stats.Misses[causeEOF] != 1 || stats.Misses[causeServer] != 1 {
		t.Errorf("miscounted: %+v", stats)
	}
	now = now.Add(3 * time.Second)
	if open := series.snapshot().Phases["run"].LongestGap; open != 3 {
		t.Errorf("a gap that is still open counts: expected 3, got %v", open)
	}
}

func TestARequestBelongsToThePhaseItWasSentIn(t *testing.T) {
	series := newSeries("api", "test")
	early := series.send("idle", 0)
	series.send("busy", time.Second).done(nil)
	early.done(io.EOF)
	phases := series.snapshot().Phases
	if phases["idle"].Misses[causeEOF] != 1 || phases["busy"].OK != 1 || phases["busy"].TicksLate != 1 {
		t.Errorf("unexpected phases: %+v", phases)
	}
	if phases["idle"].Ended > phases["busy"].Started {
		t.Errorf("a phase ends when the next begins: %+v", phases)
	}
}

func TestTimeOutsideAPhaseIsNoGap(t *testing.T) {
	series := newSeries("api", "test")
	now := time.Unix(1000, 0)
	series.now = func() time.Time { return now }
	for _, phase := range []string{"run", "busy", "run"} {
		series.send(phase, 0).done(nil)
		now = now.Add(5 * time.Second)
		series.send(phase, 0).done(nil)
	}
	series.end()
	now = now.Add(time.Minute)
	phases := series.snapshot().Phases
	if phases["run"].LongestGap != 5 || phases["busy"].LongestGap != 5 || phases["run"].Sent != 4 {
		t.Errorf("expected gaps of 5 s: %+v", phases)
	}
	if phases["run"].Ended != 1015 {
		t.Errorf("expected the end of the last phase: %+v", phases["run"])
	}
}

// fakeAPI keeps created objects, forgets those in `drop`, and streams the rest to watchers except those in `hide`.
func fakeAPI(t *testing.T, drop, hide map[string]bool) *httptest.Server {
	t.Helper()
	created := make(chan map[string]any, 1000)
	var kept []map[string]any
	lock := make(chan struct{}, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := func(item map[string]any) string { return item["data"].(map[string]any)["number"].(string) }
		switch {
		case r.Method == http.MethodPost:
			var item map[string]any
			_ = json.NewDecoder(r.Body).Decode(&item)
			if !drop[number(item)] {
				lock <- struct{}{}
				kept = append(kept, item)
				<-lock
			}
			w.WriteHeader(http.StatusCreated)
			created <- item
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			for {
				select {
				case item := <-created:
					if !hide[number(item)] {
						_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": item})
						w.(http.Flusher).Flush()
					}
				case <-r.Context().Done():
					return
				}
			}
		default:
			lock <- struct{}{}
			_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": kept})
			<-lock
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	return server
}

func TestLostWritesAndUnreportedOnesAreNamed(t *testing.T) {
	server := fakeAPI(t, map[string]bool{"3": true}, map[string]bool{"5": true})
	config := &APIConfig{Targets: []Target{{Name: "test", URL: server.URL}}, Namespace: "n"}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	agent := &Agent{config: Config{API: config}, requests: ctx}
	writes := newWrites(agent, clientOf(t, server, server.URL), clientOf(t, server, server.URL), "n")
	go writes.watchUntil(ctx)
	for range 8 {
		writes.write(ctx, writes.series.send("run", 0))
	}
	writes.finish()
	wrote, watched := writes.records()
	if wrote.Acknowledged != 8 || wrote.Verified != 8 || fmt.Sprint(wrote.Lost) != "[3]" {
		t.Errorf("expected write 3 to be lost: %+v", wrote)
	}
	if fmt.Sprint(watched.Missed) != "[5]" || watched.Events != 7 {
		t.Errorf("expected write 5 not to be reported: %+v", watched)
	}
}

func TestNodesThatFlapAreCounted(t *testing.T) {
	nodes := newNodes(nil)
	now := time.Unix(1000, 0)
	nodes.now = func() time.Time { return now }
	report := func(status string) {
		var item object
		item.Metadata.Name = "w1"
		item.Status.Conditions = append(item.Status.Conditions, struct{ Type, Status, Reason string }{"Ready", status, ""})
		nodes.observed("MODIFIED", item)
		now = now.Add(2 * time.Second)
	}
	for _, status := range []string{"True", "Unknown", "Unknown", "True", "True", "False", "True"} {
		report(status)
	}
	found := nodes.records()
	if len(found) != 1 || found[0].Flaps != 2 || found[0].NotReady != 6 || !found[0].Ready {
		t.Errorf("expected two flaps of 6 s together: %+v", found)
	}
}

func TestDNSAnswersAreJudged(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if packet := question(7, "a.bc.", 1); string(packet[12:]) != "\x01a\x02bc\x00\x00\x01\x00\x01" {
		t.Errorf("unexpected question: %q", packet)
	}
	for cause, header := range map[string][]byte{
		"":          {0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0},
		causeServer: {0, 7, 0x81, 0x82, 0, 1, 0, 0, 0, 0, 0, 0},
		causeWrong:  {0, 7, 0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0},
	} {
		if found := causeOf(judgeAnswer(header)); found != cause {
			t.Errorf("%v: expected %q, got %q", header, cause, found)
		}
	}
}

func TestEchoesThatDoNotComeAreLost(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	conn, err := net.Dial("udp", silent.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	series := newSeries("pod-udp", "w1")
	link := newExchange(conn, true)
	link.ask(series.send("run", 0), 50*time.Millisecond)
	go func() {
		buffer := make([]byte, 64)
		for {
			count, from, err := silent.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = silent.WriteTo(buffer[:count], from)
		}
	}()
	link.ask(series.send("run", 0), 5*time.Second)
	stats := series.snapshot().Phases["run"]
	if stats.OK != 1 || stats.Misses[causeLost] != 1 {
		t.Errorf("expected one lost and one echo: %+v", stats)
	}
}
