package main

import (
	"context"
	"math"
	"sync"
	"time"
)

const (
	slowAfter  = time.Second
	tickLate   = 200 * time.Millisecond
	mostMisses = 20
)

var latencySteps = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}

// Miss is one request without the expected answer.
type Miss struct {
	Time   float64 `json:"time"`
	Cause  string  `json:"cause"`
	Detail string  `json:"detail,omitempty"`
}

// Stats is what one series measured in one phase.
type Stats struct {
	Started    float64        `json:"started"`
	Ended      float64        `json:"ended"`
	Sent       int            `json:"sent"`
	OK         int            `json:"ok"`
	Slow       int            `json:"slow"`
	Retried    int            `json:"retried"`
	Reconnects int            `json:"reconnects"`
	Misses     map[string]int `json:"misses"`
	LongestGap float64        `json:"longest_gap"`
	GapEnded   float64        `json:"gap_ended"`
	P50        float64        `json:"p50_ms"`
	P99        float64        `json:"p99_ms"`
	Worst      float64        `json:"worst_ms"`
	TicksLate  int            `json:"ticks_late"`
	TickWorst  float64        `json:"tick_worst_ms"`
	Recent     []Miss         `json:"recent"`

	lastOK  time.Time
	buckets []int
	closed  bool
}

// Series is one kind of request to one target.
type Series struct {
	Name   string
	Target string

	mu      sync.Mutex
	phases  map[string]*Stats
	current *Stats
	now     func() time.Time
}

func newSeries(name, target string) *Series {
	return &Series{Name: name, Target: target, phases: map[string]*Stats{}, now: time.Now}
}

// Request is one request that was sent and has not ended.
type Request struct {
	series *Series
	stats  *Stats
	sent   time.Time
}

// send counts a request of this phase; `late` is how far behind its schedule the prober itself was.
func (s *Series) send(phase string, late time.Duration) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	stats := s.phase(phase, now)
	stats.Sent++
	if late > tickLate {
		stats.TicksLate++
	}
	stats.TickWorst = math.Max(stats.TickWorst, milliseconds(late))
	return &Request{series: s, stats: stats, sent: now}
}

// phase returns the statistics of a phase and makes it the current one; only that one's gap grows with time.
func (s *Series) phase(name string, now time.Time) *Stats {
	stats := s.phases[name]
	if stats == nil {
		stats = &Stats{
			Started: unix(now), Misses: map[string]int{}, Recent: []Miss{}, buckets: make([]int, len(latencySteps)+1),
			closed: true,
		}
		s.phases[name] = stats
	}
	if stats != s.current {
		if s.current != nil {
			s.current.close(now)
		}
		stats.closed, stats.lastOK = false, now
		s.current = stats
	}
	return stats
}

// end closes the current phase: nothing is sent any more.
func (s *Series) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.close(s.now())
		s.current = nil
	}
}

func (r *Request) done(err error) {
	r.series.mu.Lock()
	defer r.series.mu.Unlock()
	now := r.series.now()
	if err != nil {
		r.stats.miss(now, causeOf(err), err.Error())
		return
	}
	r.stats.answered(now, now.Sub(r.sent))
}

func (r *Request) lost(cause, detail string) {
	r.series.mu.Lock()
	defer r.series.mu.Unlock()
	r.stats.miss(r.series.now(), cause, detail)
}

func (r *Request) retried() {
	r.series.mu.Lock()
	defer r.series.mu.Unlock()
	r.stats.Retried++
}

func (r *Request) reconnected() {
	r.series.mu.Lock()
	defer r.series.mu.Unlock()
	r.stats.Reconnects++
}

func (s *Stats) answered(now time.Time, took time.Duration) {
	s.OK++
	if took > slowAfter {
		s.Slow++
	}
	ms := milliseconds(took)
	s.Worst = math.Max(s.Worst, ms)
	s.buckets[bucketOf(ms)]++
	if !s.closed {
		s.gap(now)
		s.lastOK = now
	}
}

func (s *Stats) miss(now time.Time, cause, detail string) {
	s.Misses[cause]++
	if len(s.Recent) < mostMisses {
		s.Recent = append(s.Recent, Miss{Time: unix(now), Cause: cause, Detail: detail})
	}
}

// gap notes how long there has been no good answer.
func (s *Stats) gap(now time.Time) {
	if open := now.Sub(s.lastOK).Seconds(); open > s.LongestGap {
		s.LongestGap, s.GapEnded = open, unix(now)
	}
}

func (s *Stats) close(now time.Time) {
	if !s.closed {
		s.closed = true
		s.Ended = unix(now)
		s.gap(now)
	}
}

// SeriesRecord is a series as the record file holds it.
type SeriesRecord struct {
	Name   string           `json:"name"`
	Target string           `json:"target"`
	Phases map[string]Stats `json:"phases"`
}

// snapshot copies what was measured so far.
func (s *Series) snapshot() SeriesRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	found := SeriesRecord{Name: s.Name, Target: s.Target, Phases: map[string]Stats{}}
	for name, stats := range s.phases {
		copied := *stats
		if !copied.closed {
			copied.gap(now)
			copied.Ended = unix(now)
		}
		copied.Misses = map[string]int{}
		for cause, count := range stats.Misses {
			copied.Misses[cause] = count
		}
		copied.Recent = append([]Miss{}, stats.Recent...)
		copied.P50, copied.P99 = quantile(stats.buckets, 0.5), quantile(stats.buckets, 0.99)
		found.Phases[name] = copied
	}
	return found
}

// every sends on schedule whatever becomes of what was sent before (open loop), until the context ends.
func (a *Agent) every(ctx context.Context, rate float64, series *Series, send func(context.Context, *Request)) {
	interval := time.Duration(float64(time.Second) / rate)
	start := time.Now().Add(a.offset(interval))
	for n := 0; ; n++ {
		due := start.Add(time.Duration(n) * interval)
		if !sleepUntil(ctx, due) {
			return
		}
		request := series.send(a.Phase(), time.Since(due))
		a.flying.Add(1)
		go func() {
			defer a.flying.Done()
			send(a.requests, request)
		}()
	}
}

func sleepUntil(ctx context.Context, due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

func bucketOf(ms float64) int {
	for index, limit := range latencySteps {
		if ms <= limit {
			return index
		}
	}
	return len(latencySteps)
}

// quantile gives the upper bound of the bucket the quantile is in; 0 if there is nothing.
func quantile(buckets []int, q float64) float64 {
	total := 0
	for _, count := range buckets {
		total += count
	}
	if total == 0 {
		return 0
	}
	wanted, seen := int(math.Ceil(q*float64(total))), 0
	for index, count := range buckets {
		seen += count
		if seen >= wanted && index < len(latencySteps) {
			return latencySteps[index]
		}
	}
	return latencySteps[len(latencySteps)-1]
}

func unix(t time.Time) float64 { return math.Round(float64(t.UnixMicro())/1000) / 1000 }

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d.Microseconds())/10) / 100
}
