package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// Causes of a miss. The names are part of the record's format.
const (
	causeRefused      = "refused"
	causeReset        = "reset"
	causeEOF          = "eof"
	causeServer       = "5xx"
	causeClient       = "4xx"
	causeUnauthorized = "401"
	causeForbidden    = "403"
	causeLate         = "late"
	causeLost         = "lost"
	causeUnreachable  = "unreachable"
	causeTLS          = "tls"
	causeWrong        = "wrong"
	causeOther        = "other"
)

// statusError is an answer whose HTTP status is not the expected one.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d %s", e.code, e.text) }

// wrongAnswer is an answer that arrived in time and is not the expected one.
type wrongAnswer struct{ text string }

func (e *wrongAnswer) Error() string { return e.text }

// causeOf names why a request failed; empty for nil.
func causeOf(err error) string {
	if err == nil {
		return ""
	}
	var status *statusError
	if errors.As(err, &status) {
		return causeOfStatus(status.code)
	}
	var wrong *wrongAnswer
	if errors.As(err, &wrong) {
		return causeWrong
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return causeRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return causeReset
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return causeUnreachable
	}
	if isTLS(err) {
		return causeTLS
	}
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		(errors.As(err, &timeout) && timeout.Timeout()) {
		return causeLate
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return causeEOF
	}
	return causeOfText(err.Error())
}

// causeOfText reads errors whose types net/http does not export.
func causeOfText(text string) string {
	switch {
	case strings.Contains(text, "client connection lost"), strings.Contains(text, "timeout"):
		return causeLate
	case strings.Contains(text, "GOAWAY"), strings.Contains(text, "server closed"),
		strings.Contains(text, "connection force closed"), strings.Contains(text, "EOF"):
		return causeEOF
	case strings.Contains(text, "stream error"), strings.Contains(text, "connection error"),
		strings.Contains(text, "broken connection"):
		return causeReset
	}
	return causeOther
}

func causeOfStatus(code int) string {
	switch {
	case code == 401:
		return causeUnauthorized
	case code == 403:
		return causeForbidden
	case code >= 500:
		return causeServer
	case code >= 400:
		return causeClient
	}
	return causeWrong
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &verify) ||
		errors.As(err, &unknown) || errors.As(err, &host)
}
