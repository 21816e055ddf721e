package main

import (
	"context"
	"sort"
	"sync"
	"time"
)

// NodeRecord says how often and for how long a node was not Ready.
type NodeRecord struct {
	Name     string  `json:"name"`
	Ready    bool    `json:"ready"`
	Flaps    int     `json:"flaps"`
	NotReady float64 `json:"not_ready_seconds"`
}

type node struct {
	ready bool
	flaps int
	total time.Duration
	since time.Time
}

// Nodes follows the Ready condition of all nodes.
type Nodes struct {
	client *Client
	now    func() time.Time

	mu    sync.Mutex
	nodes map[string]*node
}

func newNodes(client *Client) *Nodes {
	return &Nodes{client: client, now: time.Now, nodes: map[string]*node{}}
}

func (n *Nodes) watchUntil(ctx context.Context) {
	for version := ""; ctx.Err() == nil; sleepUntil(ctx, time.Now().Add(200*time.Millisecond)) {
		_ = watchObjects(ctx, n.client, "/api/v1/nodes", "", &version, n.observed, func() {})
	}
}

func (n *Nodes) observed(kind string, item object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := item.Metadata.Name
	if kind == "DELETED" {
		delete(n.nodes, name)
		return
	}
	ready := false
	for _, condition := range item.Status.Conditions {
		ready = ready || (condition.Type == "Ready" && condition.Status == "True")
	}
	known := n.nodes[name]
	if known == nil {
		n.nodes[name] = &node{ready: ready, since: n.now()}
		return
	}
	if known.ready == ready {
		return
	}
	if ready {
		known.total += n.now().Sub(known.since)
	} else {
		known.flaps++
	}
	known.ready, known.since = ready, n.now()
}

func (n *Nodes) records() []NodeRecord {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := []NodeRecord{}
	for name, each := range n.nodes {
		total := each.total
		if !each.ready {
			total += n.now().Sub(each.since)
		}
		found = append(found, NodeRecord{Name: name, Ready: each.ready, Flaps: each.flaps, NotReady: total.Seconds()})
	}
	sort.Slice(found, func(a, b int) bool { return found[a].Name < found[b].Name })
	return found
}
