package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

const podLimit = 60 * time.Second

// PodStarts asks for a pod every so many seconds, to see how long it takes until it runs.
type PodStarts struct {
	Every float64        `json:"every"`
	Spec  map[string]any `json:"spec"`
}

type podStarting struct {
	client    *Client
	config    PodStarts
	namespace string
	series    *Series
	number    atomic.Int64
}

// start creates a pod, waits until it runs and deletes it.
func (p *podStarting) start(ctx context.Context, request *Request) {
	limited, stop := context.WithTimeout(ctx, podLimit)
	defer stop()
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods", p.namespace)
	name := fmt.Sprintf("start-%d", p.number.Add(1))
	body := map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "labels": map[string]string{"app": "start"}},
		"spec":     p.config.Spec,
	}
	request.done(p.untilRunning(limited, path, name, body))
	cleanup, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	// What stays behind goes with the namespace.
	_, _ = p.client.call(cleanup, http.MethodDelete, path+"/"+name, nil, http.StatusOK, http.StatusAccepted)
}

func (p *podStarting) untilRunning(ctx context.Context, path, name string, body any) error {
	created := false
	var last error
	for ctx.Err() == nil {
		if !created {
			_, err := p.client.call(ctx, http.MethodPost, path, body, http.StatusCreated, http.StatusConflict)
			created, last = err == nil, err
			var status *statusError
			if errors.As(err, &status) && status.code < 500 && status.code != http.StatusTooManyRequests {
				return err
			}
		} else if data, err := p.client.call(ctx, http.MethodGet, path+"/"+name, nil, http.StatusOK); err == nil {
			var pod object
			if json.Unmarshal(data, &pod) == nil && pod.Status.Phase == "Running" {
				return nil
			}
		}
		sleepUntil(ctx, time.Now().Add(100*time.Millisecond))
	}
	if last != nil {
		return last
	}
	return ctx.Err()
}
