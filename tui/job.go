package tui

import (
	"context"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"fitout/tui/pages"
)

// job is work with the engine that the operator waits for. It runs as a
// command; Update never waits.
type job struct {
	id      int
	label   string
	cancel  context.CancelFunc
	began   time.Time
	spent   time.Duration
	visible bool
	done    atomic.Int64
	total   atomic.Int64
}

// jobDone is the end of a job; jobTick shows it and counts its time.
type (
	jobDone struct {
		id  int
		msg tea.Msg
	}
	jobTick struct{ id int }
)

// start begins a job. One runs at a time; the page on top gets its message.
func (m *model) start(w pages.Work) tea.Cmd {
	if m.job != nil {
		m.job.cancel()
	}
	ctx, cancel := context.WithCancel(m.c.Context)
	m.jobs++
	j := &job{id: m.jobs, label: w.Label, cancel: cancel, began: m.c.Now()}
	m.job = j
	run := func() tea.Msg {
		msg := w.Do(ctx, func(done, total int64) {
			j.done.Store(done)
			j.total.Store(total)
		})
		return jobDone{j.id, msg}
	}
	return tea.Batch(run, m.c.After(busyAfter, jobTick{j.id}))
}

// finished passes the message on, unless the job was given up.
func (m *model) finished(d jobDone) tea.Cmd {
	if m.job == nil || m.job.id != d.id {
		return nil
	}
	m.job.cancel()
	m.job = nil
	_, cmd := m.Update(d.msg)
	return cmd
}

// beat shows the job, and its time once a second.
func (m *model) beat(t jobTick) tea.Cmd {
	if m.job == nil || m.job.id != t.id {
		return nil
	}
	m.job.visible = true
	m.job.spent = m.c.Now().Sub(m.job.began)
	return m.c.After(busyBeat, t)
}
