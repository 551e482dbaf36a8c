package standalone_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/triskele/triskele/fuser/gateway"
	triskelev1 "github.com/triskele/triskele/proto/triskele/v1"
	"github.com/triskele/triskele/services/embed"
	"github.com/triskele/triskele/services/wiring/standalone"
)

// TestRememberedAnswers asks the same after each kind of write: an answer is given again only while nothing has changed.
func TestRememberedAnswers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config standalone.Config) {
		config.Gateway.Cache = gateway.CacheConfig{Bytes: 1 << 20, TTL: time.Hour}
		recalls, memory := start(t, config, embed.NewHashed())
		// ask recalls with and without what was remembered, until there is something and it says all there is to say.
		ask := func(when string, want int) {
			t.Helper()
			req := &triskelev1.RecallRequest{Namespaces: []string{"n"}, Query: "Heron crane", Budget: durationpb.New(10 * time.Second)}
			for deadline := time.Now().Add(30 * time.Second); ; {
				resp, err := recalls.Recall(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				if len(resp.GetHits()) != want {
					t.Fatalf("%s: %v", when, resp)
				}
				if resp.GetAge() != nil {
					for _, l := range resp.GetLegs() {
						if l.GetBehind() > 0 || l.GetReturned() != int32(want) && l.GetLeg() == "dense" {
							t.Errorf("%s: remembered with an index that lags: %v", when, resp)
						}
					}
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: no answer is remembered", when)
				}
			}
		}
		first := remember(t, memory, "The Heron crane is serviced in spring.").GetMemory()
		ask("one stored", 1)
		second := remember(t, memory, "The Heron crane is sold in autumn.").GetMemory()
		ask("two stored", 2)
		if _, err := memory.Update(t.Context(), &triskelev1.UpdateRequest{
			Namespace: "n", Id: first.GetId(), Memory: &triskelev1.Memory{Importance: new(.9)}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"importance"}},
		}); err != nil {
			t.Fatal(err)
		}
		ask("one changed", 2)
		if _, err := memory.Supersede(t.Context(), &triskelev1.SupersedeRequest{Id: second.GetId(), Replacement: &triskelev1.Memory{Namespace: "n", Content: "The Heron crane is kept."}}); err != nil {
			t.Fatal(err)
		}
		ask("one replaced", 2)
		if _, err := memory.Forget(t.Context(), &triskelev1.ForgetRequest{Namespace: "n", Ids: []string{first.GetId()}}); err != nil {
			t.Fatal(err)
		}
		ask("one forgotten", 1)
	})
}
