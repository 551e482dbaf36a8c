package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/triskele/triskele/services/agents/internal/render"
)

// reportEvery is the interval of progress lines without a bar.
const reportEvery = 5 * time.Second

// progress reports a transfer on standard error: a bar on a terminal, else a line now and then.
type progress struct {
	env  *Env
	bar  *progressbar.ProgressBar // nil if there is no terminal
	last time.Time
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
	p := &progress{env: env, last: env.Now()}
	if file, ok := env.Err.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions64(size, append(options, progressbar.OptionSetWriter(file), progressbar.OptionSetDescription(what),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())...)
	}
	return p
}

// counted reports that done of total are finished since begun.
func (p *progress) counted(begun time.Time, done, total int64) {
	if p.bar != nil {
		p.bar.ChangeMax64(total)
		_ = p.bar.Set64(done)
		return
	}
	text := fmt.Sprintf("%d of %d memories", done, total)
	if spent := p.env.Now().Sub(begun); done > 0 && spent > 0 {
		text += fmt.Sprintf(", %.0f a second, %s left", float64(done)/spent.Seconds(), render.Duration(time.Duration(float64(spent)/float64(done)*float64(total-done))))
	}
	p.tell(text)
}

// moved adds to the transfer's position.
func (p *progress) moved(bytes int) {
	if p.bar != nil {
		_ = p.bar.Add(bytes) // drawing errors do not stop the transfer
	}
}

// reached sets the transfer's position.
func (p *progress) reached(done int64) {
	if p.bar != nil {
		_ = p.bar.Set64(done)
	}
}

// stored reports the memories stored so far.
func (p *progress) stored(memories int64) { p.tell(fmt.Sprintf("%d memories", memories)) }

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

// done removes the bar.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
