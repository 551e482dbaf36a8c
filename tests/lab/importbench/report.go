package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// describe prints what the figures depend on.
func describe(ctx context.Context, s settings) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var server string
	if err := conn.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') || ' (fsync ' || current_setting('fsync') ||
		', synchronous_commit ' || current_setting('synchronous_commit') || ', shared_buffers ' || current_setting('shared_buffers') || ')'`).Scan(&server); err != nil {
		return err
	}
	fmt.Printf("# Importing into both stores\n\n`make bench-import`, %s. %s, %d cores, load average %s when it began; %s; %s; SQLite in WAL mode, synchronous FULL.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.GOARCH, runtime.NumCPU(), load(), runtime.Version(), server)
	fmt.Printf("A record has %d words of a vocabulary of %d, a title, two tags and metadata; one in %d is sensitive. `triskele import` sends them to `triskele up`,\n"+
		"which indexes the stored records at the same time, on the same cores, with the built-in embedder.\n", words, vocabulary, secret)
	return nil
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}

func report(measured []measurement, interrupted []interruption) {
	fmt.Printf("\n## Time\n\nThe floor is the time to write the same records, each as one text, into a bare table of the same engine, %d in a transaction.\n\n", batch)
	fmt.Println("| store | records | stored in | records/s | floor | ratio to it | not yet indexed then | searchable after | records/s |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, m := range measured {
		fmt.Printf("| %s | %d | %.1f s | %.0f | %.1f s | %.1f | %d | %.1f s | %.0f |\n", m.engine, m.records, m.took.Seconds(), float64(m.records)/m.took.Seconds(),
			m.floor.Seconds(), m.took.Seconds()/m.floor.Seconds(), m.pending, m.searchable.Seconds(), float64(m.records)/m.searchable.Seconds())
	}
	fmt.Print("\n## Memory\n\nPeaks. VmHWM includes shared memory and mapped files; SQLite maps up to 256 MiB. RssAnon is the memory of the process alone.\n" +
		"PostgreSQL's value is the sum of the RssAnon of its processes.\n\n")
	fmt.Println("| store | records | import, VmHWM | up, VmHWM | up, RssAnon | up, VmRSS once searchable | PostgreSQL |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|")
	for _, m := range measured {
		postgres := "-"
		if m.postgres > 0 {
			postgres = mib(m.postgres)
		}
		fmt.Printf("| %s | %d | %s | %s | %s | %s | %s |\n", m.engine, m.records, mib(m.client), mib(m.up), mib(m.upOwn), mib(m.resident), postgres)
	}
	fmt.Print("\n## Interrupted\n\nThe import is killed (SIGKILL) after a third of the records and run again. After two thirds, `triskele up` is killed and\n" +
		"started, and the import is run again. Then all memories are exported and counted.\n\n")
	fmt.Println("| store | records | killed after | and after | sent again | stored | of these different |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|")
	for _, b := range interrupted {
		fmt.Printf("| %s | %d | %d | %d | %d | %d | %d |\n", b.engine, b.records, b.afterClient, b.afterServer, b.unchanged, b.total, b.distinct)
	}
}

func mib(kib int64) string { return fmt.Sprintf("%d MiB", kib>>10) }
