package proxy

import (
	"net/netip"
	"time"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/ledger"
)

// record writes the call into the ledger. A call that led to no function is nobody's, and has no record.
func (c *call) record(took time.Duration) {
	g := c.gateway
	if !g.Ledger.On() || c.route == nil || c.spec.NamespaceUID == "" {
		return
	}
	r := ledger.Record{
		Started: c.began, Duration: took, ID: c.id,
		Namespace: c.route.Namespace, NamespaceUID: c.spec.NamespaceUID, Function: c.route.Name, Kind: ledger.HTTP, Trigger: c.spec.Trigger,
		Image: c.spec.Image, CodeHash: c.spec.CodeHash,
		Status: c.recorder.status, Code: c.code(),
		Queued: c.phases.queued, Starting: c.phases.starting,
		BytesIn: c.body.bytes(), BytesOut: c.recorder.bytes,
		Pod: c.pod, Attempt: max(c.attempts, 1),
	}
	if !c.phases.sent.IsZero() {
		r.Handler = took - c.phases.sent.Sub(c.began)
	}
	if !c.invoke {
		client, _ := netip.ParseAddr(c.peer.client) // what is no address is nobody's
		r.Caller = g.LedgerCaller.Shorten(client)
	} else if r.Trigger = c.inbound.Header.Get(names.TriggerHeader); r.Trigger != "" {
		r.Kind = ledger.Cron
	} else {
		r.Kind = ledger.Invoke
	}
	g.Ledger.Write(&r)
}
