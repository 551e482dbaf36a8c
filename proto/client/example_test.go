package client_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/triskele/triskele/proto/client"
	"github.com/triskele/triskele/proto/client/clienttest"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
)

// A gateway on this machine needs an address only.
func ExampleDial() {
	c, err := client.Dial("127.0.0.1:7400")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()
}

// A gateway elsewhere has a certificate, and wants a token.
func ExampleDial_elsewhere() {
	c, err := client.Dial("dns:///memory.example.com:443", client.WithTLS(&tls.Config{}), client.WithToken(os.Getenv("TRISKELE_TOKEN")))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()
}

// What is found comes best first, and the answer says if something is missing from it.
func ExampleClient_Recall() {
	c, stop := clienttest.Start(
		&triskelev1.Memory{Namespace: "team", Content: "Deploys are frozen from Thursday noon."},
		&triskelev1.Memory{Namespace: "team", Content: "The harbour crane is serviced every spring."},
	)
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the budget: legs that need longer are left out
	defer cancel()
	resp, err := c.Recall(ctx, "team", "are deploys frozen on Friday?", func(r *triskelev1.RecallRequest) { r.Limit = proto.Int32(3) })
	if err != nil {
		log.Fatal(err)
	}
	for _, hit := range resp.GetHits() {
		fmt.Println(hit.GetRank(), hit.GetMemory().GetContent())
	}
	if resp.GetDegraded() {
		fmt.Println(resp.GetDegradedReason())
	}
	// Output: 1 Deploys are frozen from Thursday noon.
}

// An agent recalls before each turn and remembers after it. A chat model would take the place of the last function.
func Example_agent() {
	c, stop := clienttest.Start(&triskelev1.Memory{Namespace: "team", Content: "Deploys are frozen from Thursday noon."})
	defer stop()

	turn := func(ctx context.Context, prompt string, model func(known []string, prompt string) string) (string, error) {
		recalling, cancel := context.WithTimeout(ctx, 500*time.Millisecond) // the budget
		defer cancel()
		var known []string // stays empty without a gateway: better an answer without memories than none
		if resp, err := c.Recall(recalling, "team", prompt); err == nil {
			for _, hit := range resp.GetHits() {
				known = append(known, hit.GetMemory().GetContent())
			}
		}
		answer := model(known, prompt)
		_, err := c.Remember(ctx, &triskelev1.Memory{Namespace: "team", Content: prompt, Source: "agent"})
		return answer, err
	}

	answer, err := turn(context.Background(), "Are deploys frozen on Friday?", func(known []string, _ string) string {
		return "As far as I know: " + known[0]
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
	// Output: As far as I know: Deploys are frozen from Thursday noon.
}

// With an idempotency key a call can be repeated.
func ExampleClient_Remember() {
	c, stop := clienttest.Start()
	defer stop()

	for range 2 {
		m, err := c.Remember(context.Background(), &triskelev1.Memory{
			Namespace: "team", Content: "Deploys are frozen from Thursday noon.", Tags: []string{"release"}, IdempotencyKey: "freeze-2026",
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.GetRevision(), m.GetContent())
	}
	// Output:
	// 1 Deploys are frozen from Thursday noon.
	// 1 Deploys are frozen from Thursday noon.
}

// Pages are fetched as they are needed.
func ExampleClient_List() {
	c, stop := clienttest.Start(
		&triskelev1.Memory{Namespace: "team", Content: "first"},
		&triskelev1.Memory{Namespace: "team", Content: "second"},
		&triskelev1.Memory{Namespace: "team", Content: "third"},
	)
	defer stop()

	for m, err := range c.List(context.Background(), &triskelev1.ListRequest{Namespace: "team", PageSize: proto.Int32(2)}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.GetContent())
	}
	// Output:
	// third
	// second
	// first
}

// An export is everything, oldest first.
func ExampleClient_Export() {
	c, stop := clienttest.Start(
		&triskelev1.Memory{Namespace: "team", Content: "first"},
		&triskelev1.Memory{Namespace: "team", Content: "second"},
	)
	defer stop()

	for m, err := range c.Export(context.Background(), "team") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.GetContent())
	}
	// Output:
	// first
	// second
}
