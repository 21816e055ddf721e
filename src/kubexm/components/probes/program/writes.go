package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"sync"
	"time"
)

const (
	batchSize  = 50
	batchLabel = "kubexm.io/probe-batch"
	settleTime = 3 * time.Second
	mostLost   = 50
)

// WritesRecord says whether every acknowledged write can be read back.
type WritesRecord struct {
	Acknowledged int   `json:"acknowledged"`
	Verified     int   `json:"verified"`
	Unverified   int   `json:"unverified"`
	Lost         []int `json:"lost"`
}

// WatchRecord says whether a watch reported every acknowledged write.
type WatchRecord struct {
	Events     int            `json:"events"`
	Missed     []int          `json:"missed"`
	Reconnects int            `json:"reconnects"`
	Relists    int            `json:"relists"`
	Causes     map[string]int `json:"causes"`
	WorstDelay float64        `json:"worst_delay_ms"`
}

type write struct {
	ended    bool
	acked    bool
	ackedAt  time.Time
	observed bool
}

// Writes creates numbered objects, checks that those acknowledged are there and that a watch reported them.
type Writes struct {
	agent     *Agent
	client    *Client
	watcher   *Client
	namespace string
	series    *Series

	mu      sync.Mutex
	next    int
	pending map[int]*write
	checked map[int]bool
	record  WritesRecord
	watch   WatchRecord
}

func newWrites(agent *Agent, client, watcher *Client, namespace string) *Writes {
	return &Writes{
		agent: agent, client: client, watcher: watcher, namespace: namespace,
		series: agent.add("api-write", agent.config.API.Targets[0].Name), pending: map[int]*write{},
		checked: map[int]bool{}, record: WritesRecord{Lost: []int{}},
		watch: WatchRecord{Missed: []int{}, Causes: map[string]int{}},
	}
}

func (w *Writes) path() string { return fmt.Sprintf("/api/v1/namespaces/%s/configmaps", w.namespace) }

func (w *Writes) write(ctx context.Context, request *Request) {
	w.mu.Lock()
	number := w.next
	w.next++
	w.pending[number] = &write{}
	w.mu.Unlock()
	limited, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	body := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name":   fmt.Sprintf("write-%d", number),
			"labels": map[string]string{batchLabel: strconv.Itoa(number / batchSize)},
		},
		"data": map[string]string{"number": strconv.Itoa(number)},
	}
	_, err := w.client.call(limited, http.MethodPost, w.path(), body, http.StatusCreated)
	request.done(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	entry := w.pending[number]
	entry.ended = true
	if err == nil {
		entry.acked, entry.ackedAt = true, time.Now()
		w.record.Acknowledged++
	}
}

// verifyUntil checks and removes each batch of writes once all of them have ended.
func (w *Writes) verifyUntil(ctx context.Context) {
	for sleepUntil(ctx, time.Now().Add(2*time.Second)) {
		for _, batch := range w.complete() {
			if w.verify(w.agent.requests, batch) != nil {
				break // the API is away; it is asked again
			}
		}
	}
}

// complete lists the batches that nothing is added to any more and that have had time to be watched.
func (w *Writes) complete() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []int
	for batch := 0; (batch+1)*batchSize <= w.next; batch++ {
		ready := !w.checked[batch]
		for number := batch * batchSize; ready && number < (batch+1)*batchSize; number++ {
			entry := w.pending[number]
			ready = entry != nil && entry.ended && (!entry.acked || time.Since(entry.ackedAt) > settleTime)
		}
		if ready {
			found = append(found, batch)
		}
	}
	return found
}

func (w *Writes) verify(ctx context.Context, batch int) error {
	there, err := w.list(ctx, batch)
	if err != nil {
		return err
	}
	w.mu.Lock()
	for number := batch * batchSize; number < (batch+1)*batchSize; number++ {
		entry := w.pending[number]
		if entry == nil {
			continue
		}
		if entry.acked {
			w.record.Verified++
			if !there[number] && len(w.record.Lost) < mostLost {
				w.record.Lost = append(w.record.Lost, number)
			}
			if !entry.observed && len(w.watch.Missed) < mostLost {
				w.watch.Missed = append(w.watch.Missed, number)
			}
		}
		delete(w.pending, number)
	}
	w.checked[batch] = true
	w.mu.Unlock()
	limited, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	// What stays behind goes with the namespace.
	_, _ = w.client.call(limited, http.MethodDelete, w.path()+"?labelSelector="+selector(batch), nil, http.StatusOK)
	return nil
}

func (w *Writes) list(ctx context.Context, batch int) (map[int]bool, error) {
	limited, stop := context.WithTimeout(ctx, 2*requestTimeout)
	defer stop()
	data, err := w.client.call(limited, http.MethodGet, w.path()+"?labelSelector="+selector(batch), nil, http.StatusOK)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []object }
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	there := map[int]bool{}
	for _, item := range list.Items {
		if number, err := strconv.Atoi(item.Data["number"]); err == nil {
			there[number] = true
		}
	}
	return there, nil
}

// finish checks what was written last; writes that cannot be checked any more are counted as such.
func (w *Writes) finish() {
	deadline := time.Now().Add(2 * requestTimeout)
	for batch := 0; batch*batchSize < w.nextNumber(); batch++ {
		w.mu.Lock()
		checked := w.checked[batch]
		w.mu.Unlock()
		for !checked && time.Now().Before(deadline) {
			w.awaitWatch(batch)
			checked = w.verify(context.Background(), batch) == nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, entry := range w.pending {
		if entry.acked {
			w.record.Unverified++
		}
	}
}

func (w *Writes) nextNumber() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// awaitWatch gives the watch time to report the last writes.
func (w *Writes) awaitWatch(batch int) {
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		w.mu.Lock()
		waiting := false
		for number := batch * batchSize; number < (batch+1)*batchSize; number++ {
			entry := w.pending[number]
			waiting = waiting || (entry != nil && entry.acked && !entry.observed)
		}
		w.mu.Unlock()
		if !waiting {
			return
		}
	}
}

// watchUntil follows the writes; a watch that ends is continued from the last version it reported.
func (w *Writes) watchUntil(ctx context.Context) {
	version := ""
	opened, openings := false, 0
	for ctx.Err() == nil {
		opened = false
		err := watchObjects(ctx, w.watcher, w.path(), batchLabel, &version, w.observed, func() {
			opened = true
			openings++
			w.mu.Lock()
			w.watch.Reconnects = openings - 1
			w.mu.Unlock()
		})
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		if errors.Is(err, errGone) {
			w.watch.Relists++
		}
		if opened { // what ended it, not what kept it from being opened again
			w.watch.Causes[watchCause(err)]++
		}
		w.mu.Unlock()
		sleepUntil(ctx, time.Now().Add(100*time.Millisecond))
	}
}

func (w *Writes) observed(kind string, item object) {
	number, err := strconv.Atoi(item.Data["number"])
	if err != nil || kind == "DELETED" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	entry := w.pending[number]
	if entry == nil || entry.observed {
		return
	}
	entry.observed = true
	w.watch.Events++
	if entry.acked {
		if delay := milliseconds(time.Since(entry.ackedAt)); delay > w.watch.WorstDelay {
			w.watch.WorstDelay = delay
		}
	}
}

func (w *Writes) records() (*WritesRecord, *WatchRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes, watch := w.record, w.watch
	writes.Lost = append([]int{}, writes.Lost...)
	watch.Missed = append([]int{}, watch.Missed...)
	sort.Ints(writes.Lost)
	sort.Ints(watch.Missed)
	watch.Causes = map[string]int{}
	for cause, count := range w.watch.Causes {
		watch.Causes[cause] = count
	}
	return &writes, &watch
}

func selector(batch int) string { return url.QueryEscape(fmt.Sprintf("%s=%d", batchLabel, batch)) }

type object struct {
	Metadata struct {
		Name            string
		ResourceVersion string
	}
	Data   map[string]string
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status, Reason string }
	}
	Code    int
	Message string
}

var errGone = errors.New("the watched version is gone")

// watchObjects lists where there is no version to continue from, then watches until the stream ends, and says why.
func watchObjects(
	ctx context.Context, client *Client, path, label string, version *string, report func(string, object), opened func(),
) error {
	query := url.Values{}
	if label != "" {
		query.Set("labelSelector", label)
	}
	if *version == "" {
		limited, stop := context.WithTimeout(ctx, 2*requestTimeout)
		data, err := client.call(limited, http.MethodGet, path+"?"+query.Encode(), nil, http.StatusOK)
		stop()
		if err != nil {
			return err
		}
		var list struct {
			Metadata struct{ ResourceVersion string }
			Items    []object
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, item := range list.Items {
			report("LISTED", item)
		}
		*version = list.Metadata.ResourceVersion
	}
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", *version)
	response, err := client.open(ctx, http.MethodGet, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusGone {
		*version = ""
		return errGone
	}
	if response.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return &statusError{code: response.StatusCode, text: brief(data)}
	}
	opened()
	for decoder := json.NewDecoder(response.Body); ; {
		var event struct {
			Type   string
			Object object
		}
		if err := decoder.Decode(&event); err != nil {
			return err
		}
		if event.Type == "ERROR" {
			if event.Object.Code == http.StatusGone {
				*version = ""
				return errGone
			}
			return &statusError{code: event.Object.Code, text: event.Object.Message}
		}
		if event.Object.Metadata.ResourceVersion != "" {
			*version = event.Object.Metadata.ResourceVersion
		}
		if event.Type != "BOOKMARK" {
			report(event.Type, event.Object)
		}
	}
}

// watchCause names why a watch ended: servers end them in order, which is no fault.
func watchCause(err error) string {
	switch {
	case errors.Is(err, errGone):
		return "gone"
	case errors.Is(err, io.EOF):
		return "ended"
	}
	return causeOf(err)
}
