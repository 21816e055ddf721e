package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

// lookup asks a DNS server for a name's address, of the server's own family, with no second try: Go's own resolver asks
// again by itself, which hides what was lost.
func lookup(ctx context.Context, server, name string) error {
	limited, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	conn, err := (&net.Dialer{}).DialContext(limited, "udp", net.JoinHostPort(server, "53"))
	if err != nil {
		return err
	}
	defer conn.Close()
	kind := uint16(1)
	if ip := net.ParseIP(server); ip != nil && ip.To4() == nil {
		kind = 28
	}
	id := uint16(rand.Uint32())
	deadline, _ := limited.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write(question(id, name, kind)); err != nil {
		return err
	}
	answer := make([]byte, 1500)
	for {
		count, err := conn.Read(answer)
		if err != nil {
			return err
		}
		if count >= 12 && binary.BigEndian.Uint16(answer) == id {
			return judgeAnswer(answer[:count])
		}
		if time.Now().After(deadline) {
			return context.DeadlineExceeded
		}
	}
}

func question(id uint16, name string, kind uint16) []byte {
	packet := binary.BigEndian.AppendUint16(nil, id)
	packet = append(packet, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired, one question
	for _, label := range strings.Split(strings.TrimSuffix(name, "."), ".") {
		packet = append(packet, byte(len(label)))
		packet = append(packet, label...)
	}
	packet = append(packet, 0)
	packet = binary.BigEndian.AppendUint16(packet, kind)
	return binary.BigEndian.AppendUint16(packet, 1)
}

// judgeAnswer accepts an answer with at least one record. A server that fails (SERVFAIL) counts as 5xx, one that does
// not know the name as wrong.
func judgeAnswer(packet []byte) error {
	code := packet[3] & 0x0f
	switch {
	case code == 2:
		return &statusError{code: 500, text: "SERVFAIL"}
	case code != 0:
		return &wrongAnswer{text: fmt.Sprintf("DNS response code %d", code)}
	case binary.BigEndian.Uint16(packet[6:]) == 0:
		return &wrongAnswer{text: "no address in the answer"}
	}
	return nil
}
