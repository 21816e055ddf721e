package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	recordFormat   = 1
	recordEvery    = time.Second
	requestTimeout = 5 * time.Second
)

// Config is what kubexm asks an agent to measure.
type Config struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Unattended float64    `json:"unattended"`
	API        *APIConfig `json:"api"`
	Pod        *PodConfig `json:"pod"`
}

// Record is what an agent measured; written whole once a second.
type Record struct {
	Format  int            `json:"format"`
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	State   string         `json:"state"`
	Reason  string         `json:"reason,omitempty"`
	Started float64        `json:"started"`
	Updated float64        `json:"updated"`
	Address string         `json:"address,omitempty"`
	Series  []SeriesRecord `json:"series"`
	Writes  *WritesRecord  `json:"writes,omitempty"`
	Watch   *WatchRecord   `json:"watch,omitempty"`
	Nodes   []NodeRecord   `json:"nodes,omitempty"`
}

// Agent measures until it is told to stop, and keeps a record in its directory.
type Agent struct {
	dir      string
	config   Config
	started  time.Time
	requests context.Context
	flying   sync.WaitGroup
	phase    atomic.Value
	offsets  atomic.Int64

	mu     sync.Mutex
	series []*Series
	writes *Writes
	nodes  *Nodes
}

// runAgent measures what DIR/config.json asks for. It ends when the context does, or when nobody has touched
// DIR/heartbeat for the configured time: whoever started it is gone then.
func runAgent(ctx context.Context, dir string) error {
	agent := &Agent{dir: dir, started: time.Now()}
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &agent.config); err != nil {
		return fmt.Errorf("%s/config.json: %w", dir, err)
	}
	agent.phase.Store("run")
	agent.readPhase()
	requests, stopRequests := context.WithCancel(context.Background())
	defer stopRequests()
	agent.requests = requests
	measuring, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var loops sync.WaitGroup
	if agent.config.API != nil {
		if err := agent.startAPI(measuring, &loops); err != nil {
			return err
		}
	}
	if agent.config.Pod != nil {
		if err := agent.startPod(measuring, &loops); err != nil {
			return err
		}
	}
	reason := agent.watchOver(measuring, stop)
	stop(nil)
	loops.Wait()
	for _, each := range agent.series {
		each.end()
	}
	waitAtMost(&agent.flying, requestTimeout+time.Second)
	if agent.writes != nil {
		agent.writes.finish()
	}
	return agent.write("ended", reason)
}

// watchOver writes the record once a second until the measuring ends; it returns why it did.
func (a *Agent) watchOver(ctx context.Context, stop context.CancelCauseFunc) string {
	ticker := time.NewTicker(recordEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return "stopped"
		case <-ticker.C:
			a.readPhase()
			if err := a.write("running", ""); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			if a.unattended() {
				stop(nil)
				return "nobody asked for its record any more"
			}
		}
	}
}

func (a *Agent) unattended() bool {
	if a.config.Unattended <= 0 {
		return false
	}
	limit := time.Duration(a.config.Unattended * float64(time.Second))
	info, err := os.Stat(filepath.Join(a.dir, "heartbeat"))
	if err != nil {
		return time.Since(a.started) > limit
	}
	return time.Since(info.ModTime()) > limit
}

// Phase is the part of the measurement that requests sent now belong to.
func (a *Agent) Phase() string { return a.phase.Load().(string) }

func (a *Agent) readPhase() {
	data, err := os.ReadFile(filepath.Join(a.dir, "phase"))
	if name := strings.TrimSpace(string(data)); err == nil && name != "" {
		a.phase.Store(name)
	}
}

func (a *Agent) add(name, target string) *Series {
	series := newSeries(name, target)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.series = append(a.series, series)
	return series
}

// offset spreads the series of one agent over an interval.
func (a *Agent) offset(interval time.Duration) time.Duration {
	return interval * time.Duration(a.offsets.Add(1)%8) / 8
}

func (a *Agent) write(state, reason string) error {
	record := Record{
		Format: recordFormat, ID: a.config.ID, Name: a.config.Name, State: state, Reason: reason,
		Started: unix(a.started), Updated: unix(time.Now()), Address: os.Getenv("POD_IP"), Series: []SeriesRecord{},
	}
	a.mu.Lock()
	series := append([]*Series{}, a.series...)
	a.mu.Unlock()
	for _, each := range series {
		record.Series = append(record.Series, each.snapshot())
	}
	if a.writes != nil {
		record.Writes, record.Watch = a.writes.records()
	}
	if a.nodes != nil {
		record.Nodes = a.nodes.records()
	}
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	temporary := filepath.Join(a.dir, ".record.json")
	if err := os.WriteFile(temporary, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(a.dir, "record.json"))
}

func waitAtMost(group *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}
