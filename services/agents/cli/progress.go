package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/triskele/triskele/services/agents/internal/render"
	"github.com/triskele/triskele/services/dense"
)

const reportEvery = 5 * time.Second

// progress reports a transfer on standard error: a bar on a terminal, else a line now and then.
type progress struct {
	env         *Env
	bar         *progressbar.ProgressBar // nil if there is no terminal
	begun, last time.Time
}

// newProgress starts a transfer of size bytes or items, -1 if unknown.
func newProgress(env *Env, size int64, bytes bool, what string) *progress {
	return newBar(env, size, what, progressbar.OptionShowBytes(bytes))
}

// newCount starts a count of memories with their rate and remaining time.
func newCount(env *Env, what string) *progress {
	return newBar(env, -1, what, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("memories"),
		progressbar.OptionSetPredictTime(true))
}

func newBar(env *Env, size int64, what string, options ...progressbar.Option) *progress {
	p := &progress{env: env, begun: env.Now(), last: env.Now()}
	if file, ok := env.Err.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions64(size, append(options, progressbar.OptionSetWriter(file), progressbar.OptionSetDescription(what),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())...)
	}
	return p
}

// counted reports how many memories a change of models has done.
func (p *progress) counted(of dense.Progress) {
	switch {
	case of.Indexing:
		p.tell("indexing the vectors")
		return
	case p.bar != nil:
		p.bar.ChangeMax64(of.Total)
		_ = p.bar.Set64(of.Done)
		return
	}
	text := fmt.Sprintf("%d of %d memories", of.Done, of.Total)
	if spent := p.env.Now().Sub(p.begun); of.Done > 0 && spent > 0 {
		left := time.Duration(float64(spent) / float64(of.Done) * float64(of.Total-of.Done))
		text += fmt.Sprintf(", %.0f a second, %s left", float64(of.Done)/spent.Seconds(), render.Duration(left))
	}
	p.tell(text)
}

// reached sets the transfer's position, and reports the memories so far.
func (p *progress) reached(done, memories int64) {
	if p.bar != nil {
		_ = p.bar.Set64(done) // drawing errors do not stop the transfer
	}
	p.tell(fmt.Sprintf("%d memories", memories))
}

// tell describes the transfer, now and then if there is no bar.
func (p *progress) tell(what string) {
	now := p.env.Now()
	if p.bar == nil && now.Sub(p.last) < reportEvery {
		return
	}
	p.last = now
	if p.bar != nil {
		p.bar.Describe(what)
		return
	}
	_, _ = fmt.Fprintln(p.env.Err, what)
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
